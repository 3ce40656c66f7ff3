package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/berth-csi/berth/internal/oci"
)

// pushPrograms pushes the images with programs.
func (r *release) pushPrograms(ctx context.Context) error {
	for _, p := range programImages {
		index, err := r.programIndex(ctx, p)
		if err != nil {
			return fmt.Errorf("image %s: %w", p.name, err)
		}
		pushed, err := r.push(ctx, p.name, index, r.source.version, "latest")
		if err != nil {
			return err
		}
		r.pins[project+"/"+p.name] = r.pullSpec(pushed)
	}
	return nil
}

// programIndex returns the image for all architectures.
func (r *release) programIndex(ctx context.Context, p programImage) (v1.ImageIndex, error) {
	var images []v1.Image
	for _, architecture := range r.architectures {
		built, err := r.platformImage(ctx, p, architecture)
		if err != nil {
			return nil, fmt.Errorf("for %s: %w", architecture, err)
		}
		images = append(images, built)
	}
	return oci.Index(images)
}

// platformImage returns the image for one architecture. Layers that change rarely come first.
func (r *release) platformImage(ctx context.Context, p programImage, architecture string) (v1.Image, error) {
	built := r.programFor(p.program, architecture)
	program := oci.Files{p.programPath(): {Source: built.file, Executable: true}}
	for name, target := range p.links {
		program[name] = oci.File{Link: target}
	}
	if p.temporary {
		program["tmp"] = oci.File{SharedFolder: true}
	}
	for target, source := range p.scripts {
		program[target] = oci.File{Source: source, Executable: true}
	}
	layers := []oci.Files{built.licenceFiles(), program}
	if !p.onBase {
		layers = slices.Insert(layers, 0, certificates())
	}
	platform := oci.Platform{Architecture: architecture, User: p.user, Labels: r.labels(p.name)}
	if p.entrypoint {
		platform.Entrypoint = []string{"/" + p.programPath()}
	}
	if p.onBase {
		base, err := r.baseFor(ctx, architecture)
		if err != nil {
			return nil, err
		}
		platform.Base = base
	}
	for _, files := range layers {
		layer, err := files.SmallLayer()
		if err != nil {
			return nil, err
		}
		platform.Layers = append(platform.Layers, layer)
	}
	return platform.Image()
}

// programPath returns the path of the program below the image's root.
func (p programImage) programPath() string { return cmp.Or(p.path, "usr/bin/"+p.program.name) }

// labels returns the OCI labels that say where an image comes from.
func (r *release) labels(name string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    name,
		"org.opencontainers.image.source":   "https://github.com/berth-csi/berth",
		"org.opencontainers.image.revision": r.source.commit,
		"org.opencontainers.image.version":  r.source.version,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// baseFor returns must-gather's base for an architecture.
func (r *release) baseFor(ctx context.Context, architecture string) (v1.Image, error) {
	base, err := platformOf(ctx, r.pins[r.base], architecture)
	if err != nil {
		return nil, fmt.Errorf("%w; choose another one with MUST_GATHER_BASE, or fewer ARCHITECTURES", err)
	}
	return base, nil
}

// platformOf returns an image for an architecture from its registry.
func platformOf(ctx context.Context, pullSpec, architecture string) (v1.Image, error) {
	ref, err := name.ParseReference(pullSpec)
	if err != nil {
		return nil, err
	}
	img, err := remote.Image(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: architecture}))
	if err != nil {
		return nil, fmt.Errorf("base image %s: %w", ref, err)
	}
	return img, nil
}

// sortedKeys returns the keys of a map, sorted.
func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }

// certificates returns the files that programs expect in an image without a distribution: Mozilla's certificate authorities,
// where Go looks for them, and the users.
func certificates() oci.Files {
	var authorities bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // trusted for some certificates only, which a file cannot say
		}
		_ = pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // writing to a buffer does not fail
	}
	return oci.Files{
		"etc/ssl/certs/ca-certificates.crt": {Data: authorities.Bytes()},
		"etc/passwd":                        {Data: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")},
		"etc/group":                         {Data: []byte("root:x:0:\nnonroot:x:65532:\n")},
	}
}
