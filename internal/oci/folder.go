package oci

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The parts of an OCI layout.
const (
	layoutFile  = "oci-layout"
	indexFile   = "index.json"
	blobsFolder = "blobs/sha256"
	unfinished  = ".unfinished-" // prefix of files that are being written
)

// maxIndex is the maximum size of a folder's list of images, in bytes. Each image takes about 500.
const maxIndex = 64 << 20

// Folder is an OCI layout that holds images under their names in registries. It can be carried to a place without access to
// registries. It is a Source and a Destination.
type Folder struct {
	dir  string
	root *os.Root

	mu       sync.Mutex
	images   map[string]indexed   // by name, in index.json
	subjects map[v1.Hash][]string // names of attached manifests, by the digest of their subject
	added    map[string]indexed   // by name, not in index.json yet
	needed   map[string]bool      // files of blobs that were requested since the folder was opened
	// mayBeSingle says that a single image without a name counts as the catalog; single says that there is one.
	mayBeSingle, single bool
}

// OpenFolder opens a folder of images. Nothing in it is trusted.
func OpenFolder(dir string) (*Folder, error) {
	f, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	f.mayBeSingle = true
	if err := f.readIndex(); err != nil {
		return nil, fmt.Errorf("image folder %s: %w", dir, err)
	}
	return f, nil
}

// NewFolder opens or creates a folder for images, which must be absent, empty or a layout.
func NewFolder(dir string) (*Folder, error) {
	if err := mayReplace(dir); err != nil {
		return nil, err
	}
	// Files are written and deleted in these folders: a link in a folder that somebody carried here must not lead elsewhere.
	for _, below := range []string{path.Dir(blobsFolder), blobsFolder} {
		if info, err := os.Lstat(filepath.Join(dir, below)); err == nil && !info.IsDir() {
			return nil, fmt.Errorf("image folder %s: %s is not a folder; expected one: choose another place", dir, below)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, blobsFolder), 0o755); err != nil {
		return nil, fmt.Errorf("image folder: %w", err)
	}
	f, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	if err := f.readIndex(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("image folder %s: %w", dir, err)
	}
	return f, f.sweep(func(file string) bool { return strings.HasPrefix(file, unfinished) })
}

func openRoot(dir string) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("image folder: %w", err)
	}
	return &Folder{dir: dir, root: root, images: map[string]indexed{}, subjects: map[v1.Hash][]string{}, added: map[string]indexed{},
		needed: map[string]bool{}}, nil
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Catalog returns the name, the reference and the origin of the folder's catalog, or empty strings.
func (f *Folder) Catalog() (name, reference, origin string) {
	for reference, d := range f.images {
		if name := d.Annotations.Catalog; name != "" {
			return name, reference, d.Annotations.Origin
		}
	}
	return "", "", ""
}

// Hosts returns the registries of the images in the folder.
func (f *Folder) Hosts() (all []string) {
	for reference := range f.images {
		host, _, _ := strings.Cut(reference, "/")
		all = append(all, host)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// indexed is an image in the list of a folder.
type indexed struct {
	MediaType   types.MediaType    `json:"mediaType"`
	Size        int64              `json:"size"`
	Digest      v1.Hash            `json:"digest"`
	Annotations indexedAnnotations `json:"annotations"`
}

type indexedAnnotations struct {
	Catalog string `json:"mirror.berth-csi.github.io/catalog,omitempty"` // the name of the catalog, if it is one
	Origin  string `json:"mirror.berth-csi.github.io/origin,omitempty"`  // where the catalog is from
	Ref     string `json:"org.opencontainers.image.ref.name"`            // https://github.com/opencontainers/image-spec/blob/main/annotations.md
}

// IsSingle reports whether the folder has a single image without a name, as written by WriteLayout and other tools. That image counts as
// the catalog, named after the folder.
func (f *Folder) IsSingle() bool { return f.single }

// singleName is the name of an image without a name. No registry can have it.
const singleName = "layout.invalid/catalog:latest"

// readIndex reads the list of images one image at a time, so that memory is bounded by the size of the file.
func (f *Folder) readIndex() error {
	opened, err := f.file(indexFile)
	if err != nil {
		return err
	}
	defer opened.Close()
	if info, err := opened.Stat(); err == nil && info.Size() > maxIndex {
		return contentErrorf("%s is longer than %d bytes; expected less", indexFile, maxIndex)
	}
	decoder := json.NewDecoder(io.LimitReader(opened, maxIndex))
	if err := f.readImages(decoder); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s is not a list of images: something follows it", indexFile)
	}
	return nil
}

// readImages reads the JSON object that lists the images.
func (f *Folder) readImages(decoder *json.Decoder) error {
	if err := expect(decoder, '{'); err != nil {
		return err
	}
	subjects := map[v1.Hash]v1.Hash{} // of each manifest, which is read once even if it has several names
	for decoder.More() {
		field, err := decoder.Token()
		if err != nil {
			return noList(err)
		}
		if field != "manifests" {
			var passed json.RawMessage
			if err := decoder.Decode(&passed); err != nil {
				return noList(err)
			}
			continue
		}
		if err := expect(decoder, '['); err != nil {
			return err
		}
		for decoder.More() {
			var d indexed
			if err := decoder.Decode(&d); err != nil {
				return noList(err)
			}
			if err := f.list(d, subjects); err != nil {
				return err
			}
		}
		if err := expect(decoder, ']'); err != nil {
			return err
		}
	}
	return expect(decoder, '}')
}

func expect(decoder *json.Decoder, want json.Delim) error {
	got, err := decoder.Token()
	if err != nil {
		return noList(err)
	}
	if got != want {
		return noList(fmt.Errorf("it has %v where %v is expected", got, want))
	}
	return nil
}

func noList(err error) error { return fmt.Errorf("%s is not a list of images: %w", indexFile, err) }

// list adds an image from the list.
func (f *Folder) list(d indexed, subjects map[v1.Hash]v1.Hash) error {
	if f.single {
		return fmt.Errorf("%s has an image without a name beside others; expected the full name of each, as in a folder that `berth catalog mirror` wrote", indexFile)
	}
	if d.Digest == (v1.Hash{}) {
		return fmt.Errorf("%s has an image without a digest; expected one, as in a folder that `berth catalog mirror` wrote", indexFile)
	}
	ref, err := parseName(d.Annotations.Ref)
	if err != nil && f.mayBeSingle && len(f.images) == 0 {
		f.single = true
		d.Annotations = indexedAnnotations{Catalog: filepath.Base(filepath.Clean(f.dir)), Ref: singleName}
		ref, err = parseName(singleName)
	}
	if err != nil {
		return fmt.Errorf("%s: %w, as in a folder that `berth catalog mirror` wrote", indexFile, err)
	}
	if digest, is := ref.(name.Digest); is && digest.DigestStr() != d.Digest.String() {
		return fmt.Errorf("%s has %s under the name %s; expected the same digest", indexFile, d.Digest, ref)
	}
	if len(d.MediaType) > maxType {
		return fmt.Errorf("%s: a media type has %d letters; expected at most %d", indexFile, len(d.MediaType), maxType)
	}
	subject, read := subjects[d.Digest]
	if !read {
		_, text, err := f.manifest(context.Background(), ref.Context().Digest(d.Digest.String()))
		if err != nil {
			return err
		}
		if subject, err = subjectOf(text); err != nil {
			return fmt.Errorf("manifest %s: %w", d.Digest, err)
		}
		subjects[d.Digest] = subject
	}
	f.images[ref.Name()] = d
	if subject != (v1.Hash{}) {
		f.subjects[subject] = append(f.subjects[subject], ref.Name())
	}
	return nil
}

// read reads a regular file of a limited size.
func (f *Folder) read(file string, limit int64) ([]byte, error) {
	opened, err := f.file(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	text, err := io.ReadAll(io.LimitReader(opened, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = contentErrorf("%s is longer than %d bytes; expected less", file, limit)
	}
	return text, err
}

// file opens a regular file.
func (f *Folder) file(file string) (*os.File, error) {
	if info, err := f.root.Lstat(file); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, contentErrorf("%s is not a file; expected one", file)
	}
	return f.root.Open(file)
}

func fileOf(digest v1.Hash) string { return path.Join(blobsFolder, digest.Hex) }

// manifest makes Folder a Source.
func (f *Folder) manifest(_ context.Context, ref name.Reference) (v1.Descriptor, []byte, error) {
	digest := f.images[ref.Name()].Digest
	if by, is := ref.(name.Digest); is {
		digest, _ = v1.NewHash(by.DigestStr()) // valid, as the reference is
	}
	if digest == (v1.Hash{}) {
		return v1.Descriptor{}, nil, fmt.Errorf("the folder has no image of that name: %w", fs.ErrNotExist)
	}
	text, err := f.read(fileOf(digest), maxAnswer)
	if err != nil {
		return v1.Descriptor{}, nil, err
	}
	if got, err := digestOf(text); err != nil || got != digest {
		return v1.Descriptor{}, nil, contentErrorf("its file %s has content with the digest %s; expected the same: carry the folder again", fileOf(digest), got)
	}
	read, err := contentOf(text)
	if err != nil {
		return v1.Descriptor{}, nil, contentErrorf("the manifest %s cannot be read: %v", digest, err)
	}
	// Docker's manifests state their type; OCI's need not.
	mediaType := cmp.Or(read.MediaType, types.OCIManifestSchema1)
	if read.MediaType == "" && read.Manifests != nil {
		mediaType = types.OCIImageIndex
	}
	return v1.Descriptor{MediaType: mediaType, Size: int64(len(text)), Digest: digest}, text, nil
}

func (f *Folder) open(_ context.Context, _ name.Repository, blob v1.Descriptor) (io.ReadCloser, error) {
	file, err := f.file(fileOf(blob.Digest))
	if err != nil {
		return nil, err
	}
	return verified(file, blob), nil
}

func (f *Folder) referrers(_ context.Context, subject name.Digest) (all []v1.Descriptor, err error) {
	digest, err := v1.NewHash(subject.DigestStr())
	if err != nil {
		return nil, err
	}
	for _, ref := range f.subjects[digest] {
		if strings.HasPrefix(ref, subject.Context().Name()+"@") {
			d := f.images[ref]
			all = append(all, v1.Descriptor{MediaType: d.MediaType, Size: d.Size, Digest: d.Digest})
		}
	}
	return all, nil
}

// place makes Folder a Destination: images keep their names.
func (f *Folder) place(of name.Repository, _ bool) (name.Repository, error) { return of, nil }

func (f *Folder) has(_ context.Context, _ name.Repository, p contentDescriptor) (bool, error) {
	f.mu.Lock()
	f.needed[p.Digest.Hex] = true
	f.mu.Unlock()
	info, err := f.root.Lstat(fileOf(p.Digest)) // complete and verified, because only such files have that name
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode().IsRegular() && info.Size() == p.Size, err
}

func (f *Folder) upload(_ context.Context, _ name.Repository, p contentDescriptor, open func() (io.ReadCloser, error)) error {
	content, err := open()
	if err != nil {
		return err
	}
	defer content.Close()
	return f.write(fileOf(p.Digest), content)
}

func (f *Folder) put(_ context.Context, _ name.Repository, p contentDescriptor, text []byte) error {
	return f.write(fileOf(p.Digest), bytes.NewReader(text))
}

// tagged makes Folder a Destination: the list of images is replaced as a whole, so that no tag conflicts.
func (f *Folder) tagged(context.Context, name.Tag) (v1.Hash, error) { return v1.Hash{}, nil }

func (f *Folder) formerly(context.Context, name.Repository, contentDescriptor) (name.Repository, bool, error) {
	return name.Repository{}, false, nil
}

func (f *Folder) hold(name.Repository, v1.Hash) {}

func (f *Folder) name(_ context.Context, ref name.Reference, p contentDescriptor, _ v1.Hash, _ []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.added[ref.Name()] = indexed{MediaType: p.MediaType, Size: p.Size, Digest: p.Digest, Annotations: indexedAnnotations{Ref: ref.Name()}}
	return nil
}

// write writes a file, which appears when it is complete. Like sweep, it stays below the folder, even if somebody else has put a link there
// meanwhile.
func (f *Folder) write(file string, content io.Reader) (err error) {
	name := path.Join(blobsFolder, unfinished+rand.Text())
	opened, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.root.Remove(name))
		}
	}()
	_, err = io.Copy(opened, content)
	if err == nil {
		err = errors.Join(opened.Chmod(0o644), opened.Sync())
	}
	if err = errors.Join(err, opened.Close()); err != nil {
		return err
	}
	return f.root.Rename(name, file)
}

// Finish writes a list of exactly the images that were copied since the folder was opened, including the catalog. Until then, the folder
// lists its earlier images. Files that no image needs any more are deleted.
func (f *Folder) Finish(catalog, reference, origin string) error {
	index := struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     types.MediaType `json:"mediaType"`
		Manifests     []indexed       `json:"manifests"`
	}{2, types.OCIImageIndex, []indexed{}}
	for _, ref := range slices.Sorted(maps.Keys(f.added)) {
		d := f.added[ref]
		if ref == reference {
			d.Annotations.Catalog, d.Annotations.Origin = catalog, origin
		}
		index.Manifests = append(index.Manifests, d)
	}
	text, err := json.MarshalIndent(index, "", "  ")
	if err == nil {
		err = f.write(layoutFile, strings.NewReader(`{"imageLayoutVersion":"1.0.0"}`))
	}
	if err == nil {
		err = f.write(indexFile, strings.NewReader(string(text)))
	}
	if err != nil {
		return fmt.Errorf("image folder %s: %w%s", f.dir, err, f.remedy(err))
	}
	return f.sweep(func(file string) bool { return !f.needed[file] })
}

// sweep deletes files of blobs.
func (f *Folder) sweep(which func(file string) bool) error {
	files, err := fs.ReadDir(f.root.FS(), blobsFolder)
	if err != nil {
		return fmt.Errorf("image folder %s: %w", f.dir, err)
	}
	for _, file := range files {
		if !which(file.Name()) {
			continue
		}
		if err := f.root.Remove(path.Join(blobsFolder, file.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("image folder %s: %w", f.dir, err)
		}
	}
	return nil
}

func (f *Folder) remedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Sprintf("; make room in %s and repeat the command: it copies only missing content", f.dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("; choose a folder that you may write to instead of %s", f.dir)
	}
	return ""
}
