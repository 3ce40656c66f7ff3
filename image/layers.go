package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

// What a layer says of the layers below it: a file of this prefix stands for one that is gone, and one of
// this name for everything in its folder
// (https://github.com/opencontainers/image-spec/blob/main/layer.md#whiteouts).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// The longest and the deepest name of an entry. Time and memory for an entry grow with both.
const (
	maxName  = 1024
	maxDepth = 32
)

// maxWindow is how much memory a layer in zstd may ask for: what every decoder has to offer (RFC 8878, 3.1.1.1.2).
const maxWindow = 8 << 20

// contentError is about what an image holds, as opposed to how it is reached.
type contentError struct{ message string }

func (e *contentError) Error() string { return e.message }

func unfit(format string, args ...any) error {
	return &contentError{fmt.Sprintf(format, args...)}
}

// budget is how many bytes may still be read out of an image: of manifests, and of layers after
// decompression, with all that is in them, whether anybody asked for it or not.
type budget struct{ size, left int64 }

func newBudget(size int64) *budget { return &budget{size, size} }

func (b *budget) exceeded() error {
	return unfit("its files take more than %d bytes; expected a smaller image", b.size)
}

func (b *budget) take(n int64) error {
	if n > b.left {
		return b.exceeded()
	}
	b.left -= n
	return nil
}

// reader returns a reader whose bytes count.
func (b *budget) reader(from io.Reader) io.Reader { return &budgetReader{b, from} }

type budgetReader struct {
	*budget
	from io.Reader
}

func (r *budgetReader) Read(p []byte) (int, error) {
	if int64(len(p)) > r.left {
		p = p[:r.left+1] // one more tells whether there is more
	}
	n, err := r.from.Read(p)
	if r.take(int64(n)) != nil {
		return 0, r.exceeded()
	}
	return n, err
}

// kind is what an entry of a layer is.
type kind string

const (
	aFolder  kind = "a folder"
	aFile    kind = "a file"
	aLink    kind = "a symbolic link"
	aRemoval kind = "a removal"
	another  kind = "a hard link, a device or something else"
)

var kinds = map[byte]kind{tar.TypeDir: aFolder, tar.TypeReg: aFile, tar.TypeSymlink: aLink}

// layer is what one layer does to the files below it.
type layer struct {
	folders []string // those that are read
	// names are those of all entries, but for removals.
	names map[string]kind
	// files are the files in the folders that are read.
	files map[string][]byte
	// gone are the files that are removed, and the folders of which the files are.
	gone []string
	// removals are the folders in which something is removed.
	removals map[string]bool
}

// readLayer reads the files in folders of one layer, an archive that may be compressed. The stream is read
// to its end.
func readLayer(stream io.Reader, left *budget, folders []string) (*layer, error) {
	source := &source{Reader: stream}
	l, err := unpack(source, left, folders)
	if content := (*contentError)(nil); err != nil && source.failure == nil && !errors.As(err, &content) {
		err = unfit("one of its layers is no tar archive: %v", err)
	}
	return l, err
}

// source is a stream that remembers why it could not be read.
type source struct {
	io.Reader
	failure error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failure = err
	}
	return n, err
}

func unpack(stream io.Reader, left *budget, folders []string) (*layer, error) {
	plain, err := decompress(stream)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	l := &layer{folders: folders, names: map[string]kind{}, files: map[string][]byte{}, removals: map[string]bool{}}
	budgeted := left.reader(plain)
	for archive := tar.NewReader(budgeted); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := l.read(header, archive); err != nil {
			return nil, err
		}
	}
	if _, err := io.Copy(io.Discard, budgeted); err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, stream)
	return l, err
}

// decompress returns what a stream holds. Whatever it is said to be, its first bytes tell.
func decompress(stream io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReader(stream)
	magic, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(buffered)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		decoder, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return decoder.IOReadCloser(), nil
	}
	return io.NopCloser(buffered), nil
}

// read reads one entry of the layer's archive.
func (l *layer) read(header *tar.Header, content io.Reader) error {
	if err := checkHeader(header); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name := path.Clean("/" + header.Name)[1:]
	if removes, err := l.remove(name); removes || err != nil {
		return err
	}
	is, known := kinds[header.Typeflag]
	if !known {
		is = another
	}
	if was, again := l.names[name]; again && (was != is || l.isRead(name) && is != aFolder) {
		return unfit("one of its layers has %q twice, as %s and as %s; expected each file once", name, was, is)
	}
	l.names[name] = is
	isAbove := slices.ContainsFunc(l.folders, func(folder string) bool { return isWithin(folder, name) })
	switch {
	case !l.isRead(name) && !isAbove:
		return nil
	case hasOverlayAttribute(header):
		return unfit("%q has an attribute that hides files from some programs; expected plain files and folders", name)
	case is == aFolder:
		return nil
	case is != aFile || !l.isRead(name):
		return unfit("%q is a link or something else that is not a file; expected files and folders only", name)
	case !isPlain(name):
		return unfit("%q is the name of a file; expected one without control characters", name)
	}
	data, err := io.ReadAll(content)
	l.files[name] = data
	return err
}

// checkHeader refuses entries that mean more than they show.
func checkHeader(header *tar.Header) error {
	if slices.Contains(strings.Split(header.Name, "/"), "..") {
		return unfit("its file %q leads out of its folder", shortened(header.Name))
	}
	if len(header.Name) > maxName || strings.Count(header.Name, "/") > maxDepth {
		return unfit("its file %q has a name of %d bytes, %d folders deep; expected at most %d bytes, and %d folders",
			shortened(header.Name), len(header.Name), strings.Count(header.Name, "/"), maxName, maxDepth)
	}
	isSparse := header.Typeflag == tar.TypeGNUSparse
	for key := range header.PAXRecords {
		isSparse = isSparse || strings.HasPrefix(key, "GNU.sparse.")
	}
	if isSparse {
		return unfit("its file %q is stored as a sparse file, which can be far larger than what is stored of it; expected files as they are: "+
			"pack the layer without tar's option --sparse", header.Name)
	}
	return nil
}

// hasOverlayAttribute tells whether a file system in which layers are laid over each other could take the
// entry for something else.
func hasOverlayAttribute(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "SCHILY.xattr.") && strings.Contains(key, ".overlay.") {
			return true
		}
	}
	return false
}

// remove notes what the entry of a name removes, if it is one that does.
func (l *layer) remove(name string) (removes bool, err error) {
	folder, base := path.Dir(name), path.Base(name)
	removed, removes := strings.CutPrefix(base, whiteout)
	if !removes {
		return false, nil
	}
	l.removals[folder] = true
	if base == opaque {
		l.gone = append(l.gone, folder)
		return true, nil
	}
	if removed == "" || removed == "." || removed == ".." {
		return true, unfit("one of its layers removes %q, which is no file; expected the name of one behind %s", name, whiteout)
	}
	l.gone = append(l.gone, path.Join(folder, removed))
	return true, nil
}

func (l *layer) isRead(name string) bool {
	return slices.ContainsFunc(l.folders, func(folder string) bool { return isWithin(name, folder) })
}

// isWithin tells whether a path is that of something, or of what is below it.
func isWithin(name, of string) bool {
	return of == "." || name == of || strings.HasPrefix(name, of+"/")
}

// isPlain tells whether a name reads everywhere as what it is.
func isPlain(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

func shortened(name string) string {
	const enough = 100
	if len(name) <= enough {
		return name
	}
	return name[:enough] + "…"
}

// upward returns a path, and the folders that it is in, but for the root.
func upward(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name != "." && name != "" && yield(name) {
			name = name[:max(0, strings.LastIndexByte(name, '/'))]
		}
	}
}

// stack is layers that lie on each other.
type stack struct {
	layers []*layer // from the lowest to the topmost
	// steps counts the names that were looked at, so that tests can tell how time grows.
	steps int
}

// files returns the files that are seen from above. It takes time in proportion to the number of all entries.
func (s *stack) files() map[string][]byte {
	files := map[string][]byte{}
	hidden := map[string]bool{}  // what an upper layer has instead, or removes, with all below it
	folders := map[string]bool{} // what an upper layer has as a folder
	for _, l := range slices.Backward(s.layers) {
		for name, content := range l.files {
			if !folders[name] && !s.any(upward(name), hidden) && !hidden["."] {
				files[name] = content
			}
		}
		for name, is := range l.names {
			if is == aFolder {
				folders[name] = true
			} else {
				hidden[name] = true
			}
			for folder := range upward(path.Dir(name)) {
				s.steps++
				if folders[folder] {
					break // and so are those above it
				}
				folders[folder] = true
			}
		}
		for _, name := range l.gone {
			hidden[name] = true
		}
	}
	return files
}

// checkLinks refuses images in which something lies below a symbolic link: what is unpacked then is elsewhere
// than its name says, and may be in a folder that is read.
func (s *stack) checkLinks() error {
	links := map[string]bool{}
	check := func(name string) error {
		if s.any(upward(name), links) {
			return unfit("one of its layers has files in %q, which is, or is below, a symbolic link; expected files in folders only", name)
		}
		return nil
	}
	for _, l := range s.layers {
		for _, name := range l.gone {
			delete(links, name)
		}
		for name, is := range l.names {
			if is == aLink {
				links[name] = true
			} else {
				delete(links, name)
			}
		}
		for name := range l.names {
			if err := check(path.Dir(name)); err != nil {
				return err
			}
		}
		for folder := range l.removals {
			if err := check(folder); err != nil {
				return err
			}
		}
	}
	return nil
}

// any tells whether one of the names is in a set.
func (s *stack) any(names iter.Seq[string], set map[string]bool) bool {
	for name := range names {
		s.steps++
		if set[name] {
			return true
		}
	}
	return false
}
