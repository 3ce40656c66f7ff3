package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	base "github.com/berth-csi/berth/efs-utils-base"
	"github.com/berth-csi/berth/internal/oci"
)

// release is a release that is being made.
type release struct {
	options
	source    source
	templates []template
	pins      map[string]string // pull specs with digests, by the references that are pinned to them
	built     []compiled
	// efs describes the build of the EFS driver's image, and builder builds it. Both are nil if others build that image.
	efs     *efsDriver
	builder *base.Builder
	// bundleImages are the pull specs of the bundles' images, by the bundles' folders.
	bundleImages map[string]string
	pushed       []pushed
}

// pushed is an image in the registry.
type pushed struct {
	name   string
	tags   []string
	index  v1.ImageIndex
	digest string
	// documents are the digests of its attached documents.
	documents []string
}

func newRelease(ctx context.Context, o options) (*release, error) {
	src, err := readSource(ctx)
	if err != nil {
		return nil, err
	}
	r := &release{options: o, source: src, pins: map[string]string{}}
	if r.templates, err = readTemplates(catalogImages); err != nil || o.efsDriver == "" {
		return r, err
	}
	if r.efs, err = readEFSDriver(o.efsDriver); err != nil {
		return nil, err
	}
	r.builder, err = base.NewBuilder("efs-utils-base", os.Stderr)
	return r, err
}

// run makes the release. Steps that can fail for a reason outside of this machine come before slow steps.
func (r *release) run(ctx context.Context) error {
	if r.source.modified {
		r.say("there are uncommitted changes: nobody can build these images again")
	}
	for _, stage := range []struct {
		about string
		do    func(context.Context) error
	}{
		{"asking " + r.registry + " whether it takes images", r.checkRegistry},
		{"pinning images of drivers, and the base of must-gather", r.pinImages},
		{"compiling", r.compile},
		{"pushing images of programs", r.pushPrograms},
		{"pushing images of drivers", r.pushDrivers},
		{"pushing images of bundles", r.pushBundles},
		{"pushing images of catalogs", r.pushCatalogs},
		{"attaching SBOMs and provenances", r.attachDocuments},
		{"signing", r.sign},
		{"packing berth for workstations", r.packArchives},
		{"setting tags", r.setTags},
		{"writing image layouts", r.writeLayouts},
	} {
		r.say("%s", stage.about)
		if err := stage.do(ctx); err != nil {
			return err
		}
	}
	return r.report()
}

func (r *release) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "release: "+format+"\n", args...)
}

// repository returns the repository of an image of the release.
func (r *release) repository(name string) string { return r.registry + "/" + name }

// pullSpec returns the pull spec of a pushed image.
func (r *release) pullSpec(p pushed) string { return r.repository(p.name) + "@" + p.digest }

// push pushes an image by its digest. The image has no tag until setTags.
func (r *release) push(ctx context.Context, name string, index v1.ImageIndex, tags ...string) (pushed, error) {
	digest, err := index.Digest()
	if err != nil {
		return pushed{}, fmt.Errorf("image %s: %w", name, err)
	}
	p := pushed{name: name, tags: tags, index: index, digest: digest.String()}
	if _, err := oci.Push(ctx, r.pullSpec(p), index); err != nil {
		return pushed{}, err
	}
	r.pushed = append(r.pushed, p)
	return p, nil
}

// checkRegistry fails if any image could not be pushed.
func (r *release) checkRegistry(context.Context) error {
	names := []string{}
	for _, p := range programImages {
		names = append(names, p.name)
	}
	for _, c := range catalogImages {
		names = append(names, c.name)
	}
	if r.efs != nil {
		names = append(names, efsDriverName)
	}
	for _, b := range r.bundles() {
		names = append(names, b.repository())
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if err := oci.MayPush(r.repository(name)); err != nil {
			return err
		}
	}
	return nil
}

// report prints the images, and their sizes for each architecture.
func (r *release) report() error {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, p := range r.pushed {
		manifest, err := p.index.IndexManifest()
		if err != nil {
			return err
		}
		for _, m := range manifest.Manifests {
			img, err := p.index.Image(m.Digest)
			if err != nil {
				return err
			}
			size, err := compressedSize(img)
			if err != nil {
				return err
			}
			fmt.Fprintf(table, "%s\t%s\t%.2f MiB\t%s\n", p.name, m.Platform.Architecture, float64(size)/(1<<20), r.pullSpec(p))
		}
	}
	return table.Flush()
}

// compressedSize returns the bytes that a node downloads for an image without cached layers.
func compressedSize(img v1.Image) (int64, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return 0, err
	}
	size := manifest.Config.Size
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	return size, nil
}
