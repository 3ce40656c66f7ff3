package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/oci"
)

// relatedImageVariable is the prefix of the environment variables that tell operators which images to use.
const relatedImageVariable = "RELATED_IMAGE_"

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
				if value, _ := v.Value.(string); strings.HasPrefix(v.Name, relatedImageVariable) && strings.Contains(value, "/") {
					all = append(all, value)
				}
			}
		}
	}
	return all
}

// imagesOfBundle returns the images that the catalog names for a bundle.
func imagesOfBundle(b *fbc.Bundle) ([]string, error) {
	all := []string{b.Image}
	for _, related := range b.RelatedImages {
		all = append(all, related.Image)
	}
	details, err := b.Details()
	if err != nil || !details.Carried {
		return all, err
	}
	carried, err := operatorOf(details.CSV)
	if err != nil {
		return nil, err
	}
	return append(all, carried.images()...), nil
}

func operatorOf(csv *v1alpha1.ClusterServiceVersion) (*operator, error) {
	text, err := json.Marshal(csv)
	if err != nil {
		return nil, err
	}
	o := &operator{}
	return o, json.Unmarshal(text, o)
}

// unlistedOf returns the kept bundles for which the catalog does not list all images.
func unlistedOf(all []*keptPackage) (unlisted []*fbc.Bundle) {
	for _, k := range all {
		for _, b := range k.bundles() {
			empty := func(related declcfg.RelatedImage) bool { return related.Image == "" }
			if len(b.RelatedImages) == 0 || slices.ContainsFunc(b.RelatedImages, empty) {
				unlisted = append(unlisted, b)
			}
		}
	}
	return unlisted
}

// addUnlisted adds the images that bundles need and the catalog does not list. It reads them from the ClusterServiceVersions in
// the bundles' images. A warning names the bundles that cannot be read: otherwise nobody would notice until a pod fails to pull an
// image.
func (m *Mirror) addUnlisted(ctx context.Context, from oci.Source) error {
	found, warnings := make([][]string, len(m.unlisted)), make([]string, len(m.unlisted))
	slow := slowness{most: m.Time}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(m.Jobs)
	for i, b := range m.unlisted {
		group.Go(func() error {
			err := m.strikes.each(ctx, b.Image, 0, &slow, min(inspectionTime, m.Time), func(ctx context.Context) (err error) {
				found[i], err = imagesIn(ctx, from, b)
				return err
			})
			if err != nil && !oci.IsAbsent(err) { // Inspect reports images that are not there
				warnings[i] = fmt.Sprintf("the catalog %s, and the bundle cannot be read: images that it needs may be missing: %v", lacked(b), err)
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
	for _, reference := range m.blocked {
		known[reference] = true
	}
	for i, b := range m.unlisted {
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

// lacked returns the part of a warning that says which images of a bundle the catalog does not list.
func lacked(b *fbc.Bundle) string {
	for _, related := range b.RelatedImages {
		if related.Image == "" {
			return fmt.Sprintf("has no pull spec of the related image %q of bundle %s", related.Name, b.Name)
		}
	}
	return "lists no related images of bundle " + b.Name
}

// imagesIn returns the images that the ClusterServiceVersion in a bundle's image names. It returns none for a bundle without an image:
// that bundle carries its ClusterServiceVersion, which imagesOfBundle has read already.
func imagesIn(ctx context.Context, from oci.Source, b *fbc.Bundle) ([]string, error) {
	if b.Image == "" {
		return nil, nil
	}
	ref, err := name.ParseReference(b.Image)
	if err != nil {
		return nil, err
	}
	pulled, err := oci.PullFrom(ctx, from, ref.Name(), registryv1.ImageLimits, registryv1.Folders...)
	if err != nil {
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
