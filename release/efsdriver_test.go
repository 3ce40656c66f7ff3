package main

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/bundle/registryv1"
	base "github.com/berth-csi/berth/efs-utils-base"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/programs"
	"github.com/berth-csi/berth/test/drivers/images"
)

var buildEFSDriver = flag.Bool("build-efs-driver", false, "release with the EFS driver's image, which takes minutes, root, buildah and packages of Debian")

// TestEFSDriver: a release with EFS_DRIVER builds the driver's image, and its bundle names that instead of another one.
func TestEFSDriver(t *testing.T) {
	if !*buildEFSDriver {
		t.Skip("builds an image on Debian; make prove SUITE=release-efs-utils runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may install packages into an image")
	}
	utils, err := programs.Folder(programs.EFSUtilsVariable)
	require.NoError(t, err)
	if utils == "" {
		t.Skip(programs.WantEFSUtils)
	}
	r := startReleasing(t)
	own, err := tools.ProgramsForImages(t.Context(), "./lab/nfs/nfsclient")
	require.NoError(t, err)
	proxy := t.TempDir()
	mustRun(t, proxy, "cp", own.Path("nfsclient"), "efs-proxy")
	file := r.writeEFSDriver(t, efsDriver{Source: smallDriver(t), Version: "v9.9.9", Base: r.serveDebian(t), Proxy: proxy, FIPS: "optional",
		EFSUtils: utils, Architectures: []string{runtime.GOARCH}})
	t.Logf("the release:\n%s", r.mustRelease(t, "--efs-driver", file, "--output", t.TempDir()))

	index := r.index(t, efsDriverName+":latest")
	digest := r.find(t, efsDriverName+":latest")
	content := files(t, platform(t, index))
	for _, path := range []string{"usr/bin/aws-efs-csi-driver", "usr/sbin/mount.efs", "usr/bin/amazon-efs-mount-watchdog", "usr/sbin/efs-proxy",
		"usr/share/licenses/aws-efs-csi-driver/LICENSE", "licenses/go/LICENSE"} {
		assert.NotEmptyf(t, content[path], "the driver's image has no %s", path)
	}
	bundleImage := files(t, platform(t, r.index(t, "aws-efs-operator-bundle:v1.0.0")))
	b, err := registryv1.LoadImage("aws-efs-operator-bundle", bundleImage)
	require.NoError(t, err)
	specs, err := bundle.PullSpecs(b.Bundle)
	require.NoError(t, err)
	if want := r.prefix + "/" + efsDriverName + "@" + digest; !slices.Contains(specs, want) {
		t.Errorf("the bundle has images %q, want the pushed driver %s", specs, want)
	}
	for _, spec := range specs {
		assert.NotContains(t, spec, "mirror/openshift/origin-"+efsDriverName, "the bundle")
	}
	imageDigest, err := platform(t, index).Digest()
	require.NoError(t, err)
	sbom := string(r.attached(t, efsDriverName, imageDigest, sbomType))
	for _, want := range []string{"pkg:github/aws/efs-utils@" + base.Version, "pkg:golang/stdlib@", r.Address + "/debian"} {
		assert.Contains(t, sbom, want, "the SBOM")
	}
	indexDigest, err := index.Digest()
	require.NoError(t, err)
	assert.Contains(t, string(r.attached(t, efsDriverName, indexDigest, provenanceType)), r.Address+"/debian", "the provenance does not name the base")
}

// smallDriver returns a folder with the source of a program that takes no time to compile.
func smallDriver(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	licence, err := os.ReadFile("LICENSE")
	require.NoError(t, err)
	for file, content := range map[string]string{
		"go.mod":      "module github.com/kubernetes-sigs/aws-efs-csi-driver\n\ngo 1.24\n",
		"cmd/main.go": "package main\n\nfunc main() {}\n",
		"LICENSE":     string(licence),
	} {
		path := filepath.Join(folder, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return folder
}

// writeEFSDriver writes the file that describes the build of the driver's image.
func (r *releasing) writeEFSDriver(t *testing.T, e efsDriver) string {
	t.Helper()
	data, err := boundedyaml.Marshal(e)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "efs-driver.yaml")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return file
}

// serveDebian pushes an image of Debian, and returns its reference.
func (r *releasing) serveDebian(t *testing.T) string {
	t.Helper()
	img, err := images.DebianImage(t.Context())
	require.NoError(t, err)
	return r.Push(t, "debian:bookworm", img)
}

// TestEFSDriverFile: a file that says too little, or has a mistake, is named before anything is built.
func TestEFSDriverFile(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "version: v3.4.1\n", "want source, version and base"},
		{"mistake", "source: .\nversion: v3.4.1\nbase: a\nbaze: b\n", `"baze"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "efs-driver.yaml")
			require.NoError(t, os.WriteFile(file, []byte(tc.text), 0o600))
			if _, err := readEFSDriver(file); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), file) {
				t.Errorf("got %v, want an error with %s and the file", err, tc.want)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "efs-driver.yaml")
	require.NoError(t, os.WriteFile(file, []byte("source: driver\nefsUtils: utils\nversion: v3.4.1\nbase: a\n"), 0o600))
	e, err := readEFSDriver(file)
	require.NoError(t, err)
	if folder := filepath.Dir(file); e.Source != filepath.Join(folder, "driver") || e.EFSUtils != filepath.Join(folder, "utils") || !slices.Equal(e.Architectures, []string{runtime.GOARCH}) {
		t.Errorf("got %+v, want folders relative to the file's, and this machine's architecture", e)
	}
}
