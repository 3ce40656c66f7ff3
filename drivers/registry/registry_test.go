package registry

import (
	"strings"
	"testing"
)

func TestGet(t *testing.T) {
	for _, name := range Names() {
		d, err := Get(name)
		if err != nil || d.Name != name {
			t.Errorf("Get(%q) = driver %q, error %v", name, d.Name, err)
		}
	}
	_, err := Get("floppy")
	if want := `unknown driver "floppy": want one of ` + strings.Join(Names(), ", "); err == nil || err.Error() != want {
		t.Errorf("Get of an unknown driver: error %v, want %s", err, want)
	}
}

func TestAllIsACopy(t *testing.T) {
	All()[0].Name = "changed"
	if name := All()[0].Name; name == "changed" {
		t.Error("a caller of All can change the registry")
	}
}
