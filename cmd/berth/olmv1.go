package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/bundle/registryv1/cache"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/olmv1"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/olm/clusterextension"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/refusal"
)

// olmV1 is the value of --for for OLM v1.
const olmV1 = "olm-v1"

// v1Flags hold the flags that say how OLM v1 is set up, and whether to pull bundles.
type v1Flags struct {
	version  string
	settings string
	images   bool
}

func (f *v1Flags) add(cmd *cobra.Command) {
	f.addGates(cmd)
	cmd.Flags().BoolVar(&f.images, "images", false, "for OLM v1, pull the images of bundles whose manifests the catalog lacks")
}

// addGates adds all flags but --images, for commands that pull no images.
func (f *v1Flags) addGates(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.version, "olm-version", "", "`version` of OLM v1's operator-controller, such as 1.11, or of OpenShift, such as 4.21, whose feature gates to use (default "+featuregates.Latest+", or what the cluster runs)")
	cmd.Flags().StringVar(&f.settings, "feature-gates", "", "`gates` of OLM v1 that are set differently, as NAME=true,NAME=false")
	completeFlag(cmd, "olm-version", oneOf(featuregates.Versions()...))
}

// given reports whether any of the flags is set.
func (f *v1Flags) given() bool { return *f != v1Flags{} }

// gates returns the feature gates that are on: the gates of --olm-version, or of a cluster, or else of the latest version, each changed by
// --feature-gates. ofCluster may be nil.
func (f *v1Flags) gates(ofCluster featuregates.Set) (set featuregates.Set, err error) {
	switch {
	case f.version != "":
		set, err = featuregates.Of(f.version)
	case ofCluster != nil:
		set = ofCluster
	default:
		set, err = featuregates.Of(featuregates.Latest)
	}
	if err != nil {
		return nil, fmt.Errorf("--olm-version: %w", err)
	}
	if set, err = set.With(f.settings); err != nil {
		return nil, fmt.Errorf("--feature-gates: %w", err)
	}
	return set, nil
}

// v1Check holds the flags that say whether to check for OLM v1, too, and how.
type v1Check struct {
	v1Flags
	target string
}

func (f *v1Check) add(cmd *cobra.Command) {
	f.addTarget(cmd)
	f.v1Flags.add(cmd)
}

// addTarget adds the flag --for.
func (f *v1Check) addTarget(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.target, "for", "", "`target` to check for, too: "+olmV1)
	completeFlag(cmd, "for", oneOf(olmV1))
}

// check fails if the flags contradict each other.
func (f *v1Check) check() error {
	if f.target != "" && f.target != olmV1 {
		return fmt.Errorf("--for is %q, want %s", f.target, olmV1)
	}
	if f.target == "" && f.given() {
		return fmt.Errorf("--olm-version, --feature-gates and --images are for OLM v1; add --for %s", olmV1)
	}
	_, err := f.gates(nil)
	return err
}

// checker returns a checker of catalogs for OLM v1, or nil without --for, and a function that closes the checker.
func (f *v1Check) checker(cmd *cobra.Command) (c *olmv1.Checker, done func(), err error) {
	if f.target == "" {
		return nil, func() {}, nil
	}
	set, err := f.gates(nil)
	if err != nil {
		return nil, nil, err
	}
	reader, done := f.reader(cmd)
	return &olmv1.Checker{Gates: set, Read: reader.Read}, done, nil
}

// bundleReader reads the parts of bundles that OLM v1 reads. It reads each bundle only once.
type bundleReader struct {
	images bool
	from   oci.Source
	kept   *cache.Cache
	read   map[*fbc.Bundle]*refusal.Bundle
}

// reader returns a reader of bundles, and a function that closes it.
func (f *v1Flags) reader(cmd *cobra.Command) (r *bundleReader, done func()) {
	r = &bundleReader{images: f.images, read: map[*fbc.Bundle]*refusal.Bundle{}}
	if !f.images {
		return r, func() {}
	}
	r.from = oci.Registries(cmd.Context())
	dir, err := cache.Dir()
	if err != nil { // without a cache folder, bundles are pulled each time
		return r, func() {}
	}
	r.kept = cache.New(dir, cache.Limit)
	return r, func() {
		if err := r.kept.Close(); err != nil {
			cmd.PrintErrf("warning: %v\n", err)
		}
	}
}

// Read returns the manifests of a bundle from the catalog or, if the catalog lacks them and images may be pulled, from the bundle's image.
func (r *bundleReader) Read(ctx context.Context, b *fbc.Bundle) (*refusal.Bundle, error) {
	if found, has := r.read[b]; has {
		return found, nil
	}
	found, err := refusal.FromCatalog(b)
	if err == nil && r.images && b.Image != "" && (found == nil || found.Described) {
		found, err = r.pull(ctx, b)
	}
	if err != nil {
		return nil, err
	}
	r.read[b] = found
	return found, nil
}

func (r *bundleReader) pull(ctx context.Context, b *fbc.Bundle) (*refusal.Bundle, error) {
	var pulled oci.Pulled
	var err error
	if r.kept == nil {
		pulled, err = oci.PullFrom(ctx, r.from, b.Image, registryv1.ImageLimits, registryv1.Folders...)
	} else {
		pulled, err = oci.PullKept(ctx, r.from, r.kept, b.Image, registryv1.ImageLimits, registryv1.Folders...)
	}
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", b.Name, err)
	}
	contents, err := registryv1.LoadImage(b.Image, pulled.Files)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", b.Name, err)
	}
	found, err := bundleOf(contents)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", b.Name, err)
	}
	return found.As(b), nil
}

// bundleOf returns the parts of a bundle that OLM v1 reads.
func bundleOf(contents *registryv1.Contents) (*refusal.Bundle, error) {
	var objects []*unstructured.Unstructured
	for _, o := range contents.Objects {
		objects = append(objects, o.Unstructured)
	}
	return refusal.FromObjects(contents.Metadata.Annotations[registryv1.PackageAnnotation], objects)
}

// readExtension reads a ClusterExtension from a file.
func readExtension(path string) (*unstructured.Unstructured, error) {
	data, err := boundedyaml.ReadFile(path)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := boundedyaml.Unmarshal(data, &object.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if kind := object.GroupVersionKind(); kind != clusterextension.Kind {
		return nil, fmt.Errorf("%s has a %s, want a %s", path, strings.TrimPrefix(kind.String(), "/, Kind="), clusterextension.Kind.Kind)
	}
	return object, nil
}

// refusedByV1 finds why OLM v1 refuses a bundle.
func (f *v1Check) refusedByV1(contents *registryv1.Contents) (found []*findings.Finding, err error) {
	set, err := f.gates(nil)
	if err != nil {
		return nil, err
	}
	b, err := bundleOf(contents)
	if err != nil {
		return []*findings.Finding{contents.CSV.Fault(olmv1.Refused, "%v", err)}, nil
	}
	request := &refusal.Request{Gates: set}
	for _, r := range append(refusal.Of(b, request), refusal.Removed(b, request)...) {
		found = append(found, contents.CSV.Fault(olmv1.Refused, "%s", olmv1.Sentence(r)))
	}
	for _, finding := range found {
		finding.Package = contents.Package
	}
	return found, nil
}
