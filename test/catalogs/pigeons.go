package catalogs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// WritePigeons writes a catalog whose package tide requires n+1 packages, each in n versions, where no two packages may
// provide the same one of n APIs. So nothing can be installed, and a resolver that does not count tries all
// permutations: each additional package takes six times as long.
func WritePigeons(dir string, n int) error {
	var docs, required []any
	pkg := func(name string) {
		docs = append(docs, map[string]any{"schema": "olm.package", "name": name, "defaultChannel": "c0"})
	}
	channel := func(of string, i int, bundle string) {
		docs = append(docs, map[string]any{"schema": "olm.channel", "package": of, "name": fmt.Sprintf("c%d", i), "entries": []any{map[string]any{"name": bundle}}})
	}
	bundle := func(of, version string, properties ...any) {
		docs = append(docs, map[string]any{"schema": "olm.bundle", "package": of, "name": of + ".v" + version, "image": "registry.example.com/x/y@sha256:" + strings.Repeat("0", 64),
			"properties": append([]any{map[string]any{"type": "olm.package", "value": map[string]any{"packageName": of, "version": version}}}, properties...)})
	}
	for i := range n + 1 {
		pigeon := fmt.Sprintf("pigeon%d", i)
		required = append(required, map[string]any{"type": "olm.package.required", "value": map[string]any{"packageName": pigeon, "versionRange": ">=0.0.0"}})
		pkg(pigeon)
		for j := range n { // in a channel of its own, so that each is a head
			version := fmt.Sprintf("1.%d.0", j)
			channel(pigeon, j, pigeon+".v"+version)
			bundle(pigeon, version, map[string]any{"type": "olm.gvk", "value": map[string]any{"group": "hole.example", "version": "v1", "kind": fmt.Sprintf("Hole%d", j)}})
		}
	}
	pkg("tide")
	channel("tide", 0, "tide.v1.0.0")
	bundle("tide", "1.0.0", required...)
	var text strings.Builder
	for _, d := range docs {
		if err := json.NewEncoder(&text).Encode(d); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "catalog.json"), []byte(text.String()), 0o644)
}
