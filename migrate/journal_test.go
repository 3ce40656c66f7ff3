package migrate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestJournalNames(t *testing.T) {
	long := strings.Repeat("x", 250)
	names := map[string]Subject{}
	for _, s := range []Subject{
		{Namespace: "a", Name: "b.c"}, {Namespace: "a-b", Name: "c"}, {Namespace: "a", Name: "b-c"}, {Namespace: "long", Name: "a"},
		{Namespace: "a", Name: long}, {Namespace: "a", Name: long + "y"}, {Namespace: "aa", Name: long}, {Namespace: "long", Name: long},
	} {
		name := Engine[Plan]{Name: "move"}.journalName(s)
		if clash, found := names[name]; found {
			t.Errorf("%s and %s share journal %s", s, clash, name)
		}
		names[name] = s
		assert.NoError(t, ValidateName("name", name))
	}
}
