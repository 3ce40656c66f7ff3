package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// template is the template of a package in a catalog.
type template struct {
	catalog string
	file    string
	content map[string]any
	// folders are the bundle folders that the template names.
	folders []string
}

// readTemplates reads the templates of catalogs.
func readTemplates(catalogs []catalogImage) ([]template, error) {
	var all []template
	for _, catalog := range catalogs {
		files, err := filepath.Glob(filepath.Join(catalog.templates, "*.yaml"))
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("no template in %s; a release is made in the top folder of a clone", catalog.templates)
		}
		for _, file := range files {
			t := template{catalog: catalog.name, file: file}
			data, err := boundedyaml.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if err := boundedyaml.Unmarshal(data, &t.content); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			for _, b := range t.bundles() {
				if folder, ok := b["folder"].(string); ok {
					t.folders = append(t.folders, t.path(folder))
				}
			}
			all = append(all, t)
		}
	}
	return all, nil
}

// bundles returns the template's entries of bundles. A change to an entry changes the template.
func (t template) bundles() (entries []map[string]any) {
	list, _ := t.content["bundles"].([]any)
	for _, entry := range list {
		if b, ok := entry.(map[string]any); ok {
			entries = append(entries, b)
		}
	}
	return entries
}

// path returns the path of a folder that the template names.
func (t template) path(folder string) string { return filepath.Join(filepath.Dir(t.file), folder) }

// withImages replaces the bundle folders in the template by images, and returns its text. images has an image for each folder.
func (t template) withImages(images map[string]string) ([]byte, error) {
	for _, b := range t.bundles() {
		if folder, ok := b["folder"].(string); ok {
			delete(b, "folder")
			b["image"] = images[t.path(folder)]
		}
	}
	return boundedyaml.Marshal(t.content)
}

// bundleFolder is the folder of one version of a package: bundle/PACKAGE/VERSION.
type bundleFolder string

func (b bundleFolder) pkg() string     { return filepath.Base(filepath.Dir(string(b))) }
func (b bundleFolder) version() string { return filepath.Base(string(b)) }

// repository returns the name of the repository of the package's bundles.
func (b bundleFolder) repository() string { return b.pkg() + "-bundle" }

// tag returns the tag of the bundle's image. Tags cannot have a plus sign.
func (b bundleFolder) tag() string { return "v" + strings.ReplaceAll(b.version(), "+", "-") }

// bundles returns the folders that the templates list, each once: packages by name, versions from the oldest.
func (r *release) bundles() []bundleFolder {
	var folders []bundleFolder
	for _, t := range r.templates {
		for _, folder := range t.folders {
			folders = append(folders, bundleFolder(folder))
		}
	}
	slices.SortFunc(folders, func(a, b bundleFolder) int {
		if byPackage := strings.Compare(a.pkg(), b.pkg()); byPackage != 0 {
			return byPackage
		}
		versionA, errA := semver.Parse(a.version())
		versionB, errB := semver.Parse(b.version())
		if errA != nil || errB != nil {
			return strings.Compare(a.version(), b.version())
		}
		return versionA.Compare(versionB)
	})
	return slices.Compact(folders)
}

// isNewest reports whether a bundle is the newest one of its package.
func (r *release) isNewest(b bundleFolder) bool {
	for _, other := range slices.Backward(r.bundles()) {
		if other.pkg() == b.pkg() {
			return other == b
		}
	}
	return false
}
