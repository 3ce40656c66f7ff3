package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Source provides images: from the registries in their references, or from a folder.
type Source interface {
	// manifest returns a manifest, verified against the digest, with its descriptor.
	manifest(ctx context.Context, ref name.Reference) (v1.Descriptor, []byte, error)
	// open returns the content of a blob. Reading it to its end fails unless it has the descriptor's digest and size.
	open(ctx context.Context, repo name.Repository, blob v1.Descriptor) (io.ReadCloser, error)
	// referrers returns the manifests that name another one as their subject.
	referrers(ctx context.Context, subject name.Digest) ([]v1.Descriptor, error)
}

// isAbsent reports whether an error says that a source does not have the requested manifest or blob.
func isAbsent(err error) bool {
	refused := (*transport.Error)(nil)
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound
}

// registries reads from the registries in references. Each gets only its own credentials.
type registries struct {
	retryable func(error) bool
	// strangers says that a stranger named the registries, except the ones in except, which the user named.
	strangers bool
	except    []string
	// unverified says that registries may have any certificate.
	unverified bool
	mu         sync.Mutex
	pullers    map[name.Registry]*remote.Puller
}

// Registries returns a source that reads each image from the registry in its reference, like Pull, until the context ends.
func Registries(ctx context.Context) Source { return newRegistries(ctx) }

// PublicRegistries is like Registries, for references that a stranger wrote: it does not connect to addresses of this machine, its
// cloud or a private network, except for the registries in except, which the user named.
func PublicRegistries(ctx context.Context, except ...string) Source {
	r := newRegistries(ctx)
	r.strangers, r.except = true, except
	return r
}

// IsLocal reports whether the registry of a reference is on this machine.
func IsLocal(reference string) bool {
	ref, err := name.ParseReference(reference)
	return err == nil && isLocal(hostOf(ref.Context().RegistryStr()))
}

type unverifiedKey struct{}

// Unverified returns a context in which Pull and Registries accept any certificate, and plain HTTP from registries without HTTPS.
// Users request it for registries in their own networks.
func Unverified(ctx context.Context) context.Context {
	return context.WithValue(ctx, unverifiedKey{}, true)
}

func isUnverified(ctx context.Context) bool { return ctx.Value(unverifiedKey{}) != nil }

// parseReference parses the complete reference of an image to pull.
func parseReference(ctx context.Context, reference string) (name.Reference, error) {
	options := []name.Option{name.StrictValidation}
	if isUnverified(ctx) {
		options = append(options, name.Insecure) // HTTPS is still tried first
	}
	return name.ParseReference(reference, options...)
}

func newRegistries(ctx context.Context) *registries {
	return &registries{
		retryable:  func(err error) bool { return ctx.Err() == nil && isTransient(err) },
		pullers:    map[name.Registry]*remote.Puller{},
		unverified: isUnverified(ctx),
	}
}

func (r *registries) puller(registry name.Registry) (*remote.Puller, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if puller := r.pullers[registry]; puller != nil {
		return puller, nil
	}
	puller, err := remote.NewPuller(remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(r.guard(registry)),
		remote.WithRetryBackoff(remote.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 3}), // the library's waits ignore the context
		remote.WithRetryPredicate(r.retryable))
	if err == nil {
		r.pullers[registry] = puller
	}
	return puller, err
}

func (r *registries) guard(registry name.Registry) *guard {
	g := newGuard(registry)
	g.strange = r.strangers && !slices.Contains(r.except, g.registry)
	g.unverified = r.unverified
	return g
}

func (r *registries) manifest(ctx context.Context, ref name.Reference) (v1.Descriptor, []byte, error) {
	puller, err := r.puller(ref.Context().Registry)
	if err != nil {
		return v1.Descriptor{}, nil, err
	}
	found, err := puller.Get(ctx, ref)
	if err != nil {
		return v1.Descriptor{}, nil, err
	}
	return found.Descriptor, found.Manifest, nil
}

func (r *registries) open(ctx context.Context, repo name.Repository, blob v1.Descriptor) (io.ReadCloser, error) {
	puller, err := r.puller(repo.Registry)
	if err != nil {
		return nil, err
	}
	layer, err := puller.Layer(forLayer(ctx, repo, blob), repo.Digest(blob.Digest.String()))
	if err != nil {
		return nil, err
	}
	stream, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	return verified(stream, blob), nil
}

func (r *registries) referrers(ctx context.Context, subject name.Digest) ([]v1.Descriptor, error) {
	puller, err := r.puller(subject.Registry)
	if err != nil {
		return nil, err
	}
	index, err := remote.Referrers(subject, remote.WithContext(ctx), remote.Reuse(puller))
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := index.RawManifest()
	if err != nil {
		return nil, err
	}
	listed, err := contentOf(text)
	if err != nil {
		return nil, contentErrorf("the list of artifacts that are attached to %s cannot be read: %v", subject.DigestStr(), err)
	}
	return listed.Manifests, nil
}

// verifyingReader is a stream that fails unless its digest and size match a descriptor. It keeps the last bytes back until they are known
// to match: a registry that received all bytes would itself complain about the digest, or not at all.
type verifyingReader struct {
	io.ReadCloser
	want v1.Descriptor
	sum  hash.Hash
	size int64
}

func verified(stream io.ReadCloser, want v1.Descriptor) io.ReadCloser {
	return &verifyingReader{ReadCloser: stream, want: want, sum: sha256.New()}
}

func (v *verifyingReader) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.sum.Write(p[:n])
	v.size += int64(n)
	ended := errors.Is(err, io.EOF) || !isFailure(err) // and not interrupted
	switch {
	case v.size > v.want.Size:
		return 0, v.differs()
	case v.size == v.want.Size && ended:
		if more, _ := io.ReadFull(v.ReadCloser, make([]byte, 1)); more > 0 {
			return 0, v.differs()
		}
		if got := "sha256:" + hex.EncodeToString(v.sum.Sum(nil)); got != v.want.Digest.String() {
			return 0, contentErrorf("its blob %s has content with the digest %s; expected the same", v.want.Digest, got)
		}
	case v.size < v.want.Size && err != nil && ended:
		return n, v.differs()
	}
	return n, err
}

// isFailure reports whether an error is about the network or the disk, not about the content.
func isFailure(err error) bool {
	failure := net.Error(nil) // errors of system calls also implement it
	return isTransient(err) || errors.Is(err, context.Canceled) || errors.As(err, &failure)
}

func (v *verifyingReader) differs() error {
	return contentErrorf("its blob %s does not have the %d bytes that its manifest says; expected the same size", v.want.Digest, v.want.Size)
}
