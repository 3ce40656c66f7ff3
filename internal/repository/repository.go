// Package repository checks repositories of operators, such as the ones for OpenShift's community and certified
// catalogs: operators/NAME/VERSION is a bundle, operators/NAME/ci.yaml says how catalogs offer the bundles, and
// catalogs/vX.Y/NAME is the package in the catalog for a version of OpenShift.
//
// It checks bundles and catalogs by their own rules, and has rules of its own about several of them. It also finds the changes of a
// branch, so that only these have to be checked.
package repository

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/openshift"
)

// The names of files and folders of a repository, by slash-separated paths.
const (
	OperatorsDir  = "operators"
	CatalogsDir   = "catalogs"
	ConfigFile    = "config.yaml" // of the repository
	ciFile        = "ci.yaml"     // of an operator
	releaseFile   = "release-config.yaml"
	templatesDir  = "catalog-templates"
	catalogPrefix = "catalog." // prefix of the file of a package in a catalog
)

// Repository is a repository of operators in a folder.
type Repository struct {
	// Dir is the folder as the caller named it.
	Dir    string
	Config Config
}

// Config is the content of config.yaml, about the whole repository.
type Config struct {
	// Organization is the catalog that the repository is for.
	Organization string `json:"organization"`
	// Registries are the prefixes of pull specs that are allowed for bundles in catalogs.
	Registries []string `json:"allowed_bundle_registries"`
	// Tests are checks that are not run for some operators.
	Tests []Waiver `json:"tests"`

	waived map[string][]*regexp.Regexp // the names of operators that checks are not run for
}

// Waiver is a check that is not run for operators whose names match one of the regular expressions.
type Waiver struct {
	Name      string   `json:"name"`
	Operators []string `json:"ignore_operators"`
}

// Open opens the repository in a folder. config is the content of config.yaml in another commit; if it is nil, Open reads the file
// in the folder.
func Open(dir string, config []byte) (*Repository, error) {
	r := &Repository{Dir: dir}
	for _, folder := range []string{OperatorsDir, CatalogsDir} {
		if info, err := os.Lstat(filepath.Join(dir, folder)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is a link; expected a folder: a link may lead to files that are not in the repository", filepath.Join(dir, folder))
		}
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("%w; expected the folder of a repository of operators", err)
	}
	if !hasOperators(dir) {
		within := above(dir)
		err := fmt.Errorf("%s is not a repository of operators: it has no folder %s; expected %s/NAME/VERSION with a bundle each%s", dir, OperatorsDir, OperatorsDir, within)
		if within != "" {
			return nil, WithinError{err}
		}
		return nil, err
	}
	if config == nil {
		var err error
		if config, err = boundedyaml.ReadFileIn(dir, ConfigFile); errors.Is(err, fs.ErrNotExist) {
			return r, nil
		} else if err != nil {
			return nil, err
		}
	}
	if err := boundedyaml.Unmarshal(config, &r.Config); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ConfigFile), err)
	}
	if err := r.Config.compile(); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ConfigFile), err)
	}
	return r, nil
}

// hasOperators reports whether a folder has the folder of operators.
func hasOperators(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, OperatorsDir))
	return err == nil && info.IsDir()
}

// WithinError says that a folder is a part of a repository.
type WithinError struct{ error }

// above says which repository of operators a folder is in, if it is in one.
func above(dir string) string {
	at, err := filepath.Abs(dir)
	for err == nil && at != filepath.Dir(at) {
		if at = filepath.Dir(at); hasOperators(at) {
			return "; it is in the repository " + at + ": check that, and name the operators to check in packages of .berth.yaml"
		}
	}
	return ""
}

// patternsLimit is the maximum size of all patterns of waivers together, in bytes. Compiled, a letter can take some hundred times its size.
// A number of repetitions after it multiplies that by up to a thousand, so patterns may not have one.
const patternsLimit = 64 << 10

// compile compiles the patterns of waivers, each once.
func (c *Config) compile() error {
	c.waived = map[string][]*regexp.Regexp{}
	left := patternsLimit
	for _, w := range c.Tests {
		for _, pattern := range w.Operators {
			if left -= len(pattern); left < 0 {
				return fmt.Errorf("test %s: the patterns of all ignore_operators have more than %d bytes; expected fewer", w.Name, patternsLimit)
			}
			parsed, err := syntax.Parse(pattern, syntax.Perl)
			if err != nil {
				return fmt.Errorf("test %s: %w", w.Name, err)
			}
			if repeats(parsed) {
				return fmt.Errorf("test %s: ignore_operators has a pattern with a number of repetitions, %s; write out what is repeated", w.Name, pattern)
			}
			compiled, err := regexp.Compile("^(?:" + pattern + ")")
			if err != nil {
				return fmt.Errorf("test %s: %w", w.Name, err)
			}
			c.waived[w.Name] = append(c.waived[w.Name], compiled)
		}
	}
	return nil
}

// repeats reports whether a pattern has a part with a number of repetitions.
func repeats(pattern *syntax.Regexp) bool {
	return pattern.Op == syntax.OpRepeat || slices.ContainsFunc(pattern.Sub, repeats)
}

// organizations maps organizations to the profiles of their pipelines.
var organizations = map[string]findings.Gate{
	"community-operators": findings.Community,
	"certified-operators": findings.Certified,
	marketplace:           findings.Certified,
}

const marketplace = "redhat-marketplace"

// Profiles returns the profiles of the repository's pipeline, if it is known.
func (r *Repository) Profiles() []string {
	if gate, known := organizations[r.Config.Organization]; known {
		return []string{string(gate)}
	}
	return nil
}

// waives reports whether the configuration waives a check for an operator.
func (c Config) waives(check, operator string) bool {
	return slices.ContainsFunc(c.waived[check], func(of *regexp.Regexp) bool { return of.MatchString(operator) })
}

// path returns the path by which the caller can open a file of the repository.
func (r *Repository) path(parts ...string) string {
	return filepath.Join(r.Dir, filepath.FromSlash(path.Join(parts...)))
}

// folders returns the names of the folders in a folder, sorted. It returns none if that is missing.
func (r *Repository) folders(parts ...string) (names []string) {
	entries, _ := os.ReadDir(r.path(parts...))
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}

// Operators returns the names of the operators, sorted: folders with a bundle or a ci.yaml.
func (r *Repository) Operators() []string {
	return slices.DeleteFunc(r.folders(OperatorsDir), func(name string) bool { return !r.hasOperator(name) })
}

func (r *Repository) hasOperator(name string) bool {
	if info, err := os.Lstat(r.path(OperatorsDir, name, ciFile)); err == nil && info.Mode().IsRegular() {
		return true
	}
	return len(r.bundleNames(name)) > 0
}

// bundleNames returns the folders of an operator that have a bundle each, sorted.
func (r *Repository) bundleNames(operator string) []string {
	return slices.DeleteFunc(r.folders(OperatorsDir, operator), func(name string) bool { return !r.hasBundle(operator, name) })
}

func (r *Repository) hasBundle(operator, version string) bool {
	return registryv1.IsFolder(r.path(OperatorsDir, operator, version))
}

// Catalogs returns the names of the catalogs, sorted.
func (r *Repository) Catalogs() []string { return r.folders(CatalogsDir) }

// packages returns the packages with a folder in a catalog, sorted.
func (r *Repository) packages(catalog string) []string {
	return slices.DeleteFunc(r.folders(CatalogsDir, catalog), func(name string) bool { return !r.hasPackage(catalog, name) })
}

func (r *Repository) hasPackage(catalog, name string) bool {
	for _, extension := range []string{"yaml", "yml", "json"} {
		if info, err := os.Lstat(r.path(CatalogsDir, catalog, name, catalogPrefix+extension)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// openShiftVersions returns the versions of OpenShift for which the repository has catalogs, in order, or if it has none, all versions
// whose catalogs are still built.
func (r *Repository) openShiftVersions() (all []openshift.Version) {
	for _, name := range r.Catalogs() {
		if v, err := openshift.Parse(name); err == nil {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return openshift.Offering()
	}
	slices.SortFunc(all, openshift.Version.Compare)
	return all
}
