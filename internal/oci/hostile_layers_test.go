package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/memory"
	"github.com/berth-csi/berth/lab/registry"
)

var update = flag.Bool("update", false, "update testdata/hostile, except for the sparse layers, which GNU tar wrote")

const hostile = "testdata/hostile"

// hostileLayers returns the layers of testdata/hostile that Go can write.
func hostileLayers(t testing.TB) map[string][]byte {
	file := func(name, content string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)), Format: tar.FormatPAX}
	}
	archive := func(write func(*tar.Writer)) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		write(w)
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	entries := func(headers ...*tar.Header) []byte {
		return archive(func(w *tar.Writer) {
			for _, h := range headers {
				require.NoError(t, w.WriteHeader(h))
				_, err := io.CopyN(w, strings.NewReader(strings.Repeat("x", int(h.Size))), h.Size)
				require.NoError(t, err)
			}
		})
	}
	const many = 2000
	var files, removals []*tar.Header
	for i := range many {
		files = append(files, file(fmt.Sprintf("hold/%d", i), ""))
		removals = append(removals, file(fmt.Sprintf("hold/.wh.x%d", i), ""))
	}
	manyNames := func(w *tar.Writer) {
		for i := range 100 {
			require.NoError(t, w.WriteHeader(file(fmt.Sprintf("mast/%s%d", strings.Repeat("a/", 100<<10), i), "")))
		}
	}
	attribute := file("hold/tea", "")
	attribute.Typeflag, attribute.PAXRecords = tar.TypeDir, map[string]string{"SCHILY.xattr.trusted.overlay.opaque": "y"}
	window := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x98}, 0x01, 0x00, 0x00) // a window of 512 MiB, and a last block of nothing
	members := []byte{}
	for range 2000 {
		members = append(members, packed(t, nil)...)
	}
	return map[string][]byte{
		"files.tar.gz":            packed(t, entries(files...)),
		"removals.tar.gz":         packed(t, entries(removals...)),
		"long-names.tar.gz":       packed(t, archive(manyNames)),
		"zeros.tar.gz":            packed(t, entries(file("hold/zeros", strings.Repeat("x", 20<<20)))),
		"zeros-elsewhere.tar.gz":  packed(t, entries(file("mast/zeros", strings.Repeat("x", 20<<20)))),
		"zeros-behind.tar.gz":     packed(t, append(entries(file("hold/tea", "")), make([]byte, 20<<20)...)),
		"zeros.tar.zst":           zipped(t, entries(file("hold/zeros", strings.Repeat("x", 20<<20)))),
		"window.tar.zst":          window,
		"empty-members.tar.gz":    members,
		"control-characters.tar":  entries(file("hold/tea\x1b[2J\n::error::sunk", "")),
		"right-to-left.tar":       entries(file("hold/\u202egpj.lmay", "")),
		"leads-out.tar":           entries(file("hold/../../etc/passwd", "")),
		"below-a-link.tar":        entries(&tar.Header{Name: "mast", Typeflag: tar.TypeSymlink, Linkname: "hold"}, file("mast/tea", "")),
		"link.tar":                entries(&tar.Header{Name: "mast", Typeflag: tar.TypeSymlink, Linkname: "hold"}),
		"below-mast.tar":          entries(file("mast/tea", "")),
		"removal-below-mast.tar":  entries(file("mast/.wh.tea", "")),
		"hard-link.tar":           entries(&tar.Header{Name: "hold/tea", Typeflag: tar.TypeLink, Linkname: "etc/passwd"}),
		"symbolic-link.tar":       entries(&tar.Header{Name: "hold/tea", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}),
		"device.tar":              entries(&tar.Header{Name: "hold/tea", Typeflag: tar.TypeChar, Devmajor: 0, Devminor: 0}),
		"pipe.tar":                entries(&tar.Header{Name: "hold/tea", Typeflag: tar.TypeFifo}),
		"twice.tar":               entries(file("hold/tea", "a"), file("hold/tea", "ab")),
		"file-and-folder.tar":     entries(file("hold/tea", "a"), &tar.Header{Name: "hold/tea/", Typeflag: tar.TypeDir}),
		"removes-nothing.tar":     entries(file("hold/.wh.", "")),
		"overlay-attribute.tar":   entries(attribute),
		"no-archive.tar":          bytes.Repeat([]byte("rum"), 1000),
		"torn.tar.gz":             packed(t, entries(file("hold/tea", strings.Repeat("x", 4096))))[:60],
		"case.tar":                entries(file("Hold/tea", ""), file("hold/Tea", ""), file("hold/tea", "")),
		"other-for-s390x.tar":     entries(file("hold/tea", "other")),
		"one.tar":                 entries(file("hold/tea", "one")),
		"one-with-other-time.tar": entries(&tar.Header{Name: "hold/tea", Typeflag: tar.TypeReg, Size: 3, ModTime: time.Unix(1e9, 0)}),
	}
}

func packed(t testing.TB, data []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	require.NoError(t, err)
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func zipped(t testing.TB, data []byte) []byte {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return w.EncodeAll(data, nil)
}

// TestHostileLayers: an image with deceptive layers is rejected, with little memory. Its layers are files of
// testdata/hostile.
func TestHostileLayers(t *testing.T) {
	if *update {
		for name, content := range hostileLayers(t) {
			require.NoError(t, os.WriteFile(filepath.Join(hostile, name), content, 0o644))
		}
	}
	const tooMuch = "its files take more than 4194304 bytes; expected a smaller image"
	const tooMuchRead = "its files in the folders that are read take more than 4194304 bytes; expected a smaller image"
	const sparse = `its file "hold/tea" is stored as a sparse file, which .* pack the layer without tar's option --sparse`
	notAFile := `"hold/tea" is a link or something else that is not a file; expected files and folders only`
	address := registry.Start(t, nil)
	for _, tc := range []struct{ name, layers, want string }{
		{"a sparse file of GNU tar", "sparse-gnu.tar.gz", sparse},
		{"a sparse file of pax 0.0", "sparse-pax-0.0.tar.gz", sparse},
		{"a sparse file of pax 0.1", "sparse-pax-0.1.tar.gz", sparse},
		{"a sparse file of pax 1.0", "sparse-pax-1.0.tar.gz", sparse},
		{"a large file", "zeros.tar.gz", tooMuchRead},
		{"a large file in zstd", "zeros.tar.zst", tooMuchRead},
		{"a large file that nobody asked for", "zeros-elsewhere.tar.gz", tooMuch},
		{"much behind the archive", "zeros-behind.tar.gz", tooMuch},
		{"a large window of zstd", "window.tar.zst", "one of its layers is not a tar archive: window size exceeded"},
		{"very many empty members of gzip", "empty-members.tar.gz", "hold: nothing"},
		{"very long names", "long-names.tar.gz", `its file "mast/a/a/.*…" has a name of \d+ bytes, \d+ folders deep; expected at most 1024 bytes, and 32 folders`},
		{"thousands of files and removals", "files.tar.gz removals.tar.gz", "hold: 2000 files"},
		{"control characters in a name", "control-characters.tar", `"hold/tea\\x1b\[2J\\n::error::sunk" is the name of a file; expected one without control characters`},
		{"a name that reads backwards", "right-to-left.tar", `"hold/\\u202egpj.lmay" is the name of a file; .*`},
		{"a name that leads out", "leads-out.tar", `its file "hold/../../etc/passwd" leads out of its folder`},
		{"a file below a link", "below-a-link.tar", `one of its layers has files in "mast", which is, or is below, a symbolic link; .*`},
		{"a file below a link of another layer", "link.tar below-mast.tar", `one of its layers has files in "mast", .*`},
		{"a removal below a link of another layer", "link.tar removal-below-mast.tar", `one of its layers has files in "mast", .*`},
		{"a link instead of a folder of another layer", "below-mast.tar link.tar", "hold: nothing"},
		{"a hard link", "hard-link.tar", notAFile},
		{"a symbolic link", "symbolic-link.tar", notAFile},
		{"a device, which some take for a removal", "device.tar", notAFile},
		{"a pipe", "pipe.tar", notAFile},
		{"a file twice", "twice.tar", `one of its layers has "hold/tea" twice, as a file and as a file; expected each file once`},
		{"a file that is also a folder", "file-and-folder.tar", `one of its layers has "hold/tea" twice, as a file and as a folder; .*`},
		{"a removal of nothing", "removes-nothing.tar", `one of its layers removes "hold/.wh.", which is not a file; .*`},
		{"an attribute of overlay file systems", "overlay-attribute.tar", `"hold/tea" has an attribute that hides files from some programs; .*`},
		{"no archive", "no-archive.tar", "one of its layers is not a tar archive: .*"},
		{"a torn archive", "torn.tar.gz", "one of its layers is not a tar archive: unexpected EOF"},
		{"names that differ in their case", "case.tar", "hold: 2 files"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			image := hostileImage(t, strings.Fields(tc.layers)...)
			reference := image.upload(t, address, "layers")
			var pulled Pulled
			var err error
			used := memory.Allocated(func() { pulled, err = Pull(t.Context(), reference, Limits{Time: time.Minute, Size: 4 << 20}, "hold") })
			got := "hold: nothing"
			if n := len(pulled.Files); n > 0 {
				got = fmt.Sprintf("hold: %d files", n)
			}
			if err != nil {
				got = strings.TrimPrefix(err.Error(), "cannot pull image "+reference+": ")
			}
			assert.Regexp(t, `^`+tc.want+`$`, got)
			if used > 32<<20 {
				t.Errorf("it allocated %d MiB; want less than 32", used>>20)
			}
		})
	}
}

// TestPullTakesLinearTime: time is proportional to the number of files of each kind.
func TestPullTakesLinearTime(t *testing.T) {
	steps := func(n int) int {
		s := &stack{}
		for number := range 8 {
			l := &layer{folders: []string{"hold"}, names: map[string]kind{}, files: map[string][]byte{}, removals: map[string]bool{}}
			for i := range n {
				name := fmt.Sprintf("hold/%d/%d/x", number, i)
				l.names[name], l.files[name] = aFile, nil
				l.names[fmt.Sprintf("mast/%d", i)] = aLink
				l.gone = append(l.gone, fmt.Sprintf("hold/%d/%d/y", (number+1)%8, i))
				l.removals[fmt.Sprintf("hold/%d/%d", (number+1)%8, i)] = true
			}
			s.layers = append(s.layers, l)
		}
		require.NoError(t, s.checkLinks())
		if got := len(s.files()); got != 8*n {
			t.Fatalf("%d files, want %d", got, 8*n)
		}
		return s.steps
	}
	few, many := steps(200), steps(1600)
	assert.LessOrEqualf(t, many, 9*few, "eight times the files take %d steps instead of %d, %.1f times as many", many, few, float64(many)/float64(few))
	t.Logf("%d files take %d steps, %d files %d", 8*200, few, 8*1600, many)
}

// TestDeepFolders: of folders that nothing is read from, none is kept in memory, however deep they are.
func TestDeepFolders(t *testing.T) {
	const many = 20_000
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for i := range many {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%d%s", i, strings.Repeat("/a", maxDepth-1)), Typeflag: tar.TypeReg}))
	}
	require.NoError(t, w.Close())
	used := memory.Allocated(func() {
		l, err := readLayer(&archive, newBudget(Limits{Size: 64 << 20}), []string{"configs"})
		require.NoError(t, err)
		if files := (&stack{layers: []*layer{l}}).files(); len(files) > 0 {
			t.Errorf("got %d files", len(files))
		}
	})
	if per := used / many; per > 2000 {
		t.Errorf("each entry takes %d bytes; want less than 2000", per)
	}
}

// TestLongNames: the names of a layer's entries are limited together, with the folders above files that are read.
func TestLongNames(t *testing.T) {
	b := newBudget(Limits{Size: 1 << 40})
	name := strings.Repeat("a", maxName)
	var err error
	n := 0
	for ; err == nil; n++ {
		err = b.entry(name)
	}
	if n > maxNames/maxName+1 || !strings.Contains(err.Error(), "the names of the entries of its layers take more than 134217728 bytes") {
		t.Errorf("after %d names of %d bytes: %v", n, maxName, err)
	}
	b = newBudget(Limits{Size: 1 << 40})
	for n, err = 0, nil; err == nil; n++ {
		err = b.keep("a"+strings.Repeat("/a", maxDepth), 0)
	}
	assert.LessOrEqualf(t, n, maxNames/(perFolder*maxDepth)+1, "there may be %d empty files in %d folders each", n, maxDepth)
}

// TestLayerExpands: a layer in zstd that expands to very many times its size is not read to its end.
func TestLayerExpands(t *testing.T) {
	var layer bytes.Buffer
	encoder, err := zstd.NewWriter(&layer, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(maxWindow))
	require.NoError(t, err)
	zeros, large := make([]byte, 1<<20), int64(2<<30)
	archive := tar.NewWriter(encoder)
	require.NoError(t, archive.WriteHeader(&tar.Header{Name: "elsewhere", Size: large, Mode: 0o600, Format: tar.FormatGNU}))
	for range large >> 20 {
		_, err := archive.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(archive.Close(), encoder.Close()))
	left := newBudget(Limits{Size: 16 << 30})
	_, err = readLayer(&layer, left, []string{"hold"})
	assert.EqualErrorf(t, err, "one of its layers expands to more than 1100 times its size; expected less", "of %d bytes, %d were read", layer.Len(), left.size-left.left)
}

// TestRepeatedLayers: the entries of a layer count for each time that an image of an index has it, because each takes time.
func TestRepeatedLayers(t *testing.T) {
	const entries = 1024
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for i := range entries {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: fmt.Sprintf("mast/%d", i), Typeflag: tar.TypeReg}))
	}
	require.NoError(t, w.Close())
	image := hostileImage(t)
	image.blobs = append(image.blobs, archive.Bytes())
	for range maxLayers {
		image.manifest["layers"] = append(image.manifest["layers"].([]any), descriptor(layerType, archive.Bytes()))
	}
	for platforms, want := range map[int]string{8: "", 9: "its layers have more than 1048576 entries; expected a smaller image"} {
		address := registry.Start(t, nil)
		image.upload(t, address, "image")
		listed := []any{descriptor(imageType, image.text(t))}
		index := &upload{manifest: map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": slices.Repeat(listed, platforms)}}
		reference := index.upload(t, address, "index")
		pulled, err := Pull(t.Context(), reference, Limits{Time: time.Minute, Size: 1 << 30}, "hold")
		check(t, reference, pulled, err, want)
	}
}

// TestLongHeaders: the records of headers are limited like names, also those that no entry keeps.
func TestLongHeaders(t *testing.T) {
	records := map[string]string{}
	for i := range 10_000 {
		records[fmt.Sprintf("SEA.%d", i)] = ""
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for archive.Len() < maxNames+maxNames/8 {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "mast", Typeflag: tar.TypeReg, PAXRecords: records, Format: tar.FormatPAX}))
	}
	require.NoError(t, w.Close())
	_, err := readLayer(&archive, newBudget(Limits{Size: 1 << 30}), []string{"hold"})
	assert.ErrorContains(t, err, "the names of the entries of its layers take more than 134217728 bytes")
}

// TestLargeFile: a file takes as much memory as it has bytes.
func TestLargeFile(t *testing.T) {
	const size = 64 << 20
	var layer bytes.Buffer
	encoder := gzip.NewWriter(&layer)
	archive := tar.NewWriter(encoder)
	require.NoError(t, archive.WriteHeader(&tar.Header{Name: "hold/tea", Typeflag: tar.TypeReg, Size: size}))
	_, err := archive.Write(make([]byte, size))
	require.NoError(t, errors.Join(err, archive.Close(), encoder.Close()))
	used := memory.Allocated(func() { _, err = readLayer(&layer, newBudget(Limits{Size: 2 * size}), []string{"hold"}) })
	require.NoError(t, err)
	assert.Less(t, used, uint64(size+size/4), "bytes were allocated")
}
