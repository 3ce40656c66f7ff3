package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "~~~", "```")), 0o644))
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
	assert.Empty(t, cmp.Diff(want, got, cmpopts.IgnoreUnexported(Block{})), "(-want +got)")
}
