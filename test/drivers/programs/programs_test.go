package programs

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryToolIsKnown: the folders with pins have the programs of the table and no others.
func TestEveryToolIsKnown(t *testing.T) {
	for _, folder := range []string{pinned, ofOLM} {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", folder, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		_, block, _ := strings.Cut(string(content), "\ntool (\n")
		block, _, found := strings.Cut(block, "\n)")
		if !found {
			t.Fatalf("%s/go.mod has no block of tools", folder)
		}
		tools := strings.Fields(block)
		var known []string
		for _, from := range origins {
			if !from.source && from.module != "" && from.folder() == folder {
				known = append(known, path.Join(from.module, from.pkg))
			}
		}
		slices.Sort(tools)
		slices.Sort(known)
		if !slices.Equal(tools, known) {
			t.Errorf("%s/go.mod pins\n%s\nand the table has\n%s", folder, strings.Join(tools, "\n"), strings.Join(known, "\n"))
		}
	}
}

func TestUnknownProgram(t *testing.T) {
	_, err := Path(t.Context(), nil, "csi-provisoner")
	if err == nil || !strings.Contains(err.Error(), `"csi-provisoner"`) || !strings.Contains(err.Error(), "csi-provisioner,") {
		t.Errorf("got %v, want an error that names it and what there is", err)
	}
}

func TestNoSource(t *testing.T) {
	_, err := Source("no-such-driver")
	if !errors.Is(err, ErrNoSource) || !strings.Contains(err.Error(), "no-such-driver") {
		t.Errorf("got %v, want ErrNoSource and the folder", err)
	}
}
