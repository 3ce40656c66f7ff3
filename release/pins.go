package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/oci"
)

// pinImages pins the images that are not Berth's own: the drivers' images in bundles, and must-gather's base.
func (r *release) pinImages(ctx context.Context) error {
	given := map[string]string{}
	if r.options.pins != "" {
		data, err := boundedyaml.ReadFile(r.options.pins)
		if err != nil {
			return fmt.Errorf("pins: %w", err)
		}
		if err := boundedyaml.UnmarshalStrict(data, &given); err != nil {
			return fmt.Errorf("pins: %s: want lines IMAGE: PULLSPEC: %w", r.options.pins, err)
		}
	}
	wanted, err := r.foreignImages()
	if err != nil {
		return err
	}
	var faults []error
	for _, reference := range wanted {
		instead, found := given[reference]
		if !found {
			instead = reference
		}
		pinned, err := oci.Pin(ctx, instead)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if pinned != reference && !found {
			r.say("  %s is %s today; for a repeatable release, commit the reference with this digest", reference, pinned)
		}
		r.pins[reference] = pinned
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w\ngive images that cannot be reached from here in a file, as PINS=FILE: lines IMAGE: PULLSPEC", errors.Join(faults...))
	}
	return nil
}

// foreignImages returns the images that others build, sorted.
func (r *release) foreignImages() ([]string, error) {
	images := map[string]bool{}
	for _, p := range programImages {
		if p.onBase {
			images[r.base] = true
		}
	}
	if r.efs != nil {
		images[r.efs.Base] = true
		if r.efs.Rust != "" {
			images[r.efs.Rust] = true
		}
	}
	specs, err := r.pullSpecs()
	if err != nil {
		return nil, err
	}
	for _, spec := range specs {
		if ownImage(spec) == "" && !r.efs.buildsImage(spec) {
			images[spec] = true
		}
	}
	return slices.Sorted(maps.Keys(images)), nil
}

// pullSpecs returns the images that bundles name, sorted.
func (r *release) pullSpecs() ([]string, error) {
	images := map[string]bool{}
	for _, folder := range r.bundles() {
		b, err := registryv1.Load(string(folder))
		if err != nil {
			return nil, err
		}
		specs, err := bundle.PullSpecs(b.Bundle)
		if err != nil {
			return nil, err
		}
		for _, spec := range specs {
			images[spec] = true
		}
	}
	return slices.Sorted(maps.Keys(images)), nil
}

// ownImage returns the name of the image of this release that a pull spec means, or "".
func ownImage(pullSpec string) string {
	ref, err := name.ParseReference(pullSpec)
	if err != nil {
		return ""
	}
	own, found := strings.CutPrefix(ref.Context().Name(), project+"/")
	if !found || !slices.ContainsFunc(programImages, func(p programImage) bool { return p.name == own }) {
		return ""
	}
	return own
}

// pinsOf returns the pull specs by digest for all images of a bundle.
func (r *release) pinsOf(b *registryv1.Bundle) (map[string]string, error) {
	specs, err := bundle.PullSpecs(b)
	if err != nil {
		return nil, err
	}
	pins := map[string]string{}
	for _, spec := range specs {
		pins[spec] = r.pins[spec]
		if own := ownImage(spec); own != "" {
			pins[spec] = r.pins[project+"/"+own]
		}
	}
	return pins, nil
}
