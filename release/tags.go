package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/berth-csi/berth/internal/oci"
)

// setTags sets the tags, once all images are complete in the registry.
func (r *release) setTags(ctx context.Context) error {
	for _, p := range r.pushed {
		if err := oci.CheckComplete(ctx, r.pullSpec(p)); err != nil {
			return err
		}
	}
	for _, p := range r.pushed {
		for _, tag := range p.tags {
			if err := oci.Tag(ctx, r.pullSpec(p), tag); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeLayouts writes each image to a folder in the OCI layout, which other tools can copy elsewhere.
func (r *release) writeLayouts(context.Context) error {
	if r.layout == "" {
		return nil
	}
	for _, p := range r.pushed {
		if _, err := oci.WriteLayout(filepath.Join(r.layout, p.name, p.tags[0]), p.index); err != nil {
			return fmt.Errorf("image %s: %w", p.name, err)
		}
	}
	return nil
}
