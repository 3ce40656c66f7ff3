package base

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/authority"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/programs"
	"github.com/berth-csi/berth/test/drivers/images"
)

var build = flag.Bool("build-images", false, "build the images and try what is in them, which takes minutes, root, buildah and packages of Debian")

const (
	fileSystem  = "fs-0123456789abcdef0"
	accessPoint = "fsap-0123456789abcdef0"
	serverName  = fileSystem + ".efs.eu-central-1.amazonaws.com"
	port        = "20100"
)

// Names of images: Debian, and the one built on it.
const (
	system = "localhost/debian:bookworm"
	image  = "localhost/efs-utils-base"
)

// limit is how long the watchdog, which looks each second, may take.
const limit = time.Minute

func TestImages(t *testing.T) {
	if !*build {
		t.Skip("builds images on Debian; make prove SUITE=efs-utils runs it")
	}
	b, o := newBuilder(t)
	began := time.Now()
	require.NoError(t, b.BuildBase(t.Context(), image, o))
	t.Logf("efs-utils-base was built in %s", time.Since(began).Round(time.Second))

	root := createRoot(t, b, image)
	configure(t, root)
	ca, err := authority.New("Amazon")
	require.NoError(t, err)
	write(t, filepath.Join(root, "var/amazon/efs/efs-utils.crt"), string(ca.PEM()), 0o644)

	t.Run("source", func(t *testing.T) { checkSource(t, b, o) })
	t.Run("files", func(t *testing.T) { checkFiles(t, b) })
	t.Run("FIPS", func(t *testing.T) { checkFIPS(t, root) })
	t.Run("stranger", func(t *testing.T) { checkStranger(t, root) })
	t.Run("mount", func(t *testing.T) { checkMount(t, root, ca) })
	t.Run("watchdog", func(t *testing.T) { checkWatchdog(t, root, ca) })
	t.Run("adopted", func(t *testing.T) { checkAdopted(t, root, ca) })
	t.Run("again", func(t *testing.T) { checkAgain(t, b, o) })
	t.Run("driver", func(t *testing.T) { checkDriver(t, b, o) })
}

// newBuilder returns a builder that has an image of Debian, and the sources of the image here: efs-utils, and a
// stand-in for efs-proxy, which cannot be compiled without crates.
func newBuilder(t *testing.T) (*Builder, Options) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can enter the image")
	}
	root, err := tools.Root()
	require.NoError(t, err)
	source, err := programs.Folder(programs.EFSUtilsVariable)
	require.NoError(t, err)
	if source == "" {
		t.Skip(programs.WantEFSUtils)
	}
	own, err := tools.ProgramsForImages(t.Context(), "./lab/nfs/nfsclient")
	require.NoError(t, err)
	proxy := t.TempDir()
	copyFile(t, own.Path("nfsclient"), filepath.Join(proxy, "efs-proxy"))
	archive, err := images.DebianWithApt(t.Context())
	require.NoError(t, err)
	b, err := NewBuilder(filepath.Join(root, "efs-utils-base"), io.Discard)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, b.Close())
	})
	empty, err := b.Run(t.Context(), "from", "scratch")
	require.NoError(t, err)
	for _, args := range [][]string{{"add", "--quiet", empty, archive}, {"commit", "--quiet", "--rm", empty, system}} {
		if _, err := b.Run(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	return b, Options{Base: system, Source: source, Proxy: proxy, FIPS: "optional", Time: time.Unix(1_700_000_000, 0)}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	write(t, to, string(content), 0o755)
}

// configure acts like the driver when it starts.
func configure(t *testing.T, root string) {
	t.Helper()
	static, err := filepath.Glob(filepath.Join(root, "etc/amazon/efs-static-files/*"))
	if err != nil || len(static) == 0 {
		t.Fatalf("the image has static files %q (%v), want some", static, err)
	}
	for _, file := range static {
		copyFile(t, file, filepath.Join(root, "var/amazon/efs", filepath.Base(file)))
	}
	require.NoError(t, os.Symlink("/var/amazon/efs", filepath.Join(root, "etc/amazon/efs")))
}

// checkSource: an image is built only from the pinned source.
func checkSource(t *testing.T, b *Builder, o Options) {
	changed := t.TempDir()
	require.NoError(t, os.CopyFS(changed, os.DirFS(o.Source)))
	file := filepath.Join(changed, "src/watchdog/__init__.py")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	write(t, file, string(content)+"\n", 0o644)
	o.Source = changed
	err = b.BuildBase(t.Context(), "localhost/changed", o)
	require.Error(t, err, "a source with a changed file is used")
	for _, want := range []string{"src/watchdog/__init__.py: FAILED", "want tag v3.2.0 of github.com/aws/efs-utils"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("it fails with\n%v\nwant %q", err, want)
		}
	}
}

// checkFiles: the image has no package manager, and a list of its packages; its size is logged.
func checkFiles(t *testing.T, b *Builder) {
	img, err := b.Image(t.Context(), image)
	require.NoError(t, err)
	layers, err := img.Layers()
	require.NoError(t, err)
	size := int64(0)
	for _, layer := range layers {
		compressed, err := layer.Size()
		require.NoError(t, err)
		size += compressed
	}
	t.Logf("it has %.1f MiB compressed", float64(size)/(1<<20))

	root := createRoot(t, b, image)
	for _, name := range []string{"apt", "apt-get", "dpkg", "rpm", "dnf"} {
		for _, folder := range []string{"bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin"} {
			if _, err := os.Lstat(filepath.Join(root, folder, name)); err == nil {
				t.Errorf("the image has the package manager /%s/%s", folder, name)
			}
		}
	}
	list, err := os.ReadFile(filepath.Join(root, "var/lib/dpkg/status"))
	if err != nil || !bytes.Contains(list, []byte("Package: stunnel4\n")) || bytes.Contains(list, []byte("Package: apt\n")) {
		t.Errorf("the list of packages: %v; want one with stunnel4 and without apt", err)
	}
	report, err := os.ReadFile(filepath.Join(root, "usr/share/efs-utils-base/report"))
	require.NoError(t, err)
	for _, want := range []string{"mount.efs Version: 3.2.0", "amazon-efs-mount-watchdog Version: 3.2.0", "stunnel 5.", "FIPS mode of stunnel: no"} {
		if !bytes.Contains(report, []byte(want)) {
			t.Errorf("the report is\n%s\nwant %q", report, want)
		}
	}
	for _, file := range []string{"usr/share/licenses/efs-utils/LICENSE", "usr/share/licenses/efs-utils/NOTICE", "usr/sbin/mount.s3files"} {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(root, "etc/resolv.conf")); !os.IsNotExist(err) {
		t.Errorf("/etc/resolv.conf: %v, want none: it would be that of this machine", err)
	}
	if _, err := os.Lstat(filepath.Join(root, "etc/amazon/efs")); !os.IsNotExist(err) {
		t.Errorf("/etc/amazon/efs: %v, want none: the driver makes it a link", err)
	}
}

// checkFIPS: Debian's stunnel has no FIPS mode, so an image on Debian cannot be built by mistake.
func checkFIPS(t *testing.T, root string) {
	c := start(t, root)
	content, err := os.ReadFile("check-system")
	require.NoError(t, err)
	write(t, filepath.Join(root, "test/check-system"), string(content), 0o755)
	link := filepath.Join(root, "etc/amazon/efs") // of configure
	require.NoError(t, os.Remove(link))
	out, err := c.run(t, "/test/check-system", "required", "/test/report")
	if err == nil || !strings.Contains(out, "stunnel has no FIPS mode in this BASE") {
		t.Errorf("check-system: %v\n%s\nwant that it fails without FIPS mode", err, out)
	}
	require.NoError(t, os.Symlink("/var/amazon/efs", link))
}

// checkAgain: the same packages and source give the same image.
func checkAgain(t *testing.T, b *Builder, o Options) {
	require.NoError(t, b.BuildBase(t.Context(), "localhost/again", o))
	digests := map[string]string{}
	for _, name := range []string{image, "localhost/again"} {
		img, err := b.Image(t.Context(), name)
		require.NoError(t, err)
		digest, err := img.Digest()
		require.NoError(t, err)
		digests[digest.String()] = name
	}
	if len(digests) != 1 {
		t.Errorf("two builds give images %v, want the same one", digests)
	}
}
