package document

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/findings"
)

// TestEdits: a scalar gets another text and keeps its quotes; the rest of the file stays. Ambiguous scalars stay, too.
func TestEdits(t *testing.T) {
	replaced := func(path ...any) func(Document) []findings.Edit {
		return func(d Document) []findings.Edit { return d.Replaced(path, "new") }
	}
	quoted := func(path ...any) func(Document) []findings.Edit {
		return func(d Document) []findings.Edit { return d.Quoted(path) }
	}
	added := func(path ...any) func(Document) []findings.Edit {
		return func(d Document) []findings.Edit { return d.Added(path, "key", "the text") }
	}
	for name, tc := range map[string]struct {
		edit         func(Document) []findings.Edit
		before, want string // the same if there is no edit
	}{
		"plain":                   {replaced("a"), "a: old # why\n", "a: new # why\n"},
		"in single quotes":        {replaced("a"), "a: 'it''s'\n", "a: 'new'\n"},
		"in double quotes":        {replaced("a", 1), "a: [x, \"o\\\"ld\", y]\n", "a: [x, \"new\", y]\n"},
		"after other characters":  {replaced("é"), "b: 1\né: old\n", "b: 1\né: new\n"},
		"the second document":     {replaced("b"), "a: 1\n---\n# why\nb: old\n", "a: 1\n---\n# why\nb: new\n"},
		"in JSON":                 {replaced("a"), "{\"a\": \"old\"}\n", "{\"a\": \"new\"}\n"},
		"a number":                {replaced("a"), "a: 4.20\n", "a: \"new\"\n"},
		"a block":                 {replaced("a"), "a: |\n  old\n", "a: |\n  old\n"},
		"with an anchor":          {replaced("a"), "a: &x old\n", "a: &x old\n"},
		"with a tag":              {replaced("a"), "a: !!str old\n", "a: !!str old\n"},
		"over two lines":          {replaced("a"), "a: old\n  text\n", "a: old\n  text\n"},
		"an alias":                {replaced("b"), "a: &x old\nb: *x\n", "a: &x old\nb: *x\n"},
		"not there":               {replaced("b"), "a: old\n", "a: old\n"},
		"an object":               {replaced("a"), "a: {b: c}\n", "a: {b: c}\n"},
		"as written":              {quoted("a"), "a: 4.20\n", "a: \"4.20\"\n"},
		"as written, a boolean":   {quoted("a"), "a: True # why\n", "a: \"True\" # why\n"},
		"as written, in JSON":     {quoted("a"), "{\"a\": 4.20}\n", "{\"a\": \"4.20\"}\n"},
		"as written, a text":      {quoted("a"), "a: \"b\"\n", "a: \"b\"\n"},
		"a field":                 {added(), "a: 1\nb: 2\n", "key: \"the text\"\na: 1\nb: 2\n"},
		"a field below":           {added("a", 0), "a:\n- b: 1\n  c: 2\n", "a:\n- b: 1\n  key: \"the text\"\n  c: 2\n"},
		"a field after a comment": {added("a"), "a:\n  # why\n  b: 1\n  c: 2\n", "a:\n  # why\n  b: 1\n  key: \"the text\"\n  c: 2\n"},
		"a field of Windows":      {added(), "a: 1\r\n", "key: \"the text\"\r\na: 1\r\n"},
		"no line of its own":      {added(), "{a: 1}\n", "{a: 1}\n"},
		"a field of a text":       {added("a"), "a: 1\n", "a: 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			documents, faults := Parse("file.yaml", []byte(tc.before))
			require.Empty(t, faults)
			got := tc.before
			for _, e := range tc.edit(documents[len(documents)-1]) {
				require.Truef(t, strings.HasPrefix(got[e.Offset:], e.Old), "%q is not at %d of %q", e.Old, e.Offset, got)
				got = got[:e.Offset] + e.New + got[int(e.Offset)+len(e.Old):]
			}
			assert.EqualValues(t, tc.want, got)
		})
	}
}
