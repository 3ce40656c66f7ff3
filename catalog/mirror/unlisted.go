package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/oci"
)

// operator holds the fields of a ClusterServiceVersion that name images. Other fields may be invalid.
type operator struct {
	Spec struct {
		RelatedImages []declcfg.RelatedImage `json:"relatedImages"`
		Install       struct {
			Spec struct {
				Deployments []struct {
					Spec struct {
						Template struct {
							Spec struct {
								Containers     []container `json:"containers"`
								InitContainers []container `json:"initContainers"`
							} `json:"spec"`
						} `json:"template"`
					} `json:"spec"`
				} `json:"deployments"`
			} `json:"spec"`
		} `json:"install"`
	} `json:"spec"`
}

type container struct {
	Image string `json:"image"`
	Env   []struct {
		Name  string `json:"name"`
		Value any    `json:"value"`
	} `json:"env"`
}

// images returns the images in an operator's ClusterServiceVersion.
func (o *operator) images() (all []string) {
	for _, related := range o.Spec.RelatedImages {
		all = append(all, related.Image)
	}
	for _, d := range o.Spec.Install.Spec.Deployments {
		pod := d.Spec.Template.Spec
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			all = append(all, c.Image)
			for _, v := range c.Env {
				if value, _ := v.Value.(string); registryv1.NamesImage(v.Name, value) {
					all = append(all, value)
				}
			}
		}
	}
	return all
}

// imagesOfBundle returns the images of a bundle that the catalog names. whole says that its ClusterServiceVersion is in the catalog,
// so that these are all.
func imagesOfBundle(b *fbc.Bundle) (all []string, whole bool, err error) {
	all = []string{b.Image}
	for _, related := range b.RelatedImages {
		all = append(all, related.Image)
	}
	details, err := b.Details()
	if err != nil || !details.Carried {
		return all, false, err
	}
	carried, err := operatorOf(details.CSV)
	if err != nil {
		return nil, true, err
	}
	return append(all, carried.images()...), true, nil
}

func operatorOf(csv *v1alpha1.ClusterServiceVersion) (*operator, error) {
	text, err := json.Marshal(csv)
	if err != nil {
		return nil, err
	}
	o := &operator{}
	return o, json.Unmarshal(text, o)
}

// isUnlisted reports whether a catalog does not list the images of a bundle, or not all of them.
func isUnlisted(b *fbc.Bundle) bool {
	return len(b.RelatedImages) == 0 || slices.ContainsFunc(b.RelatedImages, func(related declcfg.RelatedImage) bool { return related.Image == "" })
}

// addFromBundles adds the images that bundles need and the catalog does not list: opm lists none that only a variable names. It
// reads them from the ClusterServiceVersions in the bundles' images. A warning names the bundles that cannot be read: otherwise nobody
// would notice until a pod fails to pull an image.
func (m *Mirror) addFromBundles(ctx context.Context, from oci.Source, bundles []*fbc.Bundle) error {
	found, warnings := make([][]string, len(bundles)), make([]string, len(bundles))
	slow := slowness{most: m.Time}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(m.Jobs)
	for i, b := range bundles {
		group.Go(func() error {
			err := m.strikes.each(ctx, b.Image, 0, &slow, min(inspectionTime, m.Time), func(ctx context.Context) (err error) {
				found[i], err = imagesIn(ctx, from, b.Image, isUnlisted(b))
				return err
			})
			if err != nil && !oci.IsAbsent(err) { // Inspect reports images that are not there
				warnings[i] = fmt.Sprintf("%s, and the bundle cannot be read: images that it needs may be missing: %v", lacked(b), err)
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	known := map[string]bool{}
	for _, n := range m.needs {
		known[n.reference] = true
	}
	for i, b := range bundles {
		if warnings[i] != "" {
			m.Warnings = append(m.Warnings, warnings[i])
		}
		for _, reference := range found[i] {
			ref, err := name.ParseReference(reference)
			if reference == "" || err == nil && known[ref.Name()] {
				continue
			}
			if err != nil {
				m.Warnings = append(m.Warnings, fmt.Sprintf("the ClusterServiceVersion of bundle %s names the image %q, which is not copied: %v", b.Name, reference, err))
				continue
			}
			known[ref.Name()] = true
			m.needs = append(m.needs, need{ref.Name(), b.Name})
		}
	}
	return nil
}

// lacked says which images of a bundle a catalog may lack.
func lacked(b *fbc.Bundle) string {
	for _, related := range b.RelatedImages {
		if related.Image == "" {
			return fmt.Sprintf("the catalog has no pull spec of the related image %q of bundle %s", related.Name, b.Name)
		}
	}
	if len(b.RelatedImages) > 0 {
		return fmt.Sprintf("opm lists no images that only variables of bundle %s name", b.Name)
	}
	return "the catalog lists no related images of bundle " + b.Name
}

// imagesIn returns the images that the ClusterServiceVersion in the image of a bundle names. If the image holds no bundle, that is an
// error only if there must be one.
func imagesIn(ctx context.Context, from oci.Source, image string, must bool) ([]string, error) {
	if image == "" {
		return nil, nil // the catalog carries its objects
	}
	ref, err := name.ParseReference(image)
	if err != nil {
		return nil, err
	}
	pulled, err := oci.PullFrom(ctx, from, ref.Name(), registryv1.ImageLimits, registryv1.Folders...)
	if err != nil || len(pulled.Files) == 0 && !must {
		return nil, err
	}
	contents, err := registryv1.LoadImage(pulled.Reference, pulled.Files)
	if err != nil {
		return nil, err
	}
	o := &operator{}
	if err := json.Unmarshal(contents.CSV.Content, o); err != nil {
		return nil, fmt.Errorf("%s: %w", contents.CSV.File, err)
	}
	return o.images(), nil
}
