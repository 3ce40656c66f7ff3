package render

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/action/migrations"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/registry"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/fbc/rawjson"
	"github.com/berth-csi/berth/internal/findings"
)

// Format is the form in which a catalog holds the content of a bundle's image. Its value is opm's migrate level for this form.
type Format string

const (
	// Whole has all objects of the bundle. The catalogs of OpenShift up to 4.16 are of this format.
	Whole Format = "none"
	// Described has a description of the ClusterServiceVersion instead, which is much shorter.
	Described Format = "bundle-object-to-csv-metadata"
)

// BundleFormats are all formats.
var BundleFormats = []Format{Whole, Described}

// Bundle is a bundle that was read from a folder or an image, with its document for a catalog.
type Bundle struct {
	*registryv1.Contents
	Version *declcfg.VersionRelease

	registry *registry.Bundle
	// whole is the document with all objects.
	whole declcfg.Bundle
}

// Folder reads and renders the bundle in a folder.
func Folder(dir string) (*Bundle, error) { return FolderAs(dir, nil) }

// FolderAs is like Folder, for a bundle whose image has the pull spec that a template makes. Without a template, the bundle has no
// image.
func FolderAs(dir string, image *ImageTemplate) (*Bundle, error) {
	contents, err := registryv1.Load(dir)
	if err != nil {
		return nil, err
	}
	return newBundle(contents, image.image)
}

// Image renders the bundle in an image, from the files in the registryv1.Folders of the image.
func Image(reference string, files map[string][]byte) (*Bundle, error) {
	contents, err := registryv1.LoadImage(reference, files)
	if err != nil {
		return nil, err
	}
	return newBundle(contents, func(string, string, string) string { return reference })
}

// imageOf returns the pull spec of a bundle's image, or "".
type imageOf func(pkg, name, version string) string

func newBundle(contents *registryv1.Contents, image imageOf) (*Bundle, error) {
	b, err := describe(contents, image)
	return b, contents.Blame(err)
}

// describe makes the document of a bundle for a catalog.
func describe(contents *registryv1.Contents, image imageOf) (*Bundle, error) {
	m := contents.Metadata
	if got := m.Annotations[registryv1.MediaTypeAnnotation]; got != registryv1.MediaType {
		f := m.FaultAt(registryv1.Format, []any{"annotations", registryv1.MediaTypeAnnotation}, "annotation %s is %q; expected %q, the only format of bundles that OLM installs",
			registryv1.MediaTypeAnnotation, got, registryv1.MediaType)
		f.Severity = findings.Warning
		contents.Found = append(contents.Found, f)
	}
	var objects []*unstructured.Unstructured
	for _, o := range contents.Objects {
		objects = append(objects, o.Unstructured)
	}
	b := &Bundle{Contents: contents, registry: registry.NewBundle("", &registry.Annotations{PackageName: contents.Package,
		Channels: m.Annotations[registryv1.ChannelsAnnotation], DefaultChannelName: m.Annotations[registryv1.DefaultChannelAnnotation]}, objects...)}
	csv, err := b.registry.ClusterServiceVersion()
	if err != nil {
		return nil, b.csvFault(err)
	}
	b.registry.Name = csv.GetName()
	for _, d := range m.Dependencies {
		b.registry.Dependencies = append(b.registry.Dependencies, &d)
	}
	if b.registry.Properties, err = b.properties(csv.GetAnnotations()[registry.PropertyKey]); err != nil {
		return nil, b.csvFault(err)
	}
	version, err := b.registry.Version()
	if err != nil {
		return nil, b.csvFault(err)
	}
	b.registry.BundleImage = image(b.Package, b.Name, version)
	if err := b.registry.AllProvidedAPIsInBundle(); err != nil {
		return nil, b.csvFault(fmt.Errorf("every API that spec.customresourcedefinitions.owned lists needs its "+
			"CustomResourceDefinition in %s: %w", filepath.Dir(b.CSV.File), err), "spec", "customresourcedefinitions", "owned")
	}
	if b.whole, err = b.render(); err != nil {
		return nil, b.csvFault(err)
	}
	if b.Version, err = b.whole.VersionRelease(); err != nil {
		return nil, b.csvFault(fmt.Errorf("spec.version: %w", err), "spec", "version")
	}
	return b, nil
}

// csvFault returns a finding about the bundle's ClusterServiceVersion, or about the value at a path in it.
func (b *Bundle) csvFault(err error, path ...any) *findings.Finding {
	return b.CSV.FaultAt(registryv1.Format, path, "%v", err)
}

// Compare orders bundles from the oldest version to the newest.
func (b *Bundle) Compare(other *Bundle) int {
	return cmp.Or(b.Version.Compare(other.Version), fbc.CompareVersions(b.Version.Version, other.Version.Version), cmp.Compare(b.Name, other.Name))
}

// Number returns the version as text.
func (b *Bundle) Number() string {
	number := b.Version.Version.String()
	if len(b.Version.Release) > 0 {
		number += ", release " + b.Version.Release.String()
	}
	return number
}

// Channels returns the channels in the bundle's annotations.
func (b *Bundle) Channels() (names []string) {
	for name := range strings.SplitSeq(b.Metadata.Annotations[registryv1.ChannelsAnnotation], ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// DefaultChannel returns the default channel in the bundle's annotations, or "".
func (b *Bundle) DefaultChannel() string {
	return b.Metadata.Annotations[registryv1.DefaultChannelAnnotation]
}

// Entry returns the channel entry that the bundle's ClusterServiceVersion defines.
func (b *Bundle) Entry() (declcfg.ChannelEntry, error) {
	replaces, err := b.registry.Replaces()
	if err != nil {
		return declcfg.ChannelEntry{}, b.csvFault(fmt.Errorf("spec.replaces: %w", err), "spec", "replaces")
	}
	skips, err := b.registry.Skips()
	if err != nil {
		return declcfg.ChannelEntry{}, b.csvFault(fmt.Errorf("spec.skips: %w", err), "spec", "skips")
	}
	skipRange, err := b.registry.SkipRange()
	if err != nil {
		return declcfg.ChannelEntry{}, b.csvFault(err)
	}
	return declcfg.ChannelEntry{Name: b.Name, Replaces: replaces, Skips: skips, SkipRange: skipRange}, nil
}

// Introduce copies the description and the icon of the bundle to a package that lacks them.
func (b *Bundle) Introduce(pkg *declcfg.Package) (err error) {
	if pkg.Description == "" {
		if pkg.Description, err = b.registry.Description(); err != nil {
			return b.csvFault(fmt.Errorf("spec.description: %w", err), "spec", "description")
		}
	}
	if pkg.Icon == nil {
		if pkg.Icon, err = b.icon(); err != nil {
			return b.csvFault(fmt.Errorf("spec.icon: %w", err), "spec", "icon")
		}
	}
	return nil
}

// properties returns the bundle's properties, each once: from its metadata, its package and version, and an annotation of its
// ClusterServiceVersion. If several name a package, the last one counts.
func (b *Bundle) properties(annotation string) ([]registry.Property, error) {
	version, err := b.registry.Version()
	if err != nil {
		return nil, err
	}
	release, err := b.registry.Release()
	if err != nil {
		return nil, err
	}
	all := slices.Clone(b.Metadata.Properties)
	if b.Package != "" {
		itself, err := json.Marshal(registry.PackageProperty{PackageName: b.Package, Version: version, Release: release})
		if err != nil {
			return nil, err
		}
		all = append(all, registry.Property{Type: registry.PackageType, Value: itself})
	}
	if annotation != "" {
		var annotated []registry.Property
		if err := json.Unmarshal([]byte(annotation), &annotated); err != nil {
			f := b.CSV.FaultAt(document.Field, []any{"metadata", "annotations", registry.PropertyKey},
				"annotation %s: expected a JSON array of properties; OLM's tools leave the annotation out, so the bundle lacks its properties in catalogs: %v", registry.PropertyKey, err)
			f.Severity = findings.Warning
			b.Found = append(b.Found, f)
		}
		all = append(all, annotated...) // opm also keeps the properties before the fault
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(p registry.Property) bool {
		again := seen[p.String()]
		seen[p.String()] = true
		return again
	}), nil
}

// In returns the bundle's document in a format, equal to the output of "opm render". A bundle without an image carries all its objects
// in any format, so that OLM can install it from the catalog alone.
func (b *Bundle) In(format Format) (declcfg.Bundle, error) {
	rendered, err := b.whole, error(nil)
	if format == Described && b.registry.BundleImage != "" {
		rendered, err = described(b.whole)
	}
	if err != nil {
		return declcfg.Bundle{}, b.csvFault(err)
	}
	for _, p := range rendered.Properties {
		if rawjson.IsDeep(p.Value) {
			in, path := b.CSV, []any(nil)
			if i := slices.IndexFunc(b.Metadata.Properties, func(own registry.Property) bool { return bytes.Equal(own.Value, p.Value) }); i >= 0 {
				in, path = b.Metadata.PropertiesIn, []any{"properties", i, "value"}
			}
			return declcfg.Bundle{}, in.FaultAt(document.Expansion, path, "a property of type %s of bundle %s nests more than %d levels deep; expected fewer", p.Type, b.Name, rawjson.MaxDepth)
		}
	}
	return rendered, nil
}

// Release frees memory: of the bundle's objects and files, which were needed to check and render it, and of the document with all objects
// unless whole is set. It returns about how many bytes the rest takes.
func (b *Bundle) Release(whole bool) (kept int, err error) {
	objects := slices.DeleteFunc(b.registry.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() != v1alpha1.ClusterServiceVersionKind })
	rest := registry.NewBundle(b.registry.Name, b.registry.Annotations, objects...)
	rest.BundleImage = b.registry.BundleImage
	csv, err := rest.ClusterServiceVersion() // from now on, it is cached there
	if err != nil {
		return 0, b.csvFault(err)
	}
	csv.ManagedFields, csv.OwnerReferences = nil, nil // these are not rendered, and may take far more memory than their text
	rest.Objects, b.registry, b.Files, b.Objects = nil, rest, nil, nil
	if !whole {
		if b.whole, err = b.In(Described); err != nil {
			return 0, err
		}
		b.whole.Properties = slices.Clone(b.whole.Properties) // the migration leaves the objects behind the end of the slice
	}
	const perValue = 100
	kept = len(csv.Spec) + len(b.whole.CsvJSON) + perValue*(len(csv.Annotations)+len(csv.Labels)+len(b.Metadata.Annotations)+len(b.Metadata.Dependencies)+len(b.whole.RelatedImages))
	for _, d := range []document.Document{b.CSV, b.Metadata.Document, b.Metadata.DependenciesIn, b.Metadata.PropertiesIn} {
		kept += len(d.Source) + len(d.Content)
	}
	for _, object := range b.whole.Objects {
		kept += len(object)
	}
	for _, p := range b.whole.Properties {
		kept += perValue + len(p.Value)
	}
	return kept, nil
}

// render returns the bundle's document with all objects.
func (b *Bundle) render() (declcfg.Bundle, error) {
	_, properties, err := registry.ObjectsAndPropertiesFromBundle(b.registry)
	if err != nil {
		return declcfg.Bundle{}, err
	}
	images, err := b.relatedImages()
	if err != nil {
		return declcfg.Bundle{}, err
	}
	properties = objectsLast(properties)
	rendered := declcfg.Bundle{
		Schema:        declcfg.SchemaBundle,
		Name:          b.Name,
		Package:       b.Package,
		Image:         b.registry.BundleImage,
		Properties:    properties,
		RelatedImages: images,
	}
	// declcfg.Bundle holds the objects a second time, as a reader of the catalog would decode them. OLM does not need them if the
	// bundle has an image.
	for _, p := range properties {
		if p.Type != property.TypeBundleObject || rendered.Image != "" {
			continue
		}
		var object property.BundleObject
		if err := json.Unmarshal(p.Value, &object); err != nil {
			return declcfg.Bundle{}, err
		}
		rendered.Objects = append(rendered.Objects, string(object.Data))
	}
	rendered.CsvJSON, err = b.csvJSON()
	return rendered, err
}

// described returns a bundle with a description of its ClusterServiceVersion instead of its objects.
func described(b declcfg.Bundle) (declcfg.Bundle, error) {
	b.Properties = slices.Clone(b.Properties) // the migration changes them
	config := declcfg.DeclarativeConfig{Bundles: []declcfg.Bundle{b}}
	toDescription, err := migrations.NewMigrations(string(Described))
	if err != nil {
		return b, err
	}
	if err := toDescription.Migrate(&config); err != nil {
		return b, err
	}
	return config.Bundles[0], nil
}

// migrated returns a bundle with a description instead of its objects, if the user chose that and the bundle has an image. It
// returns nil for all other documents, and an error if the ClusterServiceVersion cannot be read.
func (r *renderer) migrated(content []byte) (*declcfg.Bundle, error) {
	if r.options.Level != Described || !bytes.Contains(content, []byte(property.TypeBundleObject)) {
		return nil, nil
	}
	var b declcfg.Bundle
	if json.Unmarshal(content, &b) != nil || b.Schema != declcfg.SchemaBundle || b.Package == "" {
		return nil, nil // it is decoded like any other document
	}
	for _, p := range b.Properties {
		var object property.BundleObject
		var said struct {
			Kind string `json:"kind"`
		}
		if p.Type == property.TypeBundleObject && json.Unmarshal(p.Value, &object) == nil && json.Unmarshal(object.Data, &said) == nil && said.Kind == v1alpha1.ClusterServiceVersionKind {
			b.CsvJSON = string(object.Data)
			break
		}
	}
	if b.Image == "" || b.CsvJSON == "" {
		return nil, nil
	}
	b.Properties = payloadLast(b.Properties)
	sortImages(b.RelatedImages)
	b, err := described(b)
	return &b, err
}

// csvJSON returns the ClusterServiceVersion as JSON.
func (b *Bundle) csvJSON() (string, error) {
	for _, object := range b.Objects {
		if object.GetKind() == v1alpha1.ClusterServiceVersionKind {
			data, err := json.Marshal(object)
			return string(data), err
		}
	}
	return "", nil
}

// objectsLast returns properties with the bundle's objects last, because they are long.
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

// relatedImages returns the images that the ClusterServiceVersion lists. It adds the bundle's own image and the images of its
// Deployments, if they are not listed.
func (b *Bundle) relatedImages() ([]declcfg.RelatedImage, error) {
	csv, err := b.registry.ClusterServiceVersion()
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
	isListed := func(image string) bool {
		return slices.ContainsFunc(spec.RelatedImages, func(listed declcfg.RelatedImage) bool { return listed.Image == image })
	}
	run, err := csv.GetOperatorImages()
	if err != nil {
		return nil, fmt.Errorf("spec.install: %w", err)
	}
	if own := b.registry.BundleImage; own != "" && !isListed(own) {
		images = append(images, declcfg.RelatedImage{Image: own})
	}
	for _, image := range slices.Sorted(maps.Keys(run)) {
		if !isListed(image) {
			images = append(images, declcfg.RelatedImage{Image: image})
		}
	}
	sortImages(images)
	return images, nil
}

// icon returns the bundle's first icon, or nil. Consoles ignore white space in its data.
func (b *Bundle) icon() (*declcfg.Icon, error) {
	csv, err := b.registry.ClusterServiceVersion()
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
