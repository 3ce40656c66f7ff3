package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/berth-csi/berth/findings"
	"github.com/berth-csi/berth/registryv1"
	"github.com/berth-csi/berth/yaml"
)

var syntaxRule = findings.Rule{ID: "yaml", Severity: findings.Error, What: "Each file of manifests and metadata is YAML, and holds one document.",
	Why: "The bundle could not be read."}

var expansionRule = findings.Rule{ID: "yaml-expansion", Severity: findings.Error, What: "No YAML in the folder expands many times through aliases, nests very deep or holds very many values.",
	Why: "A few kilobytes could exhaust the memory of every reader. Validators read every file of the folder."}

// brokenFiles returns a finding for each file that is not YAML, and for each that would need too much memory.
func brokenFiles(dir string) (broken []*findings.Finding, err error) {
	err = filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		isHidden := file != dir && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && isHidden:
			return fs.SkipDir
		case entry.IsDir() || isHidden:
			return nil
		}
		below, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		data, err := yaml.ReadFileIn(dir, below)
		if err != nil {
			return err
		}
		var content any
		if err := yaml.Unmarshal(data, &content); err != nil {
			broken = append(broken, faultOf(file, data, err, mustBeYAML(dir, file))...)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // registryv1.Load reports it
	}
	if err != nil {
		return nil, fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	return broken, nil
}

// mustBeYAML reports whether a file is in one of the folders that a bundle consists of.
func mustBeYAML(dir, file string) bool {
	folder, err := filepath.Rel(dir, filepath.Dir(file))
	return err == nil && (folder == registryv1.ManifestsDir || folder == registryv1.MetadataDir)
}

// faultOf returns why a file cannot be read, if that is a fault.
func faultOf(file string, data []byte, err error, mustBeYAML bool) []*findings.Finding {
	if refusal := (*yaml.Refusal)(nil); errors.As(err, &refusal) {
		return []*findings.Finding{expansionRule.Finding(file, "%s", refusal.Message).At(refusal.Line, refusal.Column)}
	}
	if !mustBeYAML {
		return nil
	}
	offset, message := yaml.Fault(data, err)
	return []*findings.Finding{syntaxRule.Finding(file, "%s", message).At(yaml.Position(data, offset))}
}
