package main

import (
	"context"
	"fmt"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/internal/oci"
)

// Media types of the documents attached to images.
const (
	sbomType       = "application/spdx+json"
	provenanceType = "application/vnd.in-toto+json"
)

// attachDocuments attaches the software bills of materials and the provenances to the images.
func (r *release) attachDocuments(ctx context.Context) error {
	for i := range r.pushed {
		p := &r.pushed[i]
		provenance, err := r.provenance(*p)
		if err != nil {
			return fmt.Errorf("provenance of %s: %w", p.name, err)
		}
		if err := r.attach(ctx, p, p.digest, provenanceType, provenance); err != nil {
			return err
		}
		manifest, err := p.index.IndexManifest()
		if err != nil {
			return err
		}
		for _, platform := range manifest.Manifests {
			of, err := r.ingredientsOf(*p, platform.Platform.Architecture)
			if err != nil {
				return fmt.Errorf("SBOM of %s: %w", p.name, err)
			}
			digest := platform.Digest.String()
			sbom, err := r.source.sbom(p.name, digest, of)
			if err != nil {
				return err
			}
			if err := r.attach(ctx, p, digest, sbomType, sbom); err != nil {
				return err
			}
		}
	}
	return nil
}

// attach attaches a document to a manifest of an image.
func (r *release) attach(ctx context.Context, p *pushed, to, mediaType string, document []byte) error {
	digest, err := oci.Attach(ctx, r.repository(p.name)+"@"+to, mediaType, document)
	p.documents = append(p.documents, digest)
	return err
}

// ingredientsOf returns the ingredients of an image for one architecture: the modules of its program, or the images that clusters pull
// because of a bundle or a catalog.
func (r *release) ingredientsOf(p pushed, architecture string) ([]ingredient, error) {
	for _, known := range programImages {
		if known.name != p.name {
			continue
		}
		of, err := r.programFor(known.program, architecture).ingredients()
		if known.onBase {
			of = append(of, imageIngredient(r.pins[r.base]))
		}
		return of, err
	}
	if p.name == efsDriverName {
		return r.ingredientsOfEFSDriver(architecture)
	}
	var of []ingredient
	for _, folder := range r.bundles() {
		if folder.repository() != p.name {
			continue
		}
		b, err := registryv1.Load(string(folder))
		if err != nil {
			return nil, err
		}
		specs, err := bundle.PullSpecs(b.Bundle)
		if err != nil {
			return nil, err
		}
		pins, err := r.pinsOf(b.Bundle)
		if err != nil {
			return nil, err
		}
		if folder.tag() == p.tags[0] {
			for _, spec := range specs {
				of = append(of, imageIngredient(pins[spec]))
			}
		}
	}
	if len(of) == 0 { // a catalog
		for _, folder := range sortedKeys(r.bundleImages) {
			of = append(of, imageIngredient(r.bundleImages[folder]))
		}
	}
	return of, nil
}
