package repository

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/findings"
)

// Place is a bundle, by operator and folder, or a package, by catalog and name.
type Place struct{ Above, Name string }

func (p Place) String() string { return p.Above + "/" + p.Name }

// Change lists the changes of a branch by parts of the repository.
type Change struct {
	// Operators are the operators with changed files.
	Operators                []string
	Added, Modified, Deleted []Place // bundles
	// Packages are the added or modified packages in catalogs, and PackagesDeleted the deleted ones.
	Packages, PackagesDeleted []Place
	// Others are the paths of files outside operators and catalogs.
	Others []string
}

// Before is the commit that a change is compared with.
type Before interface {
	// Has returns the folders, by slash-separated path, that the commit has.
	Has(folders []string) (map[string]bool, error)
}

// ChangeOf sorts the paths of changed files by parts of the repository.
func (r *Repository) ChangeOf(files []string, before Before) (c Change, err error) {
	bundles, packages, operators := map[Place]bool{}, map[Place]bool{}, map[string]bool{}
	var loose []string
	for _, file := range files {
		parts := strings.Split(file, "/")
		switch {
		case len(parts) < 3:
			c.Others = append(c.Others, file)
		case parts[0] == OperatorsDir:
			operators[parts[1]] = true
			bundles[Place{parts[1], parts[2]}] = true
		case parts[0] == CatalogsDir:
			packages[Place{parts[1], parts[2]}] = true
		default:
			loose = append(loose, file)
		}
	}
	c.Others = append(c.Others, loose...)
	c.Operators = slices.Sorted(maps.Keys(operators))
	var asked []string
	for p := range bundles {
		asked = append(asked, bundleFolders(p)...)
	}
	for p := range packages {
		asked = append(asked, CatalogsDir+"/"+p.String())
	}
	had, err := before.Has(asked)
	if err != nil {
		return c, err
	}
	for _, p := range sorted(bundles) {
		folders := bundleFolders(p)
		was, is := had[folders[0]] && had[folders[1]], r.hasBundle(p.Above, p.Name)
		switch {
		case was && is:
			c.Modified = append(c.Modified, p)
		case is:
			c.Added = append(c.Added, p)
		case was:
			c.Deleted = append(c.Deleted, p)
		}
	}
	for _, p := range sorted(packages) {
		switch {
		case r.hasPackage(p.Above, p.Name):
			c.Packages = append(c.Packages, p)
		case had[CatalogsDir+"/"+p.String()]:
			c.PackagesDeleted = append(c.PackagesDeleted, p)
		}
	}
	return c, nil
}

// bundleFolders returns the folders by which a folder is recognized as a bundle.
func bundleFolders(p Place) []string {
	dir := OperatorsDir + "/" + p.String()
	return []string{dir + "/manifests", dir + "/metadata"}
}

func sorted(places map[Place]bool) []Place {
	return slices.SortedFunc(maps.Keys(places), func(a, b Place) int { return strings.Compare(a.String(), b.String()) })
}

// checkShape checks a change as a whole.
func (r *Repository) checkShape(c Change) (found []*findings.Finding) {
	add := func(parts []string, format string, args ...any) {
		found = append(found, changeRule.Finding(r.path(parts...), format, args...))
	}
	if len(c.Others) > 0 {
		add([]string{c.Others[0]}, "the change is also about files that are part of no operator and no catalog: %s; make it another one", strings.Join(c.Others, ", "))
	}
	bundles := len(c.Added) + len(c.Modified) + len(c.Deleted)
	if len(c.Operators) > 1 && bundles > 0 {
		add([]string{OperatorsDir}, "the change is about several operators: %s; make one for each", strings.Join(c.Operators, ", "))
	}
	for _, p := range c.Modified {
		add([]string{OperatorsDir, p.Above, p.Name}, "the change modifies a bundle that is there; add a new version instead")
	}
	if len(c.Added) > 1 {
		add([]string{OperatorsDir, c.Added[1].Above, c.Added[1].Name}, "the change adds %d bundles: %s; make one for each", len(c.Added), texts(c.Added))
	}
	if len(c.Added) > 0 && len(c.Deleted) > 0 {
		add([]string{OperatorsDir}, "the change adds bundles (%s) and deletes others (%s); make one for each", texts(c.Added), texts(c.Deleted))
	}
	if packages := slices.Concat(c.Packages, c.PackagesDeleted); len(packages) > 0 && len(c.Added)+len(c.Modified) > 0 {
		add([]string{CatalogsDir, packages[0].Above, packages[0].Name}, "the change is about bundles (%s) and catalogs (%s); make one for each", texts(slices.Concat(c.Added, c.Modified)), texts(packages))
	}
	return found
}

func texts(places []Place) string { return strings.Join(names(places), ", ") }

func names(places []Place) (all []string) {
	for _, p := range places {
		all = append(all, p.String())
	}
	return all
}
