package fbc

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/action/migrations"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/registry"
)

// IsBundleFolder tells whether a folder looks like that of a bundle, and not like that of a catalog.
func IsBundleFolder(dir string) bool {
	for _, part := range []string{manifestsDir, metadataDir} {
		if info, err := os.Stat(filepath.Join(dir, part)); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// render returns the bundle as it stands in a catalog.
func (f *folder) render() (declcfg.Bundle, error) {
	_, properties, err := registry.ObjectsAndPropertiesFromBundle(f.Bundle)
	if err != nil {
		return declcfg.Bundle{}, err
	}
	images, err := f.relatedImages()
	if err != nil {
		return declcfg.Bundle{}, err
	}
	properties = objectsLast(properties)
	rendered := declcfg.Bundle{
		Schema:        declcfg.SchemaBundle,
		Name:          f.Name,
		Package:       f.Package,
		Image:         f.BundleImage,
		Properties:    properties,
		RelatedImages: images,
	}
	// As a reader of the catalog would find them.
	for _, p := range properties {
		if p.Type != property.TypeBundleObject {
			continue
		}
		var object property.BundleObject
		if err := json.Unmarshal(p.Value, &object); err != nil {
			return declcfg.Bundle{}, err
		}
		rendered.Objects = append(rendered.Objects, string(object.Data))
	}
	if rendered.CsvJSON, err = f.csvJSON(); err != nil {
		return declcfg.Bundle{}, err
	}
	if f.BundleImage == "" {
		return rendered, nil
	}
	return described(rendered)
}

// described returns a bundle that has an image with a description in the place of its objects: OLM takes
// those from the image.
func described(b declcfg.Bundle) (declcfg.Bundle, error) {
	config := declcfg.DeclarativeConfig{Bundles: []declcfg.Bundle{b}}
	toDescription, err := migrations.NewMigrations("bundle-object-to-csv-metadata")
	if err != nil {
		return b, err
	}
	if err := toDescription.Migrate(&config); err != nil {
		return b, err
	}
	b = config.Bundles[0]
	b.Objects, b.CsvJSON = nil, ""
	return b, nil
}

// csvJSON returns the ClusterServiceVersion.
func (f *folder) csvJSON() (string, error) {
	for _, object := range f.Objects {
		if object.GetKind() == v1alpha1.ClusterServiceVersionKind {
			data, err := json.Marshal(object)
			return string(data), err
		}
	}
	return "", nil
}

// objectsLast returns properties with the bundle's objects behind the others, for they are long.
func objectsLast(properties []property.Property) []property.Property {
	isObject := func(p property.Property) int {
		if p.Type == property.TypeBundleObject {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(properties, func(a, b property.Property) int { return isObject(a) - isObject(b) })
	return properties
}

// relatedImages returns the images that the ClusterServiceVersion lists, and of those that it does not
// list the bundle's own and those that its Deployments run.
func (f *folder) relatedImages() ([]declcfg.RelatedImage, error) {
	csv, err := f.ClusterServiceVersion()
	if err != nil {
		return nil, err
	}
	var spec struct {
		RelatedImages []declcfg.RelatedImage `json:"relatedImages"`
	}
	if err := json.Unmarshal(csv.Spec, &spec); err != nil {
		return nil, fmt.Errorf("spec.relatedImages: %w", err)
	}
	images := spec.RelatedImages
	run, err := csv.GetOperatorImages()
	if err != nil {
		return nil, fmt.Errorf("spec.install: %w", err)
	}
	if f.BundleImage != "" {
		run[f.BundleImage] = struct{}{}
	}
	for image := range run {
		if !slices.ContainsFunc(images, func(listed declcfg.RelatedImage) bool { return listed.Image == image }) {
			images = append(images, declcfg.RelatedImage{Image: image})
		}
	}
	slices.SortFunc(images, func(a, b declcfg.RelatedImage) int {
		return cmp.Or(cmp.Compare(a.Image, b.Image), cmp.Compare(a.Name, b.Name))
	})
	return images, nil
}

// entry returns the bundle's place in the upgrade graph.
func (f *folder) entry() (declcfg.ChannelEntry, error) {
	replaces, err := f.Replaces()
	if err != nil {
		return declcfg.ChannelEntry{}, fmt.Errorf("spec.replaces: %w", err)
	}
	skips, err := f.Skips()
	if err != nil {
		return declcfg.ChannelEntry{}, fmt.Errorf("spec.skips: %w", err)
	}
	skipRange, err := f.SkipRange()
	if err != nil {
		return declcfg.ChannelEntry{}, err
	}
	return declcfg.ChannelEntry{Name: f.Name, Replaces: replaces, Skips: skips, SkipRange: skipRange}, nil
}

// icon returns the bundle's first icon, or nil. Consoles put up with white space in its data.
func (f *folder) icon() (*declcfg.Icon, error) {
	csv, err := f.ClusterServiceVersion()
	if err != nil {
		return nil, err
	}
	var spec struct {
		Icon []v1alpha1.Icon `json:"icon"`
	}
	if err := json.Unmarshal(csv.Spec, &spec); err != nil || len(spec.Icon) == 0 {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(spec.Icon[0].Data), ""))
	if err != nil {
		return nil, fmt.Errorf("base64data: %w", err)
	}
	return &declcfg.Icon{Data: data, MediaType: spec.Icon[0].MediaType}, nil
}
