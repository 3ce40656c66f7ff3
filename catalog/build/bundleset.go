package build

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/internal/openshift"
)

// pulls is the number of bundles that are read concurrently. Registries take most of the time.
const pulls = 8

// maxKept is the number of bytes that bundles may take together if they are kept in memory: twice in the files of images, which take time, and in
// memory, where those with all objects take up to fourteen times as much. Those of an operator's version have a few MiB at most, and small
// images stand for ten thousand times their size.
const maxKept = 1 << 30

// maxRendered is the number of bytes that the files of images which are rendered at once may have. Rendering takes up to forty times as much.
var maxRendered = registryv1.ImageLimits.Size

// reference says where a bundle comes from and which parts are needed.
type reference struct {
	folder, image string // exactly one is set
	// asWritten puts the image into the catalog as the template has it, like opm, and not by digest.
	asWritten bool
	// lean says that the payload is not kept in memory.
	lean bool
}

// bundleSet holds the bundles that templates name.
type bundleSet struct {
	source   oci.Source
	keeper   oci.Keeper
	formats  []render.Format
	progress func(read, all int)
	store    *document.Store // of payload
	form     form
	bundles  map[reference]*bundleResult
	whole    bool         // bundles of Berth's templates are also needed with all objects
	kept     atomic.Int64 // bytes of the bundles that are kept in memory, see maxKept
	// render limits the number and the files of the bundles that are rendered at once, to save memory.
	render *semaphore.Weighted
}

// bundleResult is a bundle, or the error of reading it.
type bundleResult struct {
	*render.Bundle // nil if the reference is lean
	held           *storedBundle
	err            error
}

// storedBundle is a bundle without its payload, which is in the store.
type storedBundle struct {
	// document is the bundle's document without payload. CsvJSON has only the fields that opm's library reads.
	document declcfg.Bundle
	found    []*findings.Finding // faults that do not prevent its use
	versions string              // the value of openshift.VersionsAnnotation
	texts    map[render.Format]document.Span
}

func newBundleSet(ctx context.Context, o Options) (*bundleSet, error) {
	store, err := document.NewStore()
	if err != nil {
		return nil, err
	}
	s := &bundleSet{source: oci.Registries(ctx), keeper: o.Keeper, formats: o.formats(), progress: o.Progress, store: store, form: formOf(o.JSON),
		bundles: map[reference]*bundleResult{}, render: semaphore.NewWeighted(maxRendered)}
	for _, t := range o.targets() {
		s.whole = s.whole || t.formatOf(render.Described) == render.Whole
	}
	if s.progress == nil {
		s.progress = func(int, int) {}
	}
	return s, nil
}

// fill reads the bundles of all references, each once. It fails only if the context ends.
func (s *bundleSet) fill(ctx context.Context, all []reference) error {
	for _, r := range all {
		s.bundles[r] = &bundleResult{}
	}
	var read atomic.Int64
	var group errgroup.Group
	group.SetLimit(pulls)
	for r, into := range s.bundles {
		group.Go(func() error {
			if into.err = ctx.Err(); into.err == nil {
				into.err = s.read(ctx, r, into)
			}
			s.progress(int(read.Add(1)), len(s.bundles))
			return nil
		})
	}
	_ = group.Wait() // no error: each bundle has its own
	return ctx.Err()
}

func (s *bundleSet) read(ctx context.Context, r reference, into *bundleResult) (err error) {
	if err := room(&s.kept, r.folder+r.image); err != nil && !r.lean { // reading more would only take time
		return err
	}
	var pulled oci.Pulled
	if r.folder == "" {
		if pulled, err = s.pull(ctx, r); err != nil {
			return err
		}
	}
	size := 0
	for _, file := range pulled.Files {
		size += len(file)
	}
	share := shareOf(size + 2*sizeOf(r.folder)) // a bundle without an image has its objects twice
	if err := s.render.Acquire(ctx, share); err != nil {
		return err
	}
	defer s.render.Release(share)
	var b *render.Bundle
	if r.folder != "" {
		b, err = render.Folder(r.folder)
	} else {
		b, err = render.Image(pulled.Reference, pulled.Files)
	}
	if err == nil && !r.lean {
		err = keep(b, r.folder+r.image, s.whole, &s.kept, 2*size)
	}
	if err != nil {
		return err
	}
	if !r.lean {
		into.Bundle = b
		return nil
	}
	into.held, err = s.hold(b)
	return err
}

// keep frees memory of a bundle, and counts what it still takes, besides what the files of an image count. It fails if that exceeds maxKept.
func keep(b *render.Bundle, from string, whole bool, kept *atomic.Int64, size int) error {
	takes, err := b.Release(whole)
	kept.Add(int64(size + takes))
	return cmp.Or(err, room(kept, from))
}

// room fails if the bundles that are kept exceed maxKept, with the one that comes from a folder or an image.
func room(kept *atomic.Int64, from string) error {
	if kept.Load() <= maxKept {
		return nil
	}
	return fmt.Errorf("bundle %s: with it, the bundles take more than %d bytes, in the files of images and in memory; expected fewer: build the catalog from fewer at a time", from, maxKept)
}

// sizeOf returns the number of bytes of the files of a bundle's folder, as far as they can be read.
func sizeOf(folder string) (size int) {
	if folder == "" {
		return 0
	}
	for _, below := range registryv1.Folders {
		entries, _ := os.ReadDir(filepath.Join(folder, below))
		for _, entry := range entries {
			if info, err := os.Stat(filepath.Join(folder, below, entry.Name())); err == nil { // it may be a link
				size += int(min(info.Size(), maxRendered))
			}
		}
	}
	return size
}

// shareOf returns the part of maxRendered that a bundle takes while it is rendered. Small ones are rendered on all processors.
func shareOf(size int) int64 {
	return min(max(int64(size), maxRendered/int64(runtime.GOMAXPROCS(0))), maxRendered)
}

func (s *bundleSet) pull(ctx context.Context, r reference) (oci.Pulled, error) {
	pulled, err := s.pullFiles(ctx, r.image)
	if err == nil && r.asWritten {
		pulled.Reference = r.image
	}
	return pulled, err
}

func (s *bundleSet) pullFiles(ctx context.Context, reference string) (oci.Pulled, error) {
	if s.keeper == nil {
		return oci.PullFrom(ctx, s.source, reference, registryv1.ImageLimits, registryv1.Folders...)
	}
	return oci.PullKept(ctx, s.source, s.keeper, reference, registryv1.ImageLimits, registryv1.Folders...)
}

// hold puts the payload of a bundle into the store, in all formats.
func (s *bundleSet) hold(b *render.Bundle) (*storedBundle, error) {
	h := &storedBundle{found: b.Found, versions: b.Metadata.Annotations[openshift.VersionsAnnotation], texts: map[render.Format]document.Span{}}
	for i, format := range s.formats {
		whole, err := b.In(format)
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		if err := s.form.bundle(whole, &text); err != nil {
			return nil, err
		}
		h.texts[format] = document.Span{File: b.CSV.File, Offset: int64(i)}
		if err := s.store.Keep(h.texts[format], text.Bytes()); err != nil {
			return nil, err
		}
		h.document = whole
	}
	var err error
	h.document, err = withoutPayload(h.document)
	return h, err
}

// withoutPayload returns a bundle without payload, like fbc.Read. A bundle without an image keeps one payload property, without value.
func withoutPayload(b declcfg.Bundle) (declcfg.Bundle, error) {
	var properties []property.Property
	needed := b.Image == ""
	for _, p := range b.Properties {
		switch {
		case !fbc.IsPayload(p.Type):
			properties = append(properties, p)
		case needed:
			properties, needed = append(properties, property.Property{Type: p.Type}), false
		}
	}
	b.Properties, b.Objects = properties, nil
	var err error
	b.CsvJSON, err = introduction(b.CsvJSON)
	return b, err
}

// introduction returns the fields of a ClusterServiceVersion that opm's library reads: the package's description and icon, and
// the bundle that this one substitutes.
func introduction(csv string) (string, error) {
	if csv == "" {
		return "", nil
	}
	const substitutes = "olm.substitutesFor"
	var said struct {
		Metadata struct {
			Annotations map[string]json.RawMessage `json:"annotations,omitempty"`
		} `json:"metadata"`
		Spec struct {
			Description json.RawMessage `json:"description,omitempty"`
			Icon        json.RawMessage `json:"icon,omitempty"`
		} `json:"spec"`
	}
	if err := json.Unmarshal([]byte(csv), &said); err != nil {
		return "", fmt.Errorf("ClusterServiceVersion: %w", err)
	}
	for key := range said.Metadata.Annotations {
		if key != substitutes {
			delete(said.Metadata.Annotations, key)
		}
	}
	text, err := json.Marshal(said)
	return string(text), err
}
