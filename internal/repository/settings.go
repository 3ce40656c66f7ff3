package repository

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/gates"
)

// SettingsFile is the file with the settings of a repository.
const SettingsFile = ".berth.yaml"

// Settings say which checks a repository wants, and which findings it accepts.
type Settings struct {
	// Profiles are the names of profiles. The default is the profile of the repository's pipeline.
	Profiles []string `json:"profiles,omitempty"`
	// Severities are error, warning or off, by rule.
	Severities map[string]findings.Verdict `json:"severities,omitempty"`
	// Ignore lists rules to ignore, as RULE or RULE:PACKAGE.
	Ignore []string `json:"ignore,omitempty"`
	// Baseline is the path in the repository of a JSON report with known findings.
	Baseline string `json:"baseline,omitempty"`
	// Packages are the packages to check. The default is all.
	Packages []string `json:"packages,omitempty"`
}

// File reads a file of the repository, from the folder or a commit. Its error is fs.ErrNotExist if the file does not exist.
type File func(name string) ([]byte, error)

// In reads files of a folder.
func In(dir string) File {
	return func(name string) ([]byte, error) { return boundedyaml.ReadFileIn(dir, filepath.FromSlash(name)) }
}

// ReadSettings reads the settings of a repository. given is false without a file.
func ReadSettings(file File) (s Settings, given bool, err error) {
	data, err := file(SettingsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	if err := boundedyaml.UnmarshalStrict(data, &s); err != nil {
		return s, true, fmt.Errorf("%s: %w; want profiles, severities, ignore, baseline and packages", SettingsFile, err)
	}
	if _, err := gates.Parse(s.Profiles); err != nil {
		return s, true, fmt.Errorf("%s: %w", SettingsFile, err)
	}
	if _, err := s.Choice(); err != nil {
		return s, true, fmt.Errorf("%s: %w", SettingsFile, err)
	}
	if s.Baseline != "" && (!filepath.IsLocal(s.Baseline) || strings.HasPrefix(s.Baseline, "-")) {
		return s, true, fmt.Errorf("%s: baseline is %q, want a path in the repository", SettingsFile, s.Baseline)
	}
	return s, true, nil
}

// Choice returns the severities and ignored rules in the settings.
func (s Settings) Choice() (findings.Choice, error) {
	var severities []string
	for _, rule := range slices.Sorted(maps.Keys(s.Severities)) {
		severities = append(severities, rule+"="+string(s.Severities[rule]))
	}
	return findings.NewChoice(Rules(), severities, s.Ignore)
}
