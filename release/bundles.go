package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/oci"
)

// pushBundles pushes the images of bundles. The bundles in them name all other images by digest.
func (r *release) pushBundles(ctx context.Context) error {
	r.bundleImages = map[string]string{}
	for _, folder := range r.bundles() {
		index, err := r.bundleIndex(folder)
		if err != nil {
			return err
		}
		released, err := r.released(ctx, folder)
		if err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return err
		}
		switch {
		case released == "" || released == digest.String():
			pushed, err := r.push(ctx, folder.repository(), index, folder.tag())
			if err != nil {
				return err
			}
			released = pushed.digest
		case r.isNewest(folder):
			return fmt.Errorf("%s:%s is %s already, and this commit would make it %s: clusters that have installed a version never get another one "+
				"of its name; add the next version with `berth bundle bump %s` to the templates in catalog/templates, or choose another registry",
				r.repository(folder.repository()), folder.tag(), released, digest, folder)
		default:
			r.say("  %s %s stays as it was released", folder.pkg(), folder.version())
		}
		r.bundleImages[string(folder)] = r.repository(folder.repository()) + "@" + released
	}
	return nil
}

// bundleIndex returns the image of a bundle.
func (r *release) bundleIndex(folder bundleFolder) (v1.ImageIndex, error) {
	loaded, err := registryv1.Load(string(folder))
	if err != nil {
		return nil, err
	}
	pins, err := r.pinsOf(loaded.Bundle)
	if err != nil {
		return nil, err
	}
	if loaded.Bundle, err = bundle.Pin(loaded.Bundle, pins); err != nil {
		return nil, err
	}
	return loaded.Image().Index()
}

// released returns the digest that a version of a bundle already has in the registry, or "" if the version is not there.
func (r *release) released(ctx context.Context, folder bundleFolder) (digest string, err error) {
	return oci.Find(ctx, r.repository(folder.repository())+":"+folder.tag())
}

// pushCatalogs pushes the images of catalogs, which are built from the images of the bundles in the registry.
func (r *release) pushCatalogs(ctx context.Context) (err error) {
	scratch, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	for _, c := range catalogImages {
		content, err := r.catalog(ctx, c, filepath.Join(scratch, c.name))
		if err != nil {
			return fmt.Errorf("catalog %s: %w", c.name, err)
		}
		index, err := content.Index()
		if err != nil {
			return err
		}
		if _, err := r.push(ctx, c.name, index, r.source.version, "latest"); err != nil {
			return err
		}
	}
	return nil
}

// catalog builds a catalog in a folder and returns the content of its image.
func (r *release) catalog(ctx context.Context, c catalogImage, folder string) (_ oci.Content, err error) {
	templates, catalog := filepath.Join(folder, "templates"), filepath.Join(folder, "catalog")
	if err := os.MkdirAll(templates, 0o755); err != nil {
		return oci.Content{}, err
	}
	var files []string
	for _, t := range r.templates {
		if t.catalog != c.name {
			continue
		}
		text, err := t.withImages(r.bundleImages)
		if err != nil {
			return oci.Content{}, err
		}
		file := filepath.Join(templates, filepath.Base(t.file))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return oci.Content{}, err
		}
		files = append(files, file)
	}
	built, err := build.Templates(ctx, files, build.Options{})
	if err != nil {
		return oci.Content{}, err
	}
	defer func() { err = errors.Join(err, built.Close()) }()
	for _, f := range built.Found {
		if f.Severity == findings.Error {
			return oci.Content{}, f
		}
	}
	for _, made := range built.Catalogs {
		if _, err := made.Write(catalog); err != nil {
			return oci.Content{}, err
		}
	}
	return build.Image(ctx, catalog)
}
