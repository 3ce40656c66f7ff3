package image

import (
	"cmp"
	"context"
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

// refName is the annotation with which an OCI layout names its images: https://github.com/opencontainers/image-spec/blob/main/annotations.md
const refName = "org.opencontainers.image.ref.name"

// catalogName is the annotation that names the catalog in a folder.
const catalogName = "mirror.berth-csi.github.io/catalog"

// The parts of an OCI layout.
const (
	layoutFile  = "oci-layout"
	indexFile   = "index.json"
	blobsFolder = "blobs/sha256"
	unfinished  = ".unfinished-" // prefix of files that are being written
)

// maxIndex is the maximum size of a folder's list of images, in bytes.
const maxIndex = 256 << 20

// Folder is a folder with images under the names that they have in their registries, in the OCI layout. It may be carried
// where no registry can be reached. It is a Source and a Destination.
type Folder struct {
	dir  string
	root *os.Root

	mu       sync.Mutex
	images   map[string]v1.Descriptor // by name, in index.json
	subjects map[v1.Hash][]string     // names of what is attached, by the digest of what it is attached to
	added    map[string]v1.Descriptor // by name, not in index.json yet
	needed   map[string]bool          // files of blobs that were asked for since the folder was opened
}

// OpenFolder opens a folder of images. Nothing in it is trusted.
func OpenFolder(dir string) (*Folder, error) {
	f, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
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
	// Files are written there, and those that nothing needs are deleted: a link in a folder that somebody has carried here must not
	// lead to any others.
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
	return &Folder{dir: dir, root: root, images: map[string]v1.Descriptor{}, subjects: map[v1.Hash][]string{}, added: map[string]v1.Descriptor{},
		needed: map[string]bool{}}, nil
}

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// Catalog returns the name and the reference of the folder's catalog, or nothing.
func (f *Folder) Catalog() (name, reference string) {
	for reference, d := range f.images {
		if name := d.Annotations[catalogName]; name != "" {
			return name, reference
		}
	}
	return "", ""
}

// readIndex reads the list of images.
func (f *Folder) readIndex() error {
	text, err := f.read(indexFile, maxIndex)
	if err != nil {
		return err
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(text, &index); err != nil {
		return fmt.Errorf("%s is not a list of images: %w", indexFile, err)
	}
	for _, d := range index.Manifests {
		ref, err := parseName(d.Annotations[refName])
		if err != nil {
			return fmt.Errorf("%s: %w, as in a folder that `berth catalog mirror` wrote", indexFile, err)
		}
		if digest, is := ref.(name.Digest); is && digest.DigestStr() != d.Digest.String() {
			return fmt.Errorf("%s has %s under the name %s; expected the same digest", indexFile, d.Digest, ref)
		}
		_, text, err := f.manifest(context.Background(), ref.Context().Digest(d.Digest.String()))
		if err != nil {
			return err
		}
		subject, err := subjectOf(text)
		if err != nil {
			return fmt.Errorf("manifest %s: %w", d.Digest, err)
		}
		f.images[ref.Name()] = d
		if subject != (v1.Hash{}) {
			f.subjects[subject] = append(f.subjects[subject], ref.Name())
		}
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
	var read content
	if err := json.Unmarshal(text, &read); err != nil {
		return v1.Descriptor{}, nil, contentErrorf("the manifest %s cannot be read: %v", digest, err)
	}
	// Manifests of Docker's say what they are, and those of OCI need not.
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
			all = append(all, f.images[ref])
		}
	}
	return all, nil
}

// place makes Folder a Destination: images keep their names.
func (f *Folder) place(of name.Repository) (name.Repository, error) { return of, nil }

func (f *Folder) has(_ context.Context, _ name.Repository, p part) (bool, error) {
	f.mu.Lock()
	f.needed[p.Digest.Hex] = true
	f.mu.Unlock()
	info, err := f.root.Lstat(fileOf(p.Digest)) // complete and verified, or it would not have that name
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode().IsRegular() && info.Size() == p.Size, err
}

func (f *Folder) upload(_ context.Context, _ name.Repository, p part, open func() (io.ReadCloser, error)) error {
	content, err := open()
	if err != nil {
		return err
	}
	defer content.Close()
	return f.write(fileOf(p.Digest), content)
}

func (f *Folder) put(_ context.Context, _ name.Repository, p part) error {
	return f.write(fileOf(p.Digest), strings.NewReader(string(p.text)))
}

func (f *Folder) name(_ context.Context, ref name.Reference, p part) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.added[ref.Name()] = v1.Descriptor{MediaType: p.MediaType, Size: p.Size, Digest: p.Digest, Annotations: map[string]string{refName: ref.Name()}}
	return nil
}

// write writes a file, which appears when it is complete.
func (f *Folder) write(file string, content io.Reader) (err error) {
	opened, err := os.CreateTemp(filepath.Join(f.dir, blobsFolder), unfinished)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(opened.Name()))
		}
	}()
	_, err = io.Copy(opened, content)
	if err == nil {
		err = errors.Join(opened.Chmod(0o644), opened.Sync())
	}
	if err = errors.Join(err, opened.Close()); err != nil {
		return err
	}
	return os.Rename(opened.Name(), filepath.Join(f.dir, filepath.FromSlash(file)))
}

// Finish lists the images that were copied since the folder was opened, and only those, among them the catalog of a name.
// Until then, the folder has the images that it had. Files that no image needs any more are deleted.
func (f *Folder) Finish(catalog, reference string) error {
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	for _, ref := range slices.Sorted(maps.Keys(f.added)) {
		d := f.added[ref]
		if ref == reference {
			d.Annotations[catalogName] = catalog
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
	files, err := os.ReadDir(filepath.Join(f.dir, blobsFolder))
	if err != nil {
		return fmt.Errorf("image folder %s: %w", f.dir, err)
	}
	for _, file := range files {
		if !which(file.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(f.dir, blobsFolder, file.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("image folder %s: %w", f.dir, err)
		}
	}
	return nil
}

func (f *Folder) remedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Sprintf("; make room in %s and repeat the command: it copies only what is missing", f.dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("; choose a folder that you may write to instead of %s", f.dir)
	}
	return ""
}
