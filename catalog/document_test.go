package catalog

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/rogpeppe/go-internal/txtar"
)

// FuzzDecodeFile holds what is found wrong with a file against what operator-registry makes of it:
// what it cannot read is a finding, and its line is one of the file's.
func FuzzDecodeFile(f *testing.F) {
	archives, err := filepath.Glob("testdata/load/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			f.Add(file.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		blobs, faults := decodeFile("catalog.yaml", data)
		for _, fault := range faults {
			if last := lineOf(data, len(data)); fault.Line < 1 || fault.Line > last {
				t.Errorf("%v: the file has %d lines", fault, last)
			}
		}
		config, err := declcfg.LoadReader(bytes.NewReader(data))
		if err != nil && len(faults) == 0 {
			t.Errorf("no finding, but operator-registry fails: %v", err)
		}
		if err == nil && len(faults) == 0 && len(merge(blobs).Bundles) != len(config.Bundles) {
			t.Errorf("%d bundles, but operator-registry finds %d", len(merge(blobs).Bundles), len(config.Bundles))
		}
	})
}
