package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestBlocks: a block of text right after commands is their output, and any other one is a block of its own.
func TestBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	const text = `# A page

- In a list:

  ~~~
  oc get pods
  ~~~

  ~~~text
  old-name
  ~~~

~~~text
more
~~~

## Another

~~~
oc get nodes
~~~

Nothing of that:

~~~text
far
~~~
`
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "~~~", "```")), 0o644); err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("old-name", "new-name")
	var got []Block
	for _, below := range []string{"# A page", "## Another"} {
		got = append(got, Blocks(t, path, below, names)...)
	}
	want := []Block{
		{Heading: "# A page", Text: "oc get pods\n", Output: "new-name\n"},
		{Heading: "# A page", Language: "text", Text: "more\n"},
		{Heading: "## Another", Text: "oc get nodes\n"},
		{Heading: "## Another", Language: "text", Text: "far\n"},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Block{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
