package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/findings"
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
				line, message := syntaxFault(err)
				broken = append(broken, syntaxRule.Finding(filepath.Join(dir, filepath.FromSlash(f.Path)), "%s", message).
					At(line, firstColumn(f.Data, line)))
			}
		}
	}
	return broken, nil
}

var lineOfFault = regexp.MustCompile(`line (\d+): (.*)`)

// syntaxFault parts what the decoder says into the line and the rest. What its scanner refuses, it counts
// from 1; what its parser refuses, from 0.
func syntaxFault(err error) (line int, message string) {
	message = strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", " "), "error converting YAML to JSON: yaml: ")
	if parts := lineOfFault.FindStringSubmatch(message); parts != nil {
		line, _ = strconv.Atoi(parts[1]) // digits
		message = parts[2]
	}
	if strings.HasPrefix(message, "did not find expected") {
		line++
	}
	return max(line, 1), message
}

// firstColumn returns the column of the first character of a line that is no space.
func firstColumn(data []byte, line int) int {
	lines := strings.Split(string(data), "\n")
	if line > len(lines) {
		return 1
	}
	text := lines[line-1]
	return 1 + len(text) - len(strings.TrimLeft(text, " "))
}
