package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers"
	drivertable "github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/drivers/images"
)

// Published is a release that `make release` has pushed to a registry, from a clone of the project's commit.
type Published struct {
	*registry.Secure
	driver drivers.Driver
	// clone is the path of the clone, and berth the path of its program.
	clone, berth string
	// pins is the file with the images of drivers, and base the image on which the must-gather image is built.
	pins, base string
}

// Publish starts a registry with the images of a driver, and with stand-ins for all others, clones the project and
// makes a release of it. This process and its children trust the registry from then on, and nothing else.
func Publish(t testing.TB, driver drivers.Driver) *Published {
	t.Helper()
	root, err := tools.Root()
	require.NoError(t, err)
	p := &Published{Secure: registry.StartSecure(t), driver: driver, clone: filepath.Join(t.TempDir(), "berth")}
	for _, variable := range p.Env { // before this process loads its certificate authorities, which it does only once
		key, value, _ := strings.Cut(variable, "=")
		t.Setenv(key, value)
	}
	base, err := images.DebianImage(t.Context())
	require.NoError(t, err)
	p.base = p.Push(t, "mirror/debian:bookworm", base)
	p.mirror(t)
	p.run(t, root, "git", "clone", "-q", root, p.clone)
	p.berth = Programs(t, driver).Berth
	p.Release(t)
	return p
}

// mirror pushes the images of drivers, and writes the file that says where they are.
func (p *Published) mirror(t testing.TB) {
	t.Helper()
	pins := map[string]string{}
	for _, i := range p.driver.Images {
		archive, err := images.Archive(t.Context(), nil, i.Default)
		require.NoError(t, err)
		img, err := tarball.ImageFromPath(archive, nil)
		require.NoError(t, err)
		pins[i.Default] = p.Push(t, mirrored(t, i.Default), img)
	}
	for _, d := range drivertable.Packaged() {
		for _, i := range d.Images {
			if _, done := pins[i.Default]; done {
				continue
			}
			img, err := random.Image(64, 1)
			require.NoError(t, err)
			pins[i.Default] = p.Push(t, mirrored(t, i.Default), img)
		}
	}
	data, err := boundedyaml.Marshal(pins)
	require.NoError(t, err)
	p.pins = filepath.Join(t.TempDir(), "pins.yaml")
	require.NoError(t, os.WriteFile(p.pins, data, 0o600))
}

// mirrored returns the repository, with its tag, that an image has in the registry.
func mirrored(t testing.TB, reference string) string {
	t.Helper()
	tag, err := name.NewTag(reference)
	require.NoError(t, err)
	return "mirror/" + tag.RepositoryStr() + ":" + tag.TagStr()
}

// Release makes a release of the clone's commit.
func (p *Published) Release(t testing.TB) {
	t.Helper()
	t.Logf("the release:\n%s", p.run(t, p.clone, "make", "--silent", "release", "REGISTRY="+p.Repository(""), "PINS="+p.pins, "MUST_GATHER_BASE="+p.base, "ARCHITECTURES="+runtime.GOARCH))
}

// Update commits one more version of each package, as docs/catalog/release.md says, and makes a release of them.
func (p *Published) Update(t testing.TB) {
	t.Helper()
	for _, d := range drivertable.Packaged() {
		p.bump(t, d.Package.Name)
	}
	p.run(t, p.clone, "git", "add", ".")
	p.run(t, p.clone, "git", "-c", "user.name=tester", "-c", "user.email=tester@example.com", "commit", "-q", "-m", "The next release")
	p.Release(t)
}

// bump adds the next version of a package, with another image of the operator, and adds it to the templates.
func (p *Published) bump(t testing.TB, pkg string) {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(p.clone, "bundle", pkg, "*"))
	require.NoErrorf(t, err, "versions of package %s", pkg)
	require.Lenf(t, folders, 1, "versions of package %s", pkg)
	from, err := semver.Parse(filepath.Base(folders[0]))
	require.NoError(t, err)
	to := from
	to.Patch++
	folder := "bundle/" + pkg + "/"
	p.run(t, p.clone, p.berth, "bundle", "bump", folder+from.String(), "--image", "OPERATOR_IMAGE="+OperatorImage+":v"+to.String())
	for _, catalog := range []string{"certified", "community"} {
		file := filepath.Join(p.clone, "catalog/templates", catalog, pkg+".yaml")
		template, err := os.ReadFile(file)
		require.NoError(t, err)
		line := "- folder: ../../../" + folder + from.String() + "\n"
		before, after, found := strings.Cut(string(template), line)
		require.Truef(t, found, "%s lacks the line %q", file, line)
		require.NoError(t, os.WriteFile(file, []byte(before+line+strings.ReplaceAll(line, from.String(), to.String())+after), 0o600))
	}
}

// Repository returns the repository of an image of the release.
func (p *Published) Repository(image string) string {
	return strings.TrimSuffix(p.Address+"/team/"+image, "/")
}

// PullSpec returns the pull spec, by digest, of an image of the release. tagged is the name of the image with its tag.
func (p *Published) PullSpec(t testing.TB, tagged string) string {
	t.Helper()
	digest, err := oci.Find(t.Context(), p.Repository(tagged))
	require.NoErrorf(t, err, "the digest of %s", tagged)
	require.NotEmptyf(t, digest, "the digest of %s", tagged)
	name, _, _ := strings.Cut(tagged, ":")
	return p.Repository(name) + "@" + digest
}

// Image returns an image of the release for this machine. tagged is the name of the image with its tag.
func (p *Published) Image(t testing.TB, tagged string) v1.Image {
	t.Helper()
	ref, err := name.ParseReference(p.PullSpec(t, tagged))
	require.NoError(t, err)
	img, err := remote.Image(ref, remote.WithContext(t.Context()), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	require.NoError(t, err)
	return img
}

func (p *Published) run(t testing.TB, dir, program string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	require.NoErrorf(t, err, "%s %q\n%s", filepath.Base(program), args, out)
	return string(out)
}
