package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/findings"
	"github.com/berth-csi/berth/findings/yamlplace"
	"github.com/berth-csi/berth/yaml"
)

var syntaxRule = findings.Rule{ID: "yaml", Severity: findings.Error, What: "Each file of manifests and metadata is YAML, and holds one document.",
	Why: "Nobody could read the bundle."}

// brokenFiles returns a finding for each file that cannot be read as YAML.
func brokenFiles(dir string) ([]*findings.Finding, error) {
	var broken []*findings.Finding
	for _, part := range []string{bundle.ManifestsDir, bundle.MetadataDir} {
		files, err := bundle.ReadFiles(dir, part)
		if errors.Is(err, fs.ErrNotExist) {
			continue // bundle.Load tells what a bundle is
		}
		if err != nil {
			return nil, fmt.Errorf("bundle folder %s: %w", dir, err)
		}
		for _, f := range files {
			var content any
			if err := yaml.Unmarshal(f.Data, &content); err != nil {
				offset, message := yamlplace.Fault(f.Data, err)
				broken = append(broken, syntaxRule.Finding(filepath.Join(dir, filepath.FromSlash(f.Path)), "%s", message).
					At(yamlplace.Of(f.Data, offset)))
			}
		}
	}
	return broken, nil
}
