package fbc

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/test/catalogs"
)

// FuzzDecode compares with operator-registry: a file that it cannot read has a finding, and findings are at lines of the
// file.
func FuzzDecode(f *testing.F) {
	for _, file := range catalogs.Files(f, "../rules/testdata/validate") {
		f.Add(file.Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bundles := 0
		var faults []*findings.Finding
		splitter := document.Splitter{
			Yield: func(s document.Section) bool {
				sc := scanner{keep: func(document.Document) error { return nil }}
				entries, err := sc.decode(s)
				require.NoError(t, err)
				for _, e := range entries {
					if e.fault != nil {
						faults = append(faults, e.fault)
					} else if e.bundle != nil {
						bundles++
					}
				}
				return true
			},
			Fault: func(fault *findings.Finding) { faults = append(faults, fault) },
		}
		require.NoError(t, splitter.Split("catalog.yaml", bytes.NewReader(data)))
		for _, fault := range faults {
			if last := 1 + bytes.Count(data, []byte("\n")); fault.Line < 1 || fault.Line > last {
				t.Errorf("%v: the file has %d lines", fault, last)
			}
		}
		config, err := declcfg.LoadReader(bytes.NewReader(data))
		if err != nil && len(faults) == 0 {
			t.Errorf("no finding, but operator-registry fails: %v", err)
		}
		if err == nil && len(faults) == 0 && bundles != len(config.Bundles) {
			t.Errorf("%d bundles, but operator-registry finds %d", bundles, len(config.Bundles))
		}
	})
}

// FuzzScan compares bundles that are scanned in place with the same bundles decoded.
func FuzzScan(f *testing.F) {
	for _, file := range catalogs.Files(f, "../rules/testdata/validate") {
		documents, _ := document.Parse("catalog.yaml", file.Data)
		for _, d := range documents {
			f.Add(d.Content)
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		got := new(scanner).bundle(content)
		if got == nil {
			return
		}
		d := document.Document{Source: content, Content: content}
		d.JSON = true
		want, faults := decodeDocument(d)
		if len(faults) > 0 {
			t.Fatalf("it is read, but otherwise %v", faults[0])
		}
		assert.Empty(t, cmp.Diff(want.bundle, got, cmpopts.EquateEmpty()), "-decoded +read")
	})
}
