package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/bundle"
	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// maxOperator is the size goal of the operator's image, compressed, for each architecture.
const maxOperator = 25 << 20

// releasing is a registry with the inputs of a release into it.
type releasing struct {
	*registry.Secure
	prefix                    string // of the repositories
	root, program, pins, base string
}

func startReleasing(t *testing.T) *releasing {
	t.Helper()
	root, err := tools.Root()
	require.NoError(t, err)
	t.Chdir(root)
	programs, err := tools.Programs(t.Context(), "./release")
	require.NoError(t, err)
	r := &releasing{Secure: registry.StartSecure(t), root: root, program: programs.Path("release")}
	r.prefix = r.Address + "/team"
	for _, variable := range r.Env { // before this process asks for its certificate authorities
		key, value, _ := strings.Cut(variable, "=")
		t.Setenv(key, value)
	}
	r.base = r.serve(t, "base:1")
	r.pins = r.mirror(t)
	return r
}

// serve pushes an image for this machine, and returns its reference.
func (r *releasing) serve(t *testing.T, reference string) string {
	t.Helper()
	img, err := random.Image(64, 1)
	require.NoError(t, err)
	return r.Push(t, reference, img)
}

// mirror serves the images of all drivers, and returns the file that says where.
func (r *releasing) mirror(t *testing.T) string {
	t.Helper()
	all, err := newRelease(t.Context(), options{base: r.base})
	require.NoError(t, err)
	images, err := all.foreignImages()
	require.NoError(t, err)
	pins := map[string]string{}
	for _, reference := range images {
		if reference != r.base {
			pins[reference] = r.serve(t, "mirror/"+strings.TrimPrefix(reference, "quay.io/"))
		}
	}
	data, err := boundedyaml.Marshal(pins)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "pins.yaml")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return file
}

// release makes a release, and returns its report and its messages.
func (r *releasing) release(ctx context.Context, env []string, flags ...string) (report, messages string, err error) {
	command := exec.CommandContext(ctx, r.program, append([]string{"--registry", r.prefix, "--pins", r.pins, "--must-gather-base", r.base,
		"--architectures", runtime.GOARCH}, flags...)...)
	command.Dir, command.Env = r.root, append(os.Environ(), env...)
	var out, errors bytes.Buffer
	command.Stdout, command.Stderr = &out, &errors
	err = command.Run()
	return out.String(), errors.String(), err
}

func (r *releasing) mustRelease(t *testing.T, flags ...string) string {
	t.Helper()
	report, messages, err := r.release(t.Context(), nil, flags...)
	require.NoError(t, err, messages)
	return report
}

// index returns an image of the release.
func (r *releasing) index(t *testing.T, reference string) v1.ImageIndex {
	t.Helper()
	ref, err := name.ParseReference(r.prefix + "/" + reference)
	require.NoError(t, err)
	index, err := remote.Index(ref, remote.WithContext(t.Context()), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	require.NoError(t, err)
	return index
}

// platform returns the only image of an index.
func platform(t *testing.T, index v1.ImageIndex) v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	img, err := index.Image(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	return img
}

// files returns the files of an image.
func files(t *testing.T, img v1.Image) map[string][]byte {
	t.Helper()
	stream := mutate.Extract(img)
	defer stream.Close()
	found := map[string][]byte{}
	for archive := tar.NewReader(stream); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return found
		}
		require.NoError(t, err)
		if header.Typeflag == tar.TypeReg {
			if found[header.Name], err = io.ReadAll(archive); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestRelease(t *testing.T) {
	r := startReleasing(t)

	// The registry refuses a manifest halfway.
	r.Guard(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if request.Method == http.MethodPut && strings.Contains(request.URL.Path, "berth-catalog-openshift/manifests") {
				http.Error(w, `{"errors": [{"code": "DENIED", "message": "quota exceeded"}]}`, http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, request)
		})
	})
	if _, messages, err := r.release(t.Context(), nil, "--output", t.TempDir()); err == nil || !strings.Contains(messages, "quota exceeded") {
		t.Errorf("a refused push: %v, want the registry's reason:\n%s", err, messages)
	}
	for _, image := range programImages {
		assert.Emptyf(t, r.find(t, image.name+":latest"), "tag %s:latest is set by a release that failed", image.name)
	}
	r.Guard(nil)

	output := t.TempDir()
	report := r.mustRelease(t, "--output", output)
	t.Logf("the release:\n%s", report)
	if again := r.mustRelease(t, "--output", t.TempDir()); again != report {
		t.Errorf("the same commit gives other images (-first +second):\n%s", cmp.Diff(report, again))
	}

	t.Run("operator", func(t *testing.T) { r.checkOperator(t) })
	t.Run("dead code", func(t *testing.T) { r.checkDeadCode(t) })
	t.Run("documents", func(t *testing.T) { r.checkDocuments(t) })
	t.Run("archives", func(t *testing.T) { checkArchive(t, filepath.Join(output, "archives")) })
	t.Run("krew", func(t *testing.T) { checkKrew(t, filepath.Join(output, "archives")) })
	t.Run("must-gather", func(t *testing.T) {
		content := files(t, platform(t, r.index(t, "berth-must-gather:latest")))
		script, err := os.ReadFile("deploy/must-gather/gather")
		require.NoError(t, err)
		if !bytes.Equal(content["usr/bin/gather"], script) || len(content["usr/bin/kubectl"]) == 0 {
			t.Error("the image lacks the script or its client")
		}
	})
	t.Run("bundles", func(t *testing.T) { r.checkBundles(t) })
	t.Run("catalogs", func(t *testing.T) { r.checkCatalogs(t) })
}

func (r *releasing) find(t *testing.T, reference string) string {
	t.Helper()
	digest, err := oci.Find(t.Context(), r.prefix+"/"+reference)
	require.NoError(t, err)
	return digest
}

func (r *releasing) checkOperator(t *testing.T) {
	img := platform(t, r.index(t, "berth-operator:latest"))
	config, err := img.ConfigFile()
	require.NoError(t, err)
	if config.Config.User != nobodyUser || !slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/berth-operator"}) {
		t.Errorf("it runs %q as user %q, want berth-operator as %q", config.Config.Entrypoint, config.Config.User, nobodyUser)
	}
	if size, err := compressedSize(img); err != nil || size > maxOperator {
		t.Errorf("it has %d bytes compressed (%v), want at most %d", size, err, maxOperator)
	}
	content := files(t, img)
	for path := range content {
		if !strings.HasPrefix(path, "licenses/") && !strings.HasPrefix(path, "etc/") && path != "usr/bin/berth-operator" {
			t.Errorf("it has %s, want nothing but its program, licences and certificate authorities", path)
		}
	}
	assert.True(t, x509.NewCertPool().AppendCertsFromPEM(content["etc/ssl/certs/ca-certificates.crt"]), "it has no certificate authorities")
	for _, path := range []string{"licenses/go/LICENSE", "licenses/github.com/berth-csi/berth/LICENSE", "licenses/k8s.io/client-go/LICENSE"} {
		assert.NotEmptyf(t, content[path], "it has no %s", path)
	}
	program, err := elf.NewFile(bytes.NewReader(content["usr/bin/berth-operator"]))
	require.NoError(t, err)
	for _, header := range program.Progs {
		assert.NotEqual(t, elf.PT_INTERP, header.Type, "its program needs a dynamic linker, which the image does not have")
	}
}

// maxOPM is the size goal of the base image of catalogs, compressed, in bytes. The one of opm has 30 MB.
const maxOPM = 12 << 20

// TestBaseImageOfCatalogs: the image meets the expectations of Dockerfiles and OLM about opm's image.
func TestBaseImageOfCatalogs(t *testing.T) {
	root, err := tools.Root()
	require.NoError(t, err)
	t.Chdir(root)
	r := &release{options: options{output: t.TempDir(), architectures: []string{runtime.GOARCH}}, source: source{version: "v1.2.3"}}
	of := programImages[slices.IndexFunc(programImages, func(p programImage) bool { return p.name == "berth-opm" })]
	built, err := r.compileFor(t.Context(), of.program, "linux", runtime.GOARCH)
	require.NoError(t, err)
	r.built = append(r.built, built)
	img, err := r.platformImage(t.Context(), of, runtime.GOARCH)
	require.NoError(t, err)
	if out, err := exec.CommandContext(t.Context(), built.file, "version").Output(); err != nil || !strings.Contains(string(out), "berth v1.2.3") {
		t.Errorf("its program says %q (%v), want the version of Berth", out, err)
	}
	config, err := img.ConfigFile()
	require.NoError(t, err)
	if !slices.Equal(config.Config.Entrypoint, []string{"/bin/opm"}) || len(config.Config.Cmd) > 0 || config.Config.User != nobodyUser {
		t.Errorf("it runs %q %q as user %q, want /bin/opm as %q", config.Config.Entrypoint, config.Config.Cmd, config.Config.User, nobodyUser)
	}
	if size, err := compressedSize(img); err != nil || size > maxOPM {
		t.Errorf("it has %d bytes compressed (%v), want at most %d", size, err, maxOPM)
	}
	stream := mutate.Extract(img)
	defer stream.Close()
	found := map[string]string{}
	for archive := tar.NewReader(stream); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		found[strings.TrimSuffix(header.Name, "/")] = fmt.Sprintf("%c %o %s", header.Typeflag, header.Mode, header.Linkname)
	}
	for path, want := range map[string]string{"bin/opm": "0 755 ", "bin/grpc_health_probe": "2 777 opm", "tmp": "5 1777 "} {
		assert.EqualValuesf(t, want, found[path], "%s has the type, the mode and the target", path)
	}
}

// checkDeadCode fails if our programs can execute a template, which calls methods by names known only at run time: the linker then keeps
// every method of every type, and the programs have 1.6 to 1.8 times the size. berth can, because of OLM's messages about changes of APIs:
// hack/imports says which package brings that.
func (r *releasing) checkDeadCode(t *testing.T) {
	for name, path := range map[string]string{"berth-operator": "usr/bin/berth-operator", "berth-opm": "bin/opm"} {
		program := files(t, platform(t, r.index(t, name+":latest")))[path]
		assert.Truef(t, bytes.Contains(program, []byte("main.main")), "the image %s has no program with the names of functions", name)
		assert.Falsef(t, bytes.Contains(program, []byte("text/template.(*state).evalField")),
			"%s can execute templates: find out why with go build -ldflags=-dumpdep ./cmd/%s 2>&1 | grep ReflectMethod", name, name)
	}
}

// bundleImages are the bundles that the templates of the catalogs list.
var bundleImages = []string{"aws-efs-operator-bundle:v1.0.0", "aws-ebs-csi-driver-operator-bundle:v5.0.0", "manila-csi-driver-operator-bundle:v5.0.0"}

// byDigest returns the pull spec of a pushed image by its digest.
func (r *releasing) byDigest(t *testing.T, reference string) string {
	t.Helper()
	repository, _, _ := strings.Cut(reference, ":")
	return r.prefix + "/" + repository + "@" + r.find(t, reference)
}

// checkBundles checks that OLM will install the operator that was pushed, and no other.
func (r *releasing) checkBundles(t *testing.T) {
	want := r.byDigest(t, "berth-operator:latest")
	for _, reference := range bundleImages {
		content := files(t, platform(t, r.index(t, reference)))
		b, err := registryv1.LoadImage(reference, content)
		require.NoError(t, err)
		specs, err := bundle.PullSpecs(b.Bundle)
		require.NoError(t, err)
		assert.Containsf(t, specs, want, "%s has images", reference)
		for _, spec := range specs {
			if !strings.HasPrefix(spec, r.Address+"/") || !strings.Contains(spec, "@sha256:") {
				t.Errorf("%s has image %s, want one in the registry, by digest", reference, spec)
			}
		}
		assert.NotContainsf(t, string(b.File("manifests/"+b.Package+".clusterserviceversion.yaml")), "quay.io/", "%s still names an image in quay.io", reference)
	}
}

// checkCatalogs checks that the catalogs offer the bundles that were pushed, and no others.
func (r *releasing) checkCatalogs(t *testing.T) {
	var want []string
	for _, reference := range bundleImages {
		want = append(want, r.byDigest(t, reference))
	}
	slices.Sort(want)
	for _, catalog := range catalogImages {
		opm := catalogs.OPMOfImages(t, "render", r.prefix+"/"+catalog.name+":latest")
		var complaints bytes.Buffer
		opm.Stderr = &complaints
		out, err := opm.Output()
		require.NoErrorf(t, err, "opm render %s\n%s", catalog.name, &complaints)
		var bundles []string
		for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
			var document struct{ Schema, Name, Image string }
			if err := decoder.Decode(&document); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if document.Schema == "olm.bundle" {
				bundles = append(bundles, document.Image)
			}
		}
		slices.Sort(bundles)
		assert.Emptyf(t, cmp.Diff(want, bundles), "catalog %s has other bundles than those that were pushed (-want +got)", catalog.name)
	}
}

func TestBadRegistries(t *testing.T) {
	r := startReleasing(t)
	elsewhere := registry.Nobody()
	for _, tc := range []struct {
		name  string
		env   []string
		flags []string
		want  []string
	}{
		{"down", nil, []string{"--registry", elsewhere + "/team"}, []string{"connection refused", "check that " + elsewhere + " can be reached"}},
		{"unauthorised", []string{"DOCKER_CONFIG=" + t.TempDir(), "REGISTRY_AUTH_FILE=/nowhere"}, nil, []string{"cannot push to " + r.prefix + "/", "docker login"}},
		{"no base", nil, []string{"--must-gather-base", elsewhere + "/base:1"}, []string{"cannot find the digest of image " + elsewhere + "/base:1", "PINS=FILE"}},
		{"no registry", nil, []string{"--registry="}, []string{"make release REGISTRY="}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			output := filepath.Join(t.TempDir(), "output")
			_, messages, err := r.release(t.Context(), tc.env, append(tc.flags, "--output", output)...)
			require.Error(t, err, "it succeeded")
			for _, want := range tc.want {
				assert.Contains(t, messages, want)
			}
			_, err = os.Stat(output)
			assert.True(t, os.IsNotExist(err), "it has compiled programs before it found the fault")
		})
	}
}

func mustRun(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", filepath.Base(program), args, err, out)
	}
}

// checkDocuments checks that the registry lists an SBOM and a provenance of the operator's image, and their content.
func (r *releasing) checkDocuments(t *testing.T) {
	index := r.index(t, "berth-operator:latest")
	digest, err := index.Digest()
	require.NoError(t, err)
	var statement statement
	require.NoError(t, json.Unmarshal(r.attached(t, "berth-operator", digest, provenanceType), &statement))
	commit, err := git(t.Context(), "rev-parse", "HEAD")
	require.NoError(t, err)
	if got := statement.Subject[0].Digest["sha256"]; got != digest.Hex {
		t.Errorf("the provenance is of %s, want %s", got, digest.Hex)
	}
	assert.EqualValues(t, commit, statement.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"], "the provenance names commit")
	digest, err = platform(t, index).Digest()
	require.NoError(t, err)
	sbom, err := spdxjson.Read(bytes.NewReader(r.attached(t, "berth-operator", digest, sbomType)))
	require.NoError(t, err)
	pins, err := tools.ProjectPins()
	require.NoError(t, err)
	version, err := pins.Version("k8s.io/client-go")
	require.NoError(t, err)
	for _, p := range sbom.Packages {
		if p.PackageName == "k8s.io/client-go" && p.PackageVersion == version && p.PackageLicenseDeclared == "Apache-2.0" {
			return
		}
	}
	t.Errorf("the SBOM lacks k8s.io/client-go %s with its licence", version)
}

// documents returns the references of the documents of a type that the registry lists for a manifest of an image.
func (r *releasing) documents(t *testing.T, image string, to v1.Hash, mediaType string) (found []name.Digest) {
	t.Helper()
	repository, err := name.NewRepository(r.prefix + "/" + image)
	require.NoError(t, err)
	referrers, err := remote.Referrers(repository.Digest(to.String()), remote.WithContext(t.Context()), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	require.NoError(t, err)
	manifest, err := referrers.IndexManifest()
	require.NoError(t, err)
	for _, m := range manifest.Manifests {
		if m.ArtifactType == mediaType {
			found = append(found, repository.Digest(m.Digest.String()))
		}
	}
	return found
}

// attached returns the only document of a type that the registry lists for a manifest of an image.
func (r *releasing) attached(t *testing.T, image string, to v1.Hash, mediaType string) []byte {
	t.Helper()
	var found [][]byte
	for _, document := range r.documents(t, image, to, mediaType) {
		img, err := remote.Image(document, remote.WithContext(t.Context()), remote.WithAuthFromKeychain(authn.DefaultKeychain))
		require.NoError(t, err)
		layers, err := img.Layers()
		require.NoError(t, err)
		content, err := layers[0].Compressed()
		require.NoError(t, err)
		text, err := io.ReadAll(content)
		require.NoError(t, err)
		found = append(found, text)
	}
	require.Lenf(t, found, 1, "the registry lists %d documents of type %s for %s, want one", len(found), mediaType, to)
	return found[0]
}

// checkArchive checks the archive for this machine: it runs, and completes.
func checkArchive(t *testing.T, folder string) {
	mustRun(t, folder, "sha256sum", "--check", "--strict", "SHA256SUMS")
	unpacked := t.TempDir()
	mustRun(t, unpacked, "tar", "-xzf", ownArchive(t, folder))
	mustRun(t, unpacked, "./berth", "version")
	for _, file := range []string{"LICENSE", "completions/berth.bash", "licenses/github.com/spf13/cobra/LICENSE.txt"} {
		assert.FileExists(t, filepath.Join(unpacked, file))
	}
}

// ownArchive returns the archive for this machine.
func ownArchive(t *testing.T, folder string) string {
	t.Helper()
	archives, err := filepath.Glob(filepath.Join(folder, "berth-*-"+runtime.GOOS+"-"+runtime.GOARCH+".tar.gz"))
	require.NoError(t, err)
	require.Len(t, archives, 1, "archives, want one for this machine")
	return archives[0]
}

// checkKrew makes krew install the archive for this machine as a plugin of kubectl, with the manifest of a version that krew takes.
func checkKrew(t *testing.T, folder string) {
	krew, err := tools.Program{Name: "krew", Package: "sigs.k8s.io/krew/cmd/krew", Folder: "hack/krew"}.Ensure(t.Context(), nil)
	require.NoError(t, err)
	archive := ownArchive(t, folder)
	content, err := os.ReadFile(archive)
	require.NoError(t, err)
	manifest, err := krewManifest("v1.2.3", []packed{{workstation{runtime.GOOS, runtime.GOARCH}, filepath.Base(archive), fmt.Sprintf("%x", sha256.Sum256(content))}})
	require.NoError(t, err)
	root := t.TempDir()
	t.Setenv("KREW_ROOT", root)
	t.Setenv("KREW_NO_UPGRADE_CHECK", "1")
	file := filepath.Join(root, "berth.yaml")
	require.NoError(t, os.WriteFile(file, manifest, 0o600))
	mustRun(t, root, krew, "install", "--manifest="+file, "--archive="+archive)
	mustRun(t, root, filepath.Join(root, "bin", "kubectl-berth"), "version")
}
