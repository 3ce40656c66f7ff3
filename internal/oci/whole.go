package oci

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Whole is a complete image: the images for all platforms, and everything attached to them.
type Whole struct {
	// Reference is the requested image, and Digest its digest.
	Reference, Digest string
	// Size is the size of all manifests and blobs in bytes, and Missing is the size of the ones that the destination
	// lacks. Shared parts count as missing in only one image of a transfer.
	Size, Missing int64
	// Attached is the number of attached manifests: signatures, SBOMs, provenance.
	Attached int
	// Tags are the tags that the image needs in the destination: its own, if it was requested by tag, and the tags of attached
	// manifests.
	Tags []PlannedTag
	// Former is the place where an earlier version of this program put the image, if the image is still there, and not yet at its present
	// place.
	Former string
	// Images are the digests of the images that it lists, for the wanted platforms. It has none unless it is a list.
	Images []string
	// Sparse says that its list names images for platforms that are not wanted.
	Sparse bool

	ref       name.Reference
	manifests []contentDescriptor // each after the ones that it needs
	blobs     []contentDescriptor
	named     []named
}

// PlannedTag is a planned change of a tag in a destination.
type PlannedTag struct {
	// Reference is its full name.
	Reference string
	// Now is its current digest, or "". Next is its new digest.
	Now, Next string
}

// contentDescriptor is a manifest or a blob. The text of a manifest is read again when it is copied, because all texts together take too
// much memory.
type contentDescriptor struct {
	v1.Descriptor
	manifest bool
	missing  bool
}

// named is a reference that the destination must get, with the digest that it has there before the copy.
type named struct {
	ref    name.Reference
	part   contentDescriptor
	before v1.Hash
}

// Limits of one image. Real images are far below.
const (
	maxParts     = 1024     // manifests
	maxText      = 32 << 20 // bytes of all manifests
	maxBlobs     = 16 << 10
	maxNesting   = 4        // lists in lists, and attachments of attachments
	maxBlobSize  = 64 << 30 // bytes
	maxReferrers = 256      // of one manifest
)

// attachedTags are the suffixes of cosign's tags for attached manifests. The rest of a tag is the digest of the subject.
var attachedTags = []string{".sig", ".att", ".sbom"}

// pathPart matches an element of a repository's name, by the distribution specification. The library allows more, such as "..",
// with which a catalog could choose the place of its images.
var pathPart = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*$`)

// parseName parses the full name of an image.
func parseName(reference string) (name.Reference, error) {
	ref, err := name.ParseReference(reference, name.StrictValidation)
	if err != nil {
		return nil, fmt.Errorf("image %q: want a reference with its registry and a tag or a digest, such as quay.io/example/operator@sha256:…: %w", shortened(reference), err)
	}
	for part := range strings.SplitSeq(ref.Context().RepositoryStr(), "/") {
		if !pathPart.MatchString(part) {
			return nil, contentErrorf("image %q: its path has the part %q; expected only names of letters, digits and single separators", shortened(reference), shortened(part))
		}
	}
	return ref, nil
}

// isAttachedTag reports whether a tag is cosign's.
func isAttachedTag(tag string) bool {
	return strings.HasPrefix(tag, "sha256-") && slices.ContainsFunc(attachedTags, func(ending string) bool { return strings.HasSuffix(tag, ending) })
}

// walkImage finds the parts of an image, for the given platforms or for all.
func walkImage(ctx context.Context, from Source, reference string, platforms ...string) (*Whole, error) {
	ref, err := parseName(reference)
	if err != nil {
		return nil, err
	}
	w := &walk{Whole: &Whole{Reference: reference, ref: ref}, from: from, platforms: platforms, repository: ref.Context(), seen: map[v1.Hash]bool{}}
	root, err := w.manifest(ctx, ref, nil, nil, 0)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w%s", reference, err, remedy(ref.Context(), err))
	}
	w.Digest = root.Digest.String()
	w.named = append(w.named, named{ref: ref, part: root})
	return w.Whole, nil
}

// walk visits all manifests of an image.
type walk struct {
	*Whole
	from       Source
	platforms  []string // whose images are wanted; without any, all
	repository name.Repository
	seen       map[v1.Hash]bool
	text       int // bytes of the manifests so far
}

// manifest visits a manifest, its parts and its attachments. It must match listed and have the subject, unless they are nil.
func (w *walk) manifest(ctx context.Context, ref name.Reference, listed *v1.Descriptor, subject *v1.Hash, depth int) (contentDescriptor, error) {
	found, text, err := w.from.manifest(ctx, ref)
	if err != nil {
		if listed != nil && isAbsent(err) {
			return contentDescriptor{}, contentErrorf("it lists %s, which its registry does not have: it was pushed incompletely, or deleted in part; push it again", listed.Digest)
		}
		return contentDescriptor{}, err
	}
	p := contentDescriptor{Descriptor: v1.Descriptor{MediaType: found.MediaType, Size: int64(len(text)), Digest: found.Digest}, manifest: true}
	if listed != nil && listed.Size != p.Size {
		return contentDescriptor{}, contentErrorf("the manifest %s is %d bytes long, but listed with %d; expected the same", p.Digest, p.Size, listed.Size)
	}
	if w.text += len(text); w.text > maxText {
		return contentDescriptor{}, contentErrorf("its manifests have more than %d bytes; expected fewer", maxText)
	}
	read, err := parse(p.Descriptor, text)
	if err != nil {
		return contentDescriptor{}, err
	}
	if subject != nil && (read.content.Subject == nil || read.content.Subject.Digest != *subject) {
		return contentDescriptor{}, contentErrorf("its registry says that %s is attached to %s, but the manifest does not say so; expected it as the subject", p.Digest, *subject)
	}
	if w.seen[p.Digest] {
		return p, nil
	}
	w.seen[p.Digest] = true
	if len(w.seen) > maxParts+maxBlobs || len(w.manifests) > maxParts || depth > maxNesting {
		return contentDescriptor{}, contentErrorf("more than %d manifests, or more than %d below each other, belong to it; expected fewer", maxParts, maxNesting)
	}
	if err := w.visit(ctx, read, depth); err != nil {
		return contentDescriptor{}, err
	}
	w.Size += p.Size
	w.manifests = append(w.manifests, p)
	return p, w.attached(ctx, p.Digest, depth)
}

// visit visits the parts of a manifest.
func (w *walk) visit(ctx context.Context, m *manifest, depth int) error {
	if len(m.content.Manifests) > maxManifests || len(m.content.Layers) > maxLayers {
		return contentErrorf("the manifest %s lists %d images and %d layers; expected at most %d and %d", m.Digest, len(m.content.Manifests), len(m.content.Layers), maxManifests, maxLayers)
	}
	listed, err := w.wanted(m.content.Manifests)
	if err != nil {
		return err
	}
	for _, child := range listed {
		if depth == 0 && (child.Platform == nil || child.Platform.OS+"/"+child.Platform.Architecture != unknownPlatform) {
			w.Images = append(w.Images, child.Digest.String())
		}
		if err := checkNotForeign(child); err != nil {
			return err
		}
		if _, err := w.manifest(ctx, w.repository.Digest(child.Digest.String()), &child, nil, depth+1); err != nil {
			return err
		}
	}
	blobs := slices.Clone(m.content.Layers)
	if m.content.Config != nil {
		blobs = append(blobs, *m.content.Config)
	}
	for _, blob := range blobs {
		if err := checkNotForeign(blob); err != nil {
			return err
		}
		if blob.Size < 0 || blob.Size > maxBlobSize {
			return contentErrorf("its manifest says that the blob %s has %d bytes; expected at most %d", blob.Digest, blob.Size, int64(maxBlobSize))
		}
		if !w.seen[blob.Digest] {
			w.seen[blob.Digest] = true
			w.Size += blob.Size
			if len(w.blobs) == maxBlobs {
				return contentErrorf("more than %d blobs belong to it; expected fewer", maxBlobs)
			}
			w.blobs = append(w.blobs, contentDescriptor{Descriptor: v1.Descriptor{MediaType: blob.MediaType, Size: blob.Size, Digest: blob.Digest}})
		}
	}
	return nil
}

// unknownPlatform is the platform that build tools give to manifests that are not images, such as provenance.
const unknownPlatform = "unknown/unknown"

// wanted returns the manifests of a list that are for a wanted platform, or for no platform.
func (w *walk) wanted(listed []v1.Descriptor) (some []v1.Descriptor, err error) {
	if len(w.platforms) == 0 || len(listed) == 0 {
		return listed, nil
	}
	var others []string
	found := false // an image for a wanted platform, or for none in particular
	for _, child := range listed {
		platform := unknownPlatform
		if child.Platform != nil {
			platform = child.Platform.OS + "/" + child.Platform.Architecture
		}
		is := func(want string) bool {
			return want == platform || child.Platform != nil && want == platform+"/"+child.Platform.Variant
		}
		if platform != unknownPlatform && !slices.ContainsFunc(w.platforms, is) {
			others = append(others, platform)
			continue
		}
		found = found || platform != unknownPlatform || child.Platform == nil
		some = append(some, child)
	}
	if !found && len(others) > 0 {
		return nil, contentErrorf("it has images for %s; expected one for %s", shortened(strings.Join(others, ", ")), strings.Join(w.platforms, " or "))
	}
	w.Sparse = w.Sparse || len(others) > 0
	return some, nil
}

// attached visits the attachments of a manifest: manifests with it as their subject (OCI 1.1), or with a tag of cosign's.
func (w *walk) attached(ctx context.Context, to v1.Hash, depth int) error {
	referrers, err := w.from.referrers(ctx, w.repository.Digest(to.String()))
	if err != nil {
		return err
	}
	if len(referrers) > maxReferrers {
		return contentErrorf("%d manifests are attached to %s; expected at most %d", len(referrers), to, maxReferrers)
	}
	for _, r := range referrers {
		if err := w.attach(ctx, w.repository.Digest(r.Digest.String()), &to, depth); err != nil {
			return err
		}
	}
	for _, ending := range attachedTags {
		tag := w.repository.Tag(to.Algorithm + "-" + to.Hex + ending)
		if err := w.attach(ctx, tag, nil, depth); err != nil && !isAbsent(err) {
			return err
		}
	}
	return nil
}

// attach visits an attached manifest, which must have the subject unless that is nil.
func (w *walk) attach(ctx context.Context, ref name.Reference, subject *v1.Hash, depth int) error {
	p, err := w.manifest(ctx, ref, nil, subject, depth+1)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(w.named, func(n named) bool { return n.ref.Name() == ref.Name() }) {
		w.Attached++
		w.named = append(w.named, named{ref: ref, part: p})
	}
	return nil
}

// subjectOf returns the digest of the subject of a manifest, or a zero hash.
func subjectOf(manifest []byte) (v1.Hash, error) {
	read, err := contentOf(manifest)
	if err != nil || read.Subject == nil {
		return v1.Hash{}, err
	}
	return read.Subject.Digest, nil
}

// IsAbsent reports whether an error of a transfer is about a single image that is missing or malformed. Other images may be fine.
func IsAbsent(err error) bool {
	unfit := (*contentError)(nil)
	return isAbsent(err) || errors.As(err, &unfit)
}
