package oci

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Pulled holds the files that were read from an image.
type Pulled struct {
	// Reference is the reference by digest of the image, or of its index if it has one.
	Reference string
	// Files are the files in the requested folders, each with its slash-separated path from the image's root.
	Files map[string][]byte
}

// Limits are the limits of a pull, which fails when it exceeds them.
type Limits struct {
	// Time limits the whole pull.
	Time time.Duration
	// Size limits the bytes read from the image: manifests and layers after decompression, each counted once.
	Size int64
	// Kept limits the bytes of files that are kept in memory, in the folders to read; 0 means Size.
	Kept int64
}

// Limits of the number of layers and images. Each takes a request.
const (
	maxManifests = 64
	maxLayers    = 128
)

// Pull reads the files in folders of an image. The reference must name the registry, such as
// quay.io/example/bundle:v1.0.0 or quay.io/example/bundle@sha256:…. Pull reads the images for all platforms and fails if their files
// in the folders differ. It logs in like Push. It sends requests to the registry and follows its redirects, but never to this
// machine or its cloud's metadata service, nor to URLs in the image. Errors say what to do.
func Pull(ctx context.Context, reference string, limits Limits, folders ...string) (Pulled, error) {
	ctx, cancel := context.WithTimeout(ctx, limits.Time)
	defer cancel()
	return PullFrom(ctx, Registries(ctx), reference, limits, folders...)
}

// PullFrom is like Pull, and reads from a source.
func PullFrom(ctx context.Context, from Source, reference string, limits Limits, folders ...string) (Pulled, error) {
	return PullKept(ctx, from, noKeeper{}, reference, limits, folders...)
}

// Keeper caches files of images, so that they are not pulled again. The key of an image is a hash of its repository and its digest. Its
// methods are safe for concurrent use.
type Keeper interface {
	// Load returns the cached files of an image.
	Load(key string) (files map[string][]byte, kept bool)
	Keep(key string, files map[string][]byte)
}

// keyOf returns the key of an image by digest. It includes the repository: a cached image does not prove that another repository has
// it.
func keyOf(reference string) string {
	sum := sha256.Sum256([]byte(reference))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// noKeeper is a keeper that caches nothing.
type noKeeper struct{}

func (noKeeper) Load(string) (map[string][]byte, bool) { return nil, false }
func (noKeeper) Keep(string, map[string][]byte)        {}

// PullKept is like PullFrom with a cache, which must hold only files of the same folders. For a cached image, it sends no request if
// the reference is a digest, and only the request for the digest if it is a tag.
func PullKept(ctx context.Context, from Source, keeper Keeper, reference string, limits Limits, folders ...string) (Pulled, error) {
	return pullFrom(ctx, from, keeper, reference, limits, func(context.Context, *pulling, platformImage) ([]string, error) { return folders, nil })
}

// PullLabelled is like PullFrom, and reads the folders that choose returns for the labels of the image, or of the first image of an
// index.
func PullLabelled(ctx context.Context, from Source, reference string, limits Limits, choose func(labels map[string]string) ([]string, error)) (Pulled, error) {
	return pullFrom(ctx, from, noKeeper{}, reference, limits, func(ctx context.Context, p *pulling, of platformImage) ([]string, error) {
		labels, err := p.labels(ctx, of)
		if err != nil {
			return nil, err
		}
		return choose(labels)
	})
}

// chooser chooses the folders to read from an image.
type chooser func(context.Context, *pulling, platformImage) ([]string, error)

// isBare reports whether a reference has a registry, but neither a tag nor a digest.
func isBare(reference string) bool {
	ref, err := name.ParseReference(reference+":v1.0.0", name.StrictValidation)
	return err == nil && strings.ContainsAny(ref.Context().RegistryStr(), ".:") && !strings.HasPrefix(reference, ".") && !strings.Contains(reference[strings.LastIndex(reference, "/")+1:], ":")
}

func pullFrom(ctx context.Context, from Source, keeper Keeper, reference string, limits Limits, choose chooser) (Pulled, error) {
	ref, err := parseReference(ctx, reference)
	if err != nil && isBare(reference) {
		return Pulled{}, fmt.Errorf("image %q has neither a tag nor a digest: want one of them, such as %s:v1.0.0", reference, reference)
	}
	if err != nil {
		return Pulled{}, fmt.Errorf("image %q: want a reference with its registry and a tag or a digest, such as quay.io/example/bundle:v1.0.0: %w", reference, err)
	}
	ctx, cancel := context.WithTimeout(ctx, limits.Time)
	defer cancel()
	pulled, err := pull(ctx, from, keeper, ref, limits, choose)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it took longer than %s: %w", limits.Time, err)
	}
	if err != nil {
		advice := remedy(ref.Context(), err)
		if errors.Is(ctx.Err(), context.Canceled) { // the failure is due to the cancellation
			advice = ""
		}
		return Pulled{}, fmt.Errorf("cannot pull image %s: %w%s", reference, err, advice)
	}
	return pulled, nil
}

func pull(ctx context.Context, from Source, keeper Keeper, ref name.Reference, limits Limits, choose chooser) (Pulled, error) {
	if digest, is := ref.(name.Digest); is {
		reference := repository(ref) + "@" + digest.DigestStr()
		if files, kept := keeper.Load(keyOf(reference)); kept {
			return Pulled{Reference: reference, Files: files}, nil
		}
	}
	p := &pulling{from: from, repository: ref.Context(), left: newBudget(limits), layers: map[v1.Hash]*layer{}}
	found, err := p.manifest(ctx, ref)
	if err != nil {
		return Pulled{}, err
	}
	pulled := Pulled{Reference: repository(ref) + "@" + found.Digest.String()}
	var kept bool
	if pulled.Files, kept = keeper.Load(keyOf(pulled.Reference)); kept {
		return pulled, nil
	}
	images, err := p.images(ctx, found)
	if err != nil {
		return Pulled{}, err
	}
	if p.folders, err = choose(ctx, p, images[0]); err != nil {
		return Pulled{}, err
	}
	if pulled.Files, err = p.files(ctx, images[0]); err != nil {
		return Pulled{}, err
	}
	for _, other := range images[1:] {
		otherFiles, err := p.files(ctx, other)
		if err != nil {
			return Pulled{}, err
		}
		if file, differ := difference(pulled.Files, otherFiles); differ {
			return Pulled{}, contentErrorf("its file %q is not the same for %s and for %s; expected the same files for all platforms", file, images[0].platform, other.platform)
		}
	}
	keeper.Keep(keyOf(pulled.Reference), pulled.Files)
	return pulled, nil
}

// pulling is the state of a pull.
type pulling struct {
	from       Source
	repository name.Repository
	folders    []string
	left       *budget
	layers     map[v1.Hash]*layer // layers already read
}

// manifest is the manifest of an image or an index.
type manifest struct {
	v1.Descriptor
	content content
}

// content is the decoded content of a manifest.
type content struct {
	MediaType types.MediaType `json:"mediaType"`
	Config    *v1.Descriptor  `json:"config"`
	Layers    []v1.Descriptor `json:"layers"`
	Manifests []v1.Descriptor `json:"manifests"`
	Subject   *v1.Descriptor  `json:"subject"` // the manifest that it is attached to
}

func (p *pulling) manifest(ctx context.Context, ref name.Reference) (*manifest, error) {
	found, text, err := p.from.manifest(ctx, ref)
	if err != nil {
		return nil, err
	}
	if err := p.left.take(found.Size); err != nil {
		return nil, err
	}
	return parse(found, text)
}

// maxValues is the maximum number of values in a manifest, and maxType of letters in a media type
// (https://www.rfc-editor.org/rfc/rfc6838#section-4.2). An index with the maximum number of images has a tenth of maxValues.
const (
	maxValues = 20_000
	maxType   = 255
)

// contentOf decodes a manifest. It counts values before it allocates memory for them: three bytes of text can take a hundred bytes
// of memory.
func contentOf(text []byte) (read content, err error) {
	if n := values(text); n > maxValues {
		return read, contentErrorf("it has more than %d values; expected fewer", maxValues)
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return read, err
	}
	lists := [][]v1.Descriptor{read.Layers, read.Manifests}
	for _, one := range []*v1.Descriptor{read.Config, read.Subject} {
		if one != nil {
			lists = append(lists, []v1.Descriptor{*one})
		}
	}
	for _, list := range lists {
		for _, d := range list {
			if len(d.MediaType) > maxType {
				return read, contentErrorf("a media type in it has %d letters; expected at most %d", len(d.MediaType), maxType)
			}
		}
	}
	return read, nil
}

// values returns an upper bound of the number of values in JSON: the number of commas, brackets and braces outside of strings.
func values(text []byte) (n int) {
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// parse reads a manifest, given the media type that the registry reported.
func parse(found v1.Descriptor, text []byte) (*manifest, error) {
	read, err := contentOf(text)
	if err != nil {
		return nil, contentErrorf("the manifest %s cannot be read: %v", found.Digest, err)
	}
	m := &manifest{Descriptor: found, content: read}
	isIndex, isImage := found.MediaType.IsIndex(), found.MediaType.IsImage()
	switch c := m.content; {
	case !isIndex && !isImage:
		return nil, contentErrorf("the manifest %s is of media type %q; expected an image, in the format of OCI or of Docker's schema 2", found.Digest, found.MediaType)
	case c.MediaType != "" && c.MediaType != found.MediaType:
		return nil, contentErrorf("the manifest %s says that it is of media type %q, but its registry says %q; expected the same", found.Digest, c.MediaType, found.MediaType)
	case isIndex && (c.Config != nil || c.Layers != nil), isImage && c.Manifests != nil:
		return nil, contentErrorf("the manifest %s lists both layers and images; expected either", found.Digest)
	}
	return m, nil
}

// platformImage is the image for one platform, or the only image.
type platformImage struct {
	platform string
	config   *v1.Descriptor
	layers   []v1.Descriptor
}

// images returns the images for all platforms. It skips attestations, which build tools add with an unknown platform.
func (p *pulling) images(ctx context.Context, found *manifest) ([]platformImage, error) {
	if !found.MediaType.IsIndex() {
		layers, err := found.layers(p.left.size)
		return []platformImage{{"all", found.content.Config, layers}}, err
	}
	listed, err := found.images()
	if err != nil {
		return nil, err
	}
	var images []platformImage
	for _, d := range listed {
		m, err := p.manifest(ctx, p.repository.Digest(d.Digest.String()))
		if err != nil {
			return nil, err
		}
		if m.Size != d.Size {
			return nil, contentErrorf("the manifest %s is %d bytes long, but listed with %d; expected the same", d.Digest, m.Size, d.Size)
		}
		layers, err := m.layers(p.left.size)
		if err != nil {
			return nil, err
		}
		images = append(images, platformImage{nameOf(d), m.content.Config, layers})
	}
	return images, nil
}

// images returns an index's descriptors of images for platforms.
func (m *manifest) images() (images []v1.Descriptor, err error) {
	if listed := len(m.content.Manifests); listed > maxManifests {
		return nil, contentErrorf("it lists %d images; expected at most %d", listed, maxManifests)
	}
	for _, d := range m.content.Manifests {
		isForNobody := d.Platform != nil && d.Platform.OS == "unknown" && d.Platform.Architecture == "unknown"
		switch {
		case d.MediaType.IsIndex():
			return nil, contentErrorf("it lists another list of images, %s; expected a list of images only", d.Digest)
		case isForNobody:
			continue
		case !d.MediaType.IsImage(): // CRI-O and Podman choose by platform alone, and run what they get
			return nil, contentErrorf("it lists %s of media type %q; expected images only, and others for the platform %s", d.Digest, d.MediaType, unknownPlatform)
		}
		if err := checkNotForeign(d); err != nil {
			return nil, err
		}
		images = append(images, d)
	}
	if len(images) == 0 {
		return nil, contentErrorf("it lists no image of any architecture; expected at least one")
	}
	return images, nil
}

// nameOf returns a printable name of a platform.
func nameOf(image v1.Descriptor) string {
	if image.Platform == nil {
		return fmt.Sprintf("no platform, %s", image.Digest)
	}
	return fmt.Sprintf("platform %q", shortened(image.Platform.String()))
}

// layerTypes are the media types of distributable tar archives.
var layerTypes = []types.MediaType{types.OCILayer, types.OCILayerZStd, types.OCIUncompressedLayer, types.DockerLayer, types.DockerUncompressedLayer}

// layers returns the layers of the image if they are readable and not larger than size.
func (m *manifest) layers(size int64) ([]v1.Descriptor, error) {
	layers := m.content.Layers
	if !m.MediaType.IsImage() {
		return nil, contentErrorf("the manifest %s is of media type %q; expected an image", m.Digest, m.MediaType)
	}
	if len(layers) > maxLayers {
		return nil, contentErrorf("it has %d layers; expected at most %d", len(layers), maxLayers)
	}
	if m.content.Config != nil {
		if err := checkNotForeign(*m.content.Config); err != nil {
			return nil, err
		}
	}
	var total int64
	for _, d := range layers {
		if err := checkNotForeign(d); err != nil {
			return nil, err
		}
		if !slices.Contains(layerTypes, d.MediaType) {
			return nil, contentErrorf("its layer %s is of media type %q; expected a tar archive, which may be in gzip or zstd", d.Digest, d.MediaType)
		}
		if d.Size < 0 || d.Size > size-total {
			return nil, newBudget(Limits{Size: size}).exceeded()
		}
		total += d.Size
	}
	return layers, nil
}

// checkNotForeign rejects descriptors with URLs: they would let the author of the image choose where requests go.
func checkNotForeign(d v1.Descriptor) error {
	if len(d.URLs) > 0 || !d.MediaType.IsDistributable() {
		return contentErrorf("its blob %s has URLs outside of the registry; expected all blobs in the registry: build the image without foreign layers", d.Digest)
	}
	return nil
}

// files returns the files in the folders of an image.
func (p *pulling) files(ctx context.Context, image platformImage) (map[string][]byte, error) {
	s := &stack{}
	for _, d := range image.layers {
		read, err := p.layers[d.Digest], error(nil)
		if read == nil {
			read, err = p.layer(ctx, d)
			p.layers[d.Digest] = read
		} else {
			err = p.left.visit(len(read.names) + len(read.gone))
		}
		if err != nil {
			return nil, err
		}
		s.layers = append(s.layers, read)
	}
	if err := s.checkLinks(); err != nil {
		return nil, err
	}
	return s.files(), nil
}

// layer reads a layer and checks it against its descriptor.
func (p *pulling) layer(ctx context.Context, d v1.Descriptor) (read *layer, err error) {
	err = p.read(ctx, d, func(stream io.Reader) (err error) {
		read, err = readLayer(stream, p.left, p.folders)
		return err
	})
	return read, err
}

// read reads a blob, and repeats that if the registry breaks off in the middle: the library repeats only requests, not the reading of
// bodies. Only one attempt counts against the budget.
func (p *pulling) read(ctx context.Context, d v1.Descriptor, do func(io.Reader) error) error {
	before := *p.left
	var refused error
	return errors.Join(repeat(ctx, func() (err error) {
		*p.left = before
		var stream io.ReadCloser
		if stream, refused = p.from.open(ctx, p.repository, d); refused != nil {
			return nil
		}
		defer func() { err = errors.Join(err, stream.Close()) }()
		return do(stream)
	}), refused)
}

// maxConfig is the maximum size of an image's configuration that is read, in bytes. Real ones take some KiB.
const maxConfig = 4 << 20

// labels returns the labels of an image. Images without a configuration have none.
func (p *pulling) labels(ctx context.Context, of platformImage) (map[string]string, error) {
	if of.config == nil {
		return nil, nil
	}
	if of.config.Size < 0 || of.config.Size > maxConfig {
		return nil, contentErrorf("its manifest says that the configuration %s has %d bytes; expected at most %d", of.config.Digest, of.config.Size, maxConfig)
	}
	if err := p.left.take(of.config.Size); err != nil {
		return nil, err
	}
	var text []byte
	if err := p.read(ctx, *of.config, func(stream io.Reader) (err error) {
		text, err = io.ReadAll(stream) // ends at the size of the descriptor
		return err
	}); err != nil {
		return nil, err
	}
	if n := values(text); n > maxValues {
		return nil, contentErrorf("its configuration %s has more than %d values; expected fewer", of.config.Digest, maxValues)
	}
	var config struct {
		Config struct{ Labels map[string]string } `json:"config"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, contentErrorf("its configuration %s cannot be read: %v", of.config.Digest, err)
	}
	return config.Config.Labels, nil
}

// difference returns the first file that differs between two images.
func difference(a, b map[string][]byte) (file string, differ bool) {
	names := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(names)
	for _, name := range names {
		contentA, inA := a[name]
		contentB, inB := b[name]
		if inA != inB || !bytes.Equal(contentA, contentB) {
			return name, true
		}
	}
	return "", false
}

// repository returns the reference as it was written, without its tag or digest.
func repository(ref name.Reference) string {
	text, _, _ := strings.Cut(ref.String(), "@")
	if colon := strings.LastIndex(text, ":"); colon > strings.LastIndex(text, "/") {
		text = text[:colon]
	}
	return text
}

// remedy says what to do about a failed pull, if the error shows that.
func remedy(from name.Repository, err error) string {
	if refused := (*transport.Error)(nil); errors.As(err, &refused) {
		switch refused.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fmt.Sprintf("; check the name, and log in with `docker login %s` if the image needs a login", from.RegistryStr())
		case http.StatusNotFound:
			return fmt.Sprintf("; check the name: %s has no such image", from.RegistryStr())
		}
		return ""
	}
	if unfit := (*contentError)(nil); errors.As(err, &unfit) || !isFailure(err) {
		return ""
	}
	if isDistrust(err) {
		return trust(from)
	}
	return fmt.Sprintf("; check that %s can be reached from here, if need be by a proxy that HTTPS_PROXY names", from.RegistryStr())
}

// isDistrust reports whether a registry's certificate is from an unknown authority.
func isDistrust(err error) bool {
	unknown := x509.UnknownAuthorityError{}
	return errors.As(err, &unknown)
}

// trust says how to trust a registry.
func trust(registry name.Repository) string {
	return fmt.Sprintf("; if you trust %s, name a file with the certificate of its authority in the environment variable SSL_CERT_FILE", registry.RegistryStr())
}
