package images

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/programs"
	"github.com/berth-csi/berth/lab/registry"
)

// This test's executable also plays users' programs: it prints its name.
const (
	given   = "livenessprobe" // the name of a program
	ofImage = "published"     // the name of the program of a published image
	version = "v9.9.9"
)

func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name == given || name == ofImage {
		fmt.Printf("%s %s of the user\n", name, version)
		os.Exit(0)
	}
	cluster.Main(m)
}

const (
	probe     = "quay.io/openshift/origin-csi-livenessprobe"
	registrar = "quay.io/openshift/origin-csi-node-driver-registrar"
	nfsPlugin = "quay.io/openshift/origin-csi-driver-nfs"
)

// giveProgram gives this test's executable as the program of an image.
func giveProgram(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	content, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, given), content, 0o755))
	t.Setenv(programs.GivenVariable, folder)
}

// publish pushes an image with this test's executable to a registry on loopback, and returns its reference by digest.
func publish(t *testing.T) name.Digest {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "files.tar")
	require.NoError(t, writeTar(archive, []string{"/opt"}, []file{{target: "/opt/" + ofImage, source: "/proc/self/exe", mode: 0o755}}))
	layer, err := tarball.LayerFromFile(archive)
	require.NoError(t, err)
	image, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, Config: v1.Config{Entrypoint: []string{"/opt/" + ofImage}},
		RootFS: func() v1.RootFS {
			config, err := image.ConfigFile()
			require.NoError(t, err)
			return config.RootFS
		}()})
	require.NoError(t, err)
	tag, err := name.NewTag(registry.Start(t, nil) + "/team/image:latest")
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, image, remote.WithContext(t.Context())))
	digest, err := image.Digest()
	require.NoError(t, err)
	return tag.Context().Digest(digest.String())
}

// namePublished names published images for images of the definitions.
func namePublished(t *testing.T, lines ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "images.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	t.Setenv(PublishedVariable, file)
}

// TestNodeRunsWhatUsersGive: the containers of a node run the program in PROGRAMS, and the published image that IMAGES names, and
// what says which program runs knows.
func TestNodeRunsWhatUsersGive(t *testing.T) {
	cluster.NeedRealNodes(t)
	giveProgram(t)
	digest := publish(t)
	namePublished(t, registrar+":4.21: "+digest.Name())
	archives := map[string]string{}
	for _, repository := range []string{probe, registrar} {
		archive, err := Archive(t.Context(), nil, repository+":4.21")
		require.NoError(t, err)
		archives[repository] = archive
	}
	c := cluster.Start(t, cluster.Options{RealNodes: 1, ImageArchives: archives})
	namespace := c.Namespace(t)
	for _, test := range []struct{ pod, repository, prints, ran string }{
		{"given", probe, given + " " + version + " of the user\n", "the real one, " + version},
		{"published", registrar, ofImage + " " + version + " of the user\n", "the real one, image " + short(digest)},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: test.pod}, Spec: corev1.PodSpec{
			NodeName: cluster.RealNode(0), RestartPolicy: corev1.RestartPolicyNever, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "main", Image: test.repository + ":4.21"}},
		}}
		require.NoError(t, c.Client().Create(t.Context(), pod))
		cluster.Eventually(t, time.Minute, "pod "+test.pod+" to say who it is", func(ctx context.Context) error {
			out, err := c.Kubectl(ctx, "--namespace="+namespace, "logs", test.pod).CombinedOutput()
			if err == nil && string(out) != test.prints {
				err = fmt.Errorf("it prints %q, want %q", out, test.prints)
			}
			return err
		})
		if ran, err := WhichRuns(test.repository + ":4.21"); err != nil || !ran.Given || ran.String() != test.ran {
			t.Errorf("image %s: %+v, %v; want %q", test.repository, ran, err, test.ran)
		}
	}
}

// TestPublishedImage: the stand-in for mount.nfs is the only layer added to a published image, and nothing else
// changes.
func TestPublishedImage(t *testing.T) {
	digest := publish(t)
	namePublished(t, nfsPlugin+": "+digest.Name(), registrar+": "+digest.Name())
	for repository, want := range map[string][]string{
		registrar: {"opt/", "opt/" + ofImage},
		nfsPlugin: {"opt/", "opt/" + ofImage, "sbin/mount.nfs", "usr/bin/mount.nfs", "usr/sbin/mount.nfs", "sbin/mount.nfs4", "usr/bin/mount.nfs4", "usr/sbin/mount.nfs4"},
	} {
		archive, err := Archive(t.Context(), nil, repository+":4.21")
		require.NoError(t, err)
		image, err := tarball.ImageFromPath(archive, nil)
		require.NoError(t, err)
		layers, err := image.Layers()
		require.NoError(t, err)
		var got []string
		for _, layer := range layers {
			got = append(got, namesIn(t, layer)...)
		}
		assert.Equalf(t, want, got, "%s has the files", repository)
		if config, err := image.ConfigFile(); err != nil || !slices.Equal(config.Config.Entrypoint, []string{"/opt/" + ofImage}) {
			t.Errorf("%s: %+v, %v; want the entrypoint of the published image", repository, config, err)
		}
	}
}

func namesIn(t *testing.T, layer v1.Layer) (names []string) {
	t.Helper()
	content, err := layer.Uncompressed()
	require.NoError(t, err)
	defer content.Close()
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if err == io.EOF {
			return names
		}
		require.NoError(t, err)
		names = append(names, header.Name)
	}
}

func TestPublishedImageIsRefused(t *testing.T) {
	digest := publish(t)
	absent := digest.Context().Digest("sha256:" + strings.Repeat("0", 64)).Name()
	for name, test := range map[string]struct {
		lines []string
		err   string
	}{
		"a tag":              {[]string{probe + ": " + digest.Context().Tag("latest").Name()}, probe + ": " + digest.Context().Tag("latest").Name() + " names no digest, and a tag may be another image tomorrow"},
		"an unknown image":   {[]string{"quay.io/openshift/origin-csi-livenesprobe: " + digest.Name()}, "quay.io/openshift/origin-csi-livenesprobe: no definition names this image; want one of "},
		"the same twice":     {[]string{probe + ": " + digest.Name(), probe + ":4.21: " + digest.Name()}, probe + " is there twice"},
		"nothing":            {nil, "names no image"},
		"a list":             {[]string{"- " + digest.Name()}, "want a map from images of the definitions to published images by digest"},
		"an image of nobody": {[]string{probe + ": " + absent}, "pull the image " + absent + " that IMAGES names"},
	} {
		t.Run(name, func(t *testing.T) {
			namePublished(t, test.lines...)
			_, err := Archive(t.Context(), nil, probe+":4.21")
			assert.ErrorContains(t, err, test.err)
		})
	}
	t.Run("no file", func(t *testing.T) {
		t.Setenv(PublishedVariable, "/nowhere/images.yaml")
		if _, err := Archive(t.Context(), nil, probe+":4.21"); err == nil || !strings.Contains(err.Error(), "IMAGES: ") || !strings.Contains(err.Error(), "/nowhere/images.yaml") {
			t.Errorf("got error %v, want one that names the file", err)
		}
	})
}

// TestRealProgramsNeedMore: images with a real program have the programs that it runs, even if our replacement does not
// need them.
func TestRealProgramsNeedMore(t *testing.T) {
	for _, c := range contents {
		real := c.real()
		if wants := strings.HasPrefix(c.program, efsDriver); wants != real.efsUtils || wants && !real.nfs {
			t.Errorf("%s: %+v", c.program, real)
		}
	}
	folder := t.TempDir()
	content, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	const driver = efsDriver + "v3.4.1"
	require.NoError(t, os.WriteFile(filepath.Join(folder, driver), content, 0o755))
	t.Setenv(programs.GivenVariable, folder)
	_, err = Archive(t.Context(), nil, "public.ecr.aws/efs-csi-driver/amazon/aws-efs-csi-driver:v3.4.1")
	assert.ErrorContains(t, err, programs.WantEFSUtils, "the real EFS driver without efs-utils")
}
