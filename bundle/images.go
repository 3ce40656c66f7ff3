package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"go.podman.io/image/v5/docker/reference"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings/nearest"
)

// OperatorImage is the name of the operator's own image in Options.Images. Other images are named by their environment
// variables.
const OperatorImage = "OPERATOR_IMAGE"

// withImages returns the driver with the given images instead of its defaults, and checks all of them.
func withImages(d drivers.Driver, pullSpecs map[string]string) (drivers.Driver, error) {
	d.Images = slices.Clone(d.Images)
	images := map[string]*string{OperatorImage: &d.Operator.Image}
	for i := range d.Images {
		images[d.Images[i].Env] = &d.Images[i].Default
	}
	known := slices.Sorted(maps.Keys(images))
	for _, name := range slices.Sorted(maps.Keys(pullSpecs)) {
		if images[name] == nil {
			return d, fmt.Errorf("there is no image %s: the images are %s%s", name, strings.Join(known, ", "), nearest.Hint(name, known))
		}
		*images[name] = pullSpecs[name]
	}
	for _, name := range known {
		if _, err := reference.ParseNormalizedNamed(*images[name]); err != nil {
			return d, fmt.Errorf("image %s is %q, want a pull spec such as quay.io/example/image:v1.0.0: %w", name, *images[name], err)
		}
	}
	return d, nil
}

// checkPinned fails unless every image of a driver is given by digest.
func checkPinned(d drivers.Driver) error {
	var loose []string
	for _, image := range relatedImages(d) {
		named, err := reference.ParseNormalizedNamed(image.Image)
		if err != nil {
			return err // not expected: withImages has parsed it
		}
		if _, pinned := named.(reference.Digested); !pinned {
			loose = append(loose, image.Image)
		}
	}
	if len(loose) > 0 {
		return fmt.Errorf("not given by digest: %s; want pull specs such as quay.io/example/image@sha256:…", strings.Join(loose, ", "))
	}
	return nil
}

// relatedImages lists every image that a cluster pulls because of the bundle, for mirroring.
func relatedImages(d drivers.Driver) []v1alpha1.RelatedImage {
	images := []v1alpha1.RelatedImage{{Name: d.Operator.Name, Image: d.Operator.Image}}
	for _, image := range d.Images {
		name := strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(image.Env, "_IMAGE"), "_", "-"))
		images = append(images, v1alpha1.RelatedImage{Name: name, Image: image.Default})
	}
	return images
}
