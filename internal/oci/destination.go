package oci

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Destination is the target of a transfer: a path in a registry, or a folder.
type Destination interface {
	// place returns the repository for copies of a repository's images, or for the mirrored catalog, whose name the user chose.
	place(of name.Repository, catalog bool) (name.Repository, error)
	// formerly reports whether a manifest is at the place where earlier versions of this program put it.
	formerly(ctx context.Context, of name.Repository, p contentDescriptor) (name.Repository, bool, error)
	// hold remembers that a repository of the destination has a blob.
	hold(repo name.Repository, blob v1.Hash)
	// tagged returns the digest of a tag, or a zero hash.
	tagged(ctx context.Context, tag name.Tag) (v1.Hash, error)
	// has reports whether the destination has a blob or a manifest.
	has(ctx context.Context, repo name.Repository, p contentDescriptor) (bool, error)
	// upload stores a blob. Its content can be opened several times.
	upload(ctx context.Context, repo name.Repository, p contentDescriptor, open func() (io.ReadCloser, error)) error
	// put stores a manifest with its text, after everything that it lists.
	put(ctx context.Context, repo name.Repository, p contentDescriptor, text []byte) error
	// name gives a stored manifest a name, unless the name no longer points to the digest in before.
	name(ctx context.Context, ref name.Reference, p contentDescriptor, before v1.Hash, text []byte) error
	// remedy says what to do about an error.
	remedy(err error) string
	// Close ends the use of the destination.
	Close() error
}

// registryDestination is a path in a registry.
type registryDestination struct {
	path   string // registry.example.com/team, without a slash at its end
	pusher *remote.Pusher
	puller *remote.Puller

	mu   sync.Mutex
	held map[v1.Hash]name.Repository // repositories with a blob, from which the registry can mount it
}

// Below returns a destination that puts each image below a path such as registry.example.com/team, by its registry and
// repository: quay.io/example/operator goes to registry.example.com/team/quay.io/example/operator. So only the operators of
// quay.io control the images there.
func Below(path string) (Destination, error) {
	path = strings.TrimSuffix(path, "/")
	if _, err := name.NewRepository(path+"/image", name.StrictValidation); err != nil || strings.Contains(path, "://") || strings.HasPrefix(path, ".") {
		return nil, fmt.Errorf("destination %q: want a path of a registry, such as registry.example.com/mirror, or oci:DIR for a folder", path)
	}
	options := []remote.Option{remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithTransport(toWrite), remote.WithRetryBackoff(remote.Backoff{Steps: 1})} // a transfer repeats
	pusher, err := remote.NewPusher(options...)
	if err != nil {
		return nil, err
	}
	puller, err := remote.NewPuller(options...)
	return &registryDestination{path: path, pusher: pusher, puller: puller, held: map[v1.Hash]name.Repository{}}, err
}

func (b *registryDestination) place(of name.Repository, catalog bool) (name.Repository, error) {
	if catalog {
		return name.NewRepository(b.path + "/" + of.RepositoryStr())
	}
	host, err := pathOf(of.Registry)
	if err != nil {
		return name.Repository{}, err
	}
	return name.NewRepository(b.path + "/" + host + "/" + of.RepositoryStr())
}

// hostName matches valid names of registries' hosts.
var hostName = regexp.MustCompile(`^[a-z0-9]+([.-]+[a-z0-9]+)*$`)

// pathOf returns a unique path element for a registry: no name of a host has an underscore. registry.example.com:5000 is
// registry.example.com__5000, and [fd00::1]:5000 is v6__fd00-0000-…-0001__5000.
func pathOf(registry name.Registry) (string, error) {
	host, port := strings.ToLower(registry.RegistryStr()), ""
	if host == name.DefaultRegistry {
		return "docker.io", nil
	}
	if before, after, err := net.SplitHostPort(host); err == nil {
		host, port = before, "__"+after
	}
	if address, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && address.Is6() && address.Zone() == "" {
		return "v6__" + strings.ReplaceAll(address.StringExpanded(), ":", "-") + port, nil
	}
	if !hostName.MatchString(host) {
		return "", contentErrorf("its registry is %q; expected the name of a host, and a port if it has one", shortened(registry.RegistryStr()))
	}
	return host + port, nil
}

func (b *registryDestination) formerly(ctx context.Context, of name.Repository, p contentDescriptor) (name.Repository, bool, error) {
	repo, err := name.NewRepository(b.path + "/" + of.RepositoryStr())
	if err != nil {
		return repo, false, err
	}
	has, err := b.has(ctx, repo, p)
	return repo, has, err
}

func (b *registryDestination) tagged(ctx context.Context, tag name.Tag) (v1.Hash, error) {
	now, err := b.puller.Head(ctx, tag)
	if isAbsent(err) {
		return v1.Hash{}, nil
	}
	if err != nil {
		return v1.Hash{}, err
	}
	return now.Digest, nil
}

func (b *registryDestination) has(ctx context.Context, repo name.Repository, p contentDescriptor) (bool, error) {
	ref := repo.Digest(p.Digest.String())
	if p.manifest {
		_, err := b.puller.Head(ctx, ref)
		if isAbsent(err) {
			return false, nil
		}
		return err == nil, err
	}
	layer, err := b.puller.Layer(ctx, ref)
	if err != nil {
		return false, err
	}
	size, err := layer.Size() // a HEAD request
	if isAbsent(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if size != p.Size {
		return false, contentErrorf("the destination has the blob %s with %d bytes, and its manifest says %d; delete it there", p.Digest, size, p.Size)
	}
	b.hold(repo, p.Digest)
	return true, nil
}

func (b *registryDestination) hold(repo name.Repository, blob v1.Hash) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[blob] = repo
}

func (b *registryDestination) holder(blob v1.Hash) (name.Repository, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	repo, held := b.held[blob]
	return repo, held
}

func (b *registryDestination) upload(ctx context.Context, repo name.Repository, p contentDescriptor, open func() (io.ReadCloser, error)) error {
	var content v1.Layer = &blob{p, open}
	if from, held := b.holder(p.Digest); held {
		content = &remote.MountableLayer{Layer: content, Reference: from.Digest(p.Digest.String())}
	}
	if err := b.pusher.Upload(ctx, repo, content); err != nil {
		return err
	}
	b.hold(repo, p.Digest)
	return nil
}

func (b *registryDestination) put(ctx context.Context, repo name.Repository, p contentDescriptor, text []byte) error {
	return b.pusher.Put(ctx, repo.Digest(p.Digest.String()), rawManifest{text, p.MediaType})
}

func (b *registryDestination) name(ctx context.Context, ref name.Reference, p contentDescriptor, before v1.Hash, text []byte) error {
	tag, is := ref.(name.Tag)
	if !is {
		return nil // a reference by digest needs no other name
	}
	now, err := b.tagged(ctx, tag)
	if err != nil || now == p.Digest {
		return err
	}
	if now != before {
		return contentErrorf("the tag %s now names %s; expected that nobody else changes it meanwhile: repeat the command", tag, now)
	}
	return b.pusher.Put(ctx, tag, rawManifest{text, p.MediaType})
}

func (b *registryDestination) remedy(err error) string {
	repo, failed := name.NewRepository(b.path + "/image")
	if failed != nil || IsAbsent(err) {
		return ""
	}
	return pushRemedy(repo, err)
}

func (b *registryDestination) Close() error { return nil }

// rawManifest is a manifest that is pushed unchanged.
type rawManifest struct {
	text      []byte
	mediaType types.MediaType
}

func (r rawManifest) RawManifest() ([]byte, error)        { return r.text, nil }
func (r rawManifest) MediaType() (types.MediaType, error) { return r.mediaType, nil }

// blob is a blob that is pushed unchanged.
type blob struct {
	contentDescriptor
	open func() (io.ReadCloser, error)
}

func (b *blob) Digest() (v1.Hash, error)            { return b.Descriptor.Digest, nil }
func (b *blob) Size() (int64, error)                { return b.Descriptor.Size, nil }
func (b *blob) MediaType() (types.MediaType, error) { return b.Descriptor.MediaType, nil }
func (b *blob) Compressed() (io.ReadCloser, error)  { return b.open() }
func (b *blob) DiffID() (v1.Hash, error) {
	return v1.Hash{}, fmt.Errorf("blob %s: not decompressed", b.Descriptor.Digest)
}
func (b *blob) Uncompressed() (io.ReadCloser, error) {
	return nil, fmt.Errorf("blob %s: not decompressed", b.Descriptor.Digest)
}

// digestOf returns the digest of a text.
func digestOf(text []byte) (v1.Hash, error) {
	digest, _, err := v1.SHA256(bytes.NewReader(text))
	return digest, err
}
