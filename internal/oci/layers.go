package oci

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
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

// Names by which a layer removes content of lower layers: a file with this prefix removes one file, and a file with this
// name everything in its folder (https://github.com/opencontainers/image-spec/blob/main/layer.md#whiteouts).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// Limits of an entry's name. Time and memory for an entry grow with both.
const (
	maxName  = 1024
	maxDepth = 32
)

// maxWindow is the maximum window size of a zstd layer: the size that every decoder must support (RFC 8878,
// 3.1.1.1.2).
const maxWindow = 8 << 20

// contentError is an error in an image's content, as opposed to a failed request.
type contentError struct{ message string }

func (e *contentError) Error() string { return e.message }

func contentErrorf(format string, args ...any) error {
	return &contentError{fmt.Sprintf(format, args...)}
}

// budget counts the bytes that may still be read from an image: manifests, and whole layers after decompression,
// including files in other folders.
type budget struct {
	size, left       int64
	keepable, unkept int64 // how many bytes may be kept in memory, and how many of them still may
	entries, names   int   // how many entries of layers may still be visited, and how many bytes their names may still have
}

// maxEntries is the number of entries that the layers of an image may have together, each for every time that a platform has its layer.
// maxNames is the number of bytes of their names and long headers, with the folders above files that are read. Images of operating systems
// have some tens of thousands of entries, and names of some MiB. A header is long beyond maxHead bytes.
const (
	maxEntries = 1 << 20
	maxNames   = 128 << 20
	maxHead    = 2 << 10
)

func newBudget(limits Limits) *budget {
	keepable := cmp.Or(limits.Kept, limits.Size)
	return &budget{limits.Size, limits.Size, keepable, keepable, maxEntries, maxNames}
}

// perFolder is about how many bytes of memory the record of a folder takes.
const perFolder = 64

// keep counts a file that is kept in memory, and the folders above it, against the budget.
func (b *budget) keep(name string, size int64) error {
	if size > b.unkept {
		return contentErrorf("its files in the folders that are read take more than %d bytes; expected a smaller image", b.keepable)
	}
	b.unkept -= size
	return b.name(perFolder * strings.Count(name, "/"))
}

// name counts bytes for names, or for the records of folders by name.
func (b *budget) name(n int) error {
	if b.names -= n; b.names < 0 {
		return contentErrorf("the names of the entries of its layers take more than %d bytes; expected a smaller image", maxNames)
	}
	return nil
}

// entry counts an entry of a layer, whose name is kept in memory.
func (b *budget) entry(name string) error {
	if err := b.visit(1); err != nil {
		return err
	}
	return b.name(len(name))
}

// visit counts entries that are read, or that are visited once more because another image has the same layer.
func (b *budget) visit(n int) error {
	if b.entries -= n; b.entries < 0 {
		return contentErrorf("its layers have more than %d entries; expected a smaller image", maxEntries)
	}
	return nil
}

func (b *budget) exceeded() error {
	return contentErrorf("its files take more than %d bytes; expected a smaller image", b.size)
}

func (b *budget) take(n int64) error {
	if n > b.left {
		return b.exceeded()
	}
	b.left -= n
	return nil
}

// reader returns a reader that takes from the budget.
func (b *budget) reader(from io.Reader) io.Reader { return &budgetReader{b, from} }

type budgetReader struct {
	*budget
	from io.Reader
}

func (r *budgetReader) Read(p []byte) (int, error) {
	if int64(len(p)) > r.left {
		p = p[:r.left+1] // one more byte shows whether there is more
	}
	n, err := r.from.Read(p)
	if r.take(int64(n)) != nil {
		return 0, r.exceeded()
	}
	return n, err
}

// kind is the kind of an entry in a layer.
type kind string

const (
	aFolder  kind = "a folder"
	aFile    kind = "a file"
	aLink    kind = "a symbolic link"
	aRemoval kind = "a removal"
	another  kind = "a hard link, a device or something else"
)

var kinds = map[byte]kind{tar.TypeDir: aFolder, tar.TypeReg: aFile, tar.TypeSymlink: aLink}

// layer holds the additions and removals of one layer.
type layer struct {
	folders []string // the folders to read
	// names are the kinds of all entries except removals.
	names map[string]kind
	// files are the files in the folders to read.
	files map[string][]byte
	// gone are removed files, and folders whose files are removed.
	gone []string
	// removals are the folders with removals in them.
	removals map[string]bool
}

// readLayer reads the files in folders of one layer, a tar archive that may be compressed. It reads the stream to its
// end.
func readLayer(stream io.Reader, left *budget, folders []string) (*layer, error) {
	source := &source{Reader: stream}
	l, err := unpack(source, left, folders)
	if content := (*contentError)(nil); err != nil && source.failure == nil && !errors.As(err, &content) {
		err = contentErrorf("one of its layers is not a tar archive: %v", err)
	}
	return l, err
}

// source is a stream that remembers its read error and its length so far.
type source struct {
	io.Reader
	failure error
	length  int64
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.length += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failure = err
	}
	return n, err
}

// A layer may expand to maxRatio times its size, which is more than gzip can, and to smallLayer in any case. With zstd, a megabyte
// can stand for 32 GiB.
const (
	maxRatio   = 1100
	smallLayer = 64 << 20
)

// expanded reads the expanded bytes of a stream. While it reads a header, it counts the bytes beyond maxHead as names: decoding the records
// of a header takes far longer than reading a file.
type expanded struct {
	io.Reader
	stream *source
	length int64
	left   *budget
	head   int // how many bytes of a header may still be read for free
	inHead bool
}

func (e *expanded) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if e.length += int64(n); e.length > smallLayer+maxRatio*e.stream.length {
		return 0, contentErrorf("one of its layers expands to more than %d times its size; expected less", maxRatio)
	}
	if e.inHead {
		free := min(n, e.head)
		e.head -= free
		if long := e.left.name(n - free); long != nil {
			return 0, long
		}
	}
	return n, err
}

// next reads the next header of an archive of the expanded bytes.
func (e *expanded) next(archive *tar.Reader) (*tar.Header, error) {
	if _, err := io.Copy(io.Discard, archive); err != nil { // what was not read of the file before
		return nil, err
	}
	e.inHead, e.head = true, maxHead
	defer func() { e.inHead = false }()
	return archive.Next()
}

func unpack(stream *source, left *budget, folders []string) (*layer, error) {
	plain, err := decompress(stream)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	l := &layer{folders: folders, names: map[string]kind{}, files: map[string][]byte{}, removals: map[string]bool{}}
	content := &expanded{Reader: plain, stream: stream, left: left}
	budgeted := left.reader(content)
	for archive := tar.NewReader(budgeted); ; {
		header, err := content.next(archive)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := left.entry(header.Name); err != nil {
			return nil, err
		}
		if err := l.read(header, archive, left); err != nil {
			return nil, err
		}
	}
	if _, err := io.Copy(io.Discard, budgeted); err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, stream)
	return l, err
}

// decompress returns the content of a stream. It detects the compression by the first bytes, not by the media type.
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

// read reads one entry of the archive.
func (l *layer) read(header *tar.Header, content io.Reader, left *budget) error {
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
		return contentErrorf("one of its layers has %q twice, as %s and as %s; expected each file once", name, was, is)
	}
	l.names[name] = is
	isAbove := slices.ContainsFunc(l.folders, func(folder string) bool { return isWithin(folder, name) })
	switch {
	case !l.isRead(name) && !isAbove:
		return nil
	case hasOverlayAttribute(header):
		return contentErrorf("%q has an attribute that hides files from some programs; expected plain files and folders", name)
	case is == aFolder:
		return nil
	case is != aFile || !l.isRead(name):
		return contentErrorf("%q is a link or something else that is not a file; expected files and folders only", name)
	case !isPlain(name):
		return contentErrorf("%q is the name of a file; expected one without control characters", name)
	}
	if err := left.keep(name, header.Size); err != nil {
		return err
	}
	data := make([]byte, header.Size) // io.ReadAll would take more than twice as much
	_, err := io.ReadFull(content, data)
	l.files[name] = data
	return err
}

// checkHeader rejects entries with dangerous names, and sparse files.
func checkHeader(header *tar.Header) error {
	if slices.Contains(strings.Split(header.Name, "/"), "..") {
		return contentErrorf("its file %q leads out of its folder", shortened(header.Name))
	}
	if len(header.Name) > maxName || strings.Count(header.Name, "/") > maxDepth {
		return contentErrorf("its file %q has a name of %d bytes, %d folders deep; expected at most %d bytes, and %d folders",
			shortened(header.Name), len(header.Name), strings.Count(header.Name, "/"), maxName, maxDepth)
	}
	isSparse := header.Typeflag == tar.TypeGNUSparse
	for key := range header.PAXRecords {
		isSparse = isSparse || strings.HasPrefix(key, "GNU.sparse.")
	}
	if isSparse {
		return contentErrorf("its file %q is stored as a sparse file, which can be far larger than its stored data; expected files as they are: "+
			"pack the layer without tar's option --sparse", header.Name)
	}
	return nil
}

// hasOverlayAttribute reports whether an overlay file system would give an entry a special meaning.
func hasOverlayAttribute(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "SCHILY.xattr.") && strings.Contains(key, ".overlay.") {
			return true
		}
	}
	return false
}

// remove records the removal that an entry stands for, and reports whether the entry is a removal.
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
		return true, contentErrorf("one of its layers removes %q, which is not a file; expected a file name after %s", name, whiteout)
	}
	l.gone = append(l.gone, path.Join(folder, removed))
	return true, nil
}

func (l *layer) isRead(name string) bool {
	return slices.ContainsFunc(l.folders, func(folder string) bool { return isWithin(name, folder) })
}

// isWithin reports whether a path is a folder or something below it.
func isWithin(name, of string) bool {
	return of == "." || name == of || strings.HasPrefix(name, of+"/")
}

// isPlain reports whether a name is valid UTF-8 with only printable characters.
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

// upward returns a path and all folders above it, except the root.
func upward(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name != "." && name != "" && yield(name) {
			name = name[:max(0, strings.LastIndexByte(name, '/'))]
		}
	}
}

// stack holds the layers of an image.
type stack struct {
	layers []*layer // lowest first
	// steps counts the names that were examined, so that tests can measure how time grows.
	steps int
}

// files returns the visible files. It takes time in proportion to the number of all entries.
func (s *stack) files() map[string][]byte {
	files := map[string][]byte{}
	paths := s.paths()
	hidden := map[string]bool{}  // files that an upper layer replaces or removes, with everything below
	folders := map[string]bool{} // folders of upper layers
	for _, l := range slices.Backward(s.layers) {
		for name, content := range l.files {
			if !folders[name] && !s.any(upward(name), hidden) && !hidden["."] {
				files[name] = content
			}
		}
		for name, is := range l.names {
			switch {
			case !paths[name]:
			case is == aFolder:
				folders[name] = true
			default:
				hidden[name] = true
			}
			for folder := range upward(path.Dir(name)) {
				s.steps++
				if folders[folder] {
					break // so are the folders above it
				}
				if paths[folder] {
					folders[folder] = true
				}
			}
		}
		for _, name := range l.gone {
			if paths[name] || name == "." {
				hidden[name] = true
			}
		}
	}
	return files
}

// paths returns the paths of files that are read, and of all folders above them. Layers may have very many others, in as many folders.
func (s *stack) paths() map[string]bool {
	all := map[string]bool{}
	for _, l := range s.layers {
		for name := range l.files {
			for at := range upward(name) {
				s.steps++
				if all[at] {
					break // so are the folders above it
				}
				all[at] = true
			}
		}
	}
	return all
}

// checkLinks rejects images with entries below a symbolic link: unpacking would write them to another folder, which
// may be one of those to read.
func (s *stack) checkLinks() error {
	links := map[string]bool{}
	check := func(name string) error {
		if s.any(upward(name), links) {
			return contentErrorf("one of its layers has files in %q, which is, or is below, a symbolic link; expected files in folders only", name)
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

// any reports whether a set contains one of the names.
func (s *stack) any(names iter.Seq[string], set map[string]bool) bool {
	for name := range names {
		s.steps++
		if set[name] {
			return true
		}
	}
	return false
}
