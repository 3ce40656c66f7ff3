package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/singleflight"
)

// Transfer copies images with everything attached to them, unchanged and by digest. It copies only the parts that the
// destination lacks, so that an interrupted transfer can be repeated and continues. It is safe for concurrent use.
type Transfer struct {
	From Source
	To   Destination
	// Catalog says that it copies the image of the mirrored catalog, whose place strangers do not choose.
	Catalog bool
	// Platforms are the platforms whose images it copies, such as linux/amd64 and linux/arm64/v8. The list of an image's platforms stays
	// unchanged, with its digest. Without Platforms, it copies the images for all platforms.
	Platforms []string
	// Moving makes it also check the places where earlier versions of this program put images.
	Moving bool
	// Allowed fails if the image must not be copied. It may be nil.
	Allowed func(context.Context, *Whole) error

	copied atomic.Int64
	parts  atomic.Int64 // of all images that were inspected
	flight singleflight.Group

	mu      sync.Mutex
	missing map[string]bool // whether the destination lacks a part, by the key of each part looked up
}

// maxAllParts is the number of manifests and blobs that the images of a transfer may have together. Each takes up to a kilobyte of memory. The
// images of a whole public catalog have some hundred thousand.
const maxAllParts = 2 << 20

// Copied returns the number of bytes that have been copied.
func (t *Transfer) Copied() int64 { return t.copied.Load() }

// Place returns the name of an image in the destination.
func (t *Transfer) Place(reference string) (string, error) {
	ref, err := parseName(reference)
	if err != nil {
		return "", err
	}
	repo, err := t.To.place(ref.Context(), t.Catalog)
	if err != nil {
		return "", fmt.Errorf("image %s: %w", reference, err)
	}
	return referenceIn(ref, repo).Name(), nil
}

// Inspect finds the parts of an image, and which of them the destination lacks.
func (t *Transfer) Inspect(ctx context.Context, reference string) (*Whole, error) {
	w, err := walkImage(ctx, t.From, reference, t.Platforms...)
	if err != nil {
		return nil, &sourceError{err}
	}
	if t.parts.Add(int64(len(w.manifests)+len(w.blobs))) > maxAllParts {
		return nil, contentErrorf("image %s: with it, the images have more than %d manifests and blobs together; expected fewer: mirror fewer packages at a time", reference, maxAllParts)
	}
	if t.Allowed != nil {
		if err := t.Allowed(ctx, w); err != nil {
			return nil, &sourceError{err}
		}
	}
	repo, err := t.To.place(w.ref.Context(), t.Catalog)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", reference, err)
	}
	if t.Catalog {
		reference = repo.Name() // the catalog has another name only until it is in the destination
	}
	for _, parts := range [][]contentDescriptor{w.manifests, w.blobs} {
		for i := range parts {
			added, err := t.lookUp(ctx, repo, &parts[i])
			if err != nil {
				return nil, fmt.Errorf("checking the destination for image %s: %w%s", reference, err, t.To.remedy(err))
			}
			w.Missing += added
		}
	}
	if err := t.lookUpNames(ctx, repo, w); err != nil {
		return nil, fmt.Errorf("checking the destination for image %s: %w%s", reference, err, t.To.remedy(err))
	}
	return w, nil
}

// lookUpNames looks up the names of an image in the destination, and the place where earlier versions put it.
func (t *Transfer) lookUpNames(ctx context.Context, repo name.Repository, w *Whole) error {
	for i, n := range w.named {
		tag, is := referenceIn(n.ref, repo).(name.Tag)
		if !is {
			continue
		}
		now, err := t.To.tagged(ctx, tag)
		if err != nil {
			return err
		}
		w.named[i].before = now
		of := PlannedTag{Reference: tag.Name(), Next: n.part.Digest.String()}
		if now != (v1.Hash{}) {
			of.Now = now.String()
		}
		w.Tags = append(w.Tags, of)
	}
	root := w.manifests[slices.IndexFunc(w.manifests, func(p contentDescriptor) bool { return p.Digest.String() == w.Digest })]
	if !t.Moving || !root.missing {
		return nil
	}
	former, has, err := t.To.formerly(ctx, w.ref.Context(), root)
	if err != nil || !has {
		return nil // some registries refuse to say that a repository does not exist
	}
	w.Former = former.Name()
	for _, b := range w.blobs {
		t.To.hold(former, b.Digest) // the registry mounts these blobs, or gets them again if it lacks them there
	}
	return nil
}

// lookUp looks for a part in the destination, and returns its size if it is missing and not counted yet.
func (t *Transfer) lookUp(ctx context.Context, repo name.Repository, p *contentDescriptor) (added int64, err error) {
	key := t.key(repo, p.Digest)
	t.mu.Lock()
	missing, known := t.missing[key]
	t.mu.Unlock()
	if known {
		p.missing = missing
		return 0, nil
	}
	var has bool
	err = repeat(ctx, func() (err error) { has, err = t.To.has(ctx, repo, *p); return err })
	if err != nil {
		return 0, err
	}
	p.missing = !has
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.missing[key]; known || has {
		t.note(key, !has)
		return 0, nil
	}
	t.note(key, true)
	return p.Size, nil
}

func (t *Transfer) note(key string, missing bool) {
	if t.missing == nil {
		t.missing = map[string]bool{}
	}
	t.missing[key] = missing
}

// key identifies a part in the destination. A folder stores each part once, a registry once in each repository.
func (t *Transfer) key(repo name.Repository, digest v1.Hash) string {
	if _, is := t.To.(*Folder); is {
		return digest.String()
	}
	return repo.Name() + "@" + digest.String()
}

// Copy copies an image that was inspected. It sets the name in the destination last.
func (t *Transfer) Copy(ctx context.Context, w *Whole) error {
	if err := t.copy(ctx, w); err != nil {
		return fmt.Errorf("copying image %s: %w%s", w.Reference, err, t.remedy(w, err))
	}
	return nil
}

func (t *Transfer) copy(ctx context.Context, w *Whole) error {
	repo, err := t.To.place(w.ref.Context(), t.Catalog)
	if err != nil {
		return err
	}
	for _, blob := range w.blobs {
		if err := t.once(ctx, repo, blob, func(ctx context.Context) error { return t.upload(ctx, w, repo, blob) }); err != nil {
			return fmt.Errorf("blob %s: %w", blob.Digest, err)
		}
	}
	for _, m := range w.manifests {
		err := t.once(ctx, repo, m, func(ctx context.Context) error {
			text, err := t.text(ctx, w, m)
			if err != nil {
				return err
			}
			err = t.To.put(ctx, repo, m, text)
			if err == nil {
				t.copied.Add(m.Size)
			}
			if w.Sparse && isIncomplete(err) {
				err = contentErrorf("the registry of the destination takes no list of which it lacks images: have it take them, or copy the images for all platforms: %v", err)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("manifest %s: %w", m.Digest, err)
		}
	}
	for _, n := range w.named {
		var text []byte
		if _, is := n.ref.(name.Tag); is && n.before != n.part.Digest {
			if text, err = t.text(ctx, w, n.part); err != nil {
				return err
			}
		}
		if err := repeat(ctx, func() error { return t.To.name(ctx, referenceIn(n.ref, repo), n.part, n.before, text) }); err != nil {
			return err
		}
	}
	return nil
}

// isIncomplete reports whether a registry has refused a list because it lacks images that the list names.
func isIncomplete(err error) bool {
	refused := (*transport.Error)(nil)
	return errors.As(err, &refused) && slices.ContainsFunc(refused.Errors, func(d transport.Diagnostic) bool {
		return d.Code == transport.ManifestUnknownErrorCode || d.Code == transport.ManifestBlobUnknownErrorCode
	})
}

// text reads the text of a manifest once more.
func (t *Transfer) text(ctx context.Context, w *Whole, p contentDescriptor) ([]byte, error) {
	_, text, err := t.From.manifest(ctx, w.ref.Context().Digest(p.Digest.String()))
	if err != nil {
		return nil, &sourceError{err}
	}
	return text, nil
}

// referenceIn returns a reference in another repository.
func referenceIn(ref name.Reference, repo name.Repository) name.Reference {
	if tag, is := ref.(name.Tag); is {
		return repo.Tag(tag.TagStr())
	}
	return repo.Digest(ref.Identifier())
}

// once copies a missing part, and only once if several images need it.
func (t *Transfer) once(ctx context.Context, repo name.Repository, p contentDescriptor, do func(context.Context) error) error {
	key := t.key(repo, p.Digest)
	led := false
	_, err, _ := t.flight.Do(key, func() (any, error) {
		led = true
		t.mu.Lock()
		missing := p.missing && t.missing[key]
		t.mu.Unlock()
		if !missing {
			return nil, nil
		}
		if err := repeat(ctx, func() error { return do(ctx) }); err != nil {
			return nil, err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.missing[key] = false
		return nil, nil
	})
	if !led && ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return t.once(ctx, repo, p, do) // the time limit of the image that copied the part was over
	}
	return err
}

// upload copies a blob, and counts its bytes while they are read.
func (t *Transfer) upload(ctx context.Context, w *Whole, repo name.Repository, blob contentDescriptor) error {
	counted := &blobProgress{total: &t.copied}
	err := t.To.upload(ctx, repo, blob, func() (io.ReadCloser, error) {
		stream, err := t.From.open(ctx, w.ref.Context(), blob.Descriptor)
		if err != nil {
			return nil, &sourceError{err}
		}
		counted.reset(0)
		return &countingReader{stream, counted}, nil
	})
	if err != nil {
		counted.reset(0)
		return err
	}
	counted.reset(blob.Size) // the registry may have mounted it
	return nil
}

// IsOfSource reports whether an error of a transfer is about the source, not the destination.
func IsOfSource(err error) bool {
	at := (*sourceError)(nil)
	return errors.As(err, &at)
}

// sourceError is an error of the source.
type sourceError struct{ error }

func (e *sourceError) Unwrap() error { return e.error }

// remedy says what to do about an error of either side.
func (t *Transfer) remedy(w *Whole, err error) string {
	if at := (*sourceError)(nil); errors.As(err, &at) {
		return remedy(w.ref.Context(), err)
	}
	return t.To.remedy(err)
}

// blobProgress is the contribution of one blob to a total.
type blobProgress struct {
	total *atomic.Int64
	own   atomic.Int64
}

func (c *blobProgress) add(n int64) { c.own.Add(n); c.total.Add(n) }

// reset sets the contribution of the blob.
func (c *blobProgress) reset(to int64) { c.total.Add(to - c.own.Swap(to)) }

// countingReader is a stream whose bytes are counted.
type countingReader struct {
	io.ReadCloser
	counted *blobProgress
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.counted.add(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		err = &sourceError{err}
	}
	return n, err
}

// attempts is the maximum number of attempts for a transient error, and pause the time before the second one.
const (
	attempts = 4
	pause    = 500 * time.Millisecond
)

// repeat retries do after transient errors.
func repeat(ctx context.Context, do func() error) error {
	wait := pause
	for attempt := 1; ; attempt++ {
		err := do()
		if err == nil || attempt == attempts || ctx.Err() != nil || !isTransient(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
			wait *= 2
		}
	}
}
