package bundle

import (
	"strings"
	"testing"
	"time"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/widget"
)

func TestBump(t *testing.T) {
	earlier := mustGenerate(t, widget.Driver(), Options{Version: semver.MustParse("1.2.3"), Replaces: "widget-operator.v1.2.2",
		Images: map[string]string{"DRIVER_IMAGE": "quay.io/mirror/widget:v7", OperatorImage: "quay.io/mirror/operator:v2"}})
	released := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	got, err := Bump(earlier, widget.Driver(), Options{Released: released, Images: map[string]string{"NODE_REGISTRAR_IMAGE": "quay.io/example/registrar:v2"}})
	require.NoError(t, err)
	want := mustGenerate(t, widget.Driver(), Options{Version: semver.MustParse("1.2.4"), Replaces: "widget-operator.v1.2.3", SkipRange: ">=1.2.0 <1.2.4",
		Released: released, Images: map[string]string{
			"DRIVER_IMAGE": "quay.io/mirror/widget:v7", OperatorImage: "quay.io/mirror/operator:v2", "NODE_REGISTRAR_IMAGE": "quay.io/example/registrar:v2"}})
	assert.Empty(t, cmp.Diff(want, got), "-want +got")
	assert.EqualValues(t, "1.2.4", got.Version(), "the version")

	// Only the differences are shown.
	text := Diff(earlier, got)
	for _, line := range []string{"-  version: 1.2.3", "+  version: 1.2.4", "-  - image: quay.io/example/registrar:v1", "+  - image: quay.io/example/registrar:v2",
		"--- widget-operator.v1.2.3/manifests/widget-operator.clusterserviceversion.yaml"} {
		assert.Containsf(t, strings.Split(text, "\n"), line, "the difference has no line %q:\n%s", line, text)
	}
	assert.NotContains(t, text, "bundle.Dockerfile", "the difference shows a file that has not changed")
}

func TestBumpOfNothing(t *testing.T) {
	for name, opts := range map[string]Options{
		"as it comes":  version1,
		"with options": {Version: version1.Version, Replaces: "widget-operator.v0.9.9", SkipRange: ">=0.9.0 <1.0.0", Released: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)},
	} {
		got, err := Bump(mustGenerate(t, widget.Driver(), opts), widget.Driver(), Options{Images: map[string]string{"DRIVER_IMAGE": "quay.io/example/widget:v1"}})
		if got != nil || err != nil {
			t.Errorf("%s: bundle %v, error %v; want neither", name, got, err)
		}
	}
}

// TestBumpFollowsTheDefinition: the next version has the changes of the driver's definition.
func TestBumpFollowsTheDefinition(t *testing.T) {
	d := widget.Driver()
	earlier := mustGenerate(t, d, version1)
	d.Package.Description += "More of it.\n"
	got, err := Bump(earlier, d, Options{})
	if err != nil || got == nil || !strings.Contains(Diff(earlier, got), "+    More of it.") {
		t.Errorf("bundle %v, error %v", got, err)
	}
}

func TestBumpRefuses(t *testing.T) {
	other := widget.Driver()
	other.Package.Name = "gadget-operator"
	for name, test := range map[string]struct {
		earlier *registryv1.Bundle
		opts    Options
		want    string
	}{
		"a bundle of another driver": {mustGenerate(t, other, version1), Options{}, "bundle gadget-operator.v1.0.0: its package is gadget-operator, and it was not generated from driver widget"},
		"an image that there is not": {mustGenerate(t, widget.Driver(), version1), Options{Images: map[string]string{"SAIL_IMAGE": "quay.io/a/b:c"}}, "there is no image SAIL_IMAGE"},
		"tags in a release":          {mustGenerate(t, widget.Driver(), version1), Options{Pinned: true, Images: map[string]string{"DRIVER_IMAGE": "quay.io/a/b:c"}}, "not given by digest: quay.io/example/widget-operator:v1, quay.io/a/b:c, quay.io/example/registrar:v1;"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Bump(test.earlier, widget.Driver(), test.opts); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

func TestNext(t *testing.T) {
	for version, want := range map[string]string{"1.0.0": "1.0.1", "1.2.9": "1.2.10", "1.1.0-rc.1": "1.1.0", "2.0.0+b": "2.0.1"} {
		if got := next(semver.MustParse(version)).String(); got != want {
			t.Errorf("after %s comes %s, want %s", version, got, want)
		}
	}
}

// TestPinned: a release needs a digest for each image.
func TestPinned(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0", 64)
	mustGenerate(t, widget.Driver(), Options{Version: version1.Version, Pinned: true, Images: map[string]string{
		OperatorImage: "quay.io/example/operator" + digest, "DRIVER_IMAGE": "quay.io/example/widget" + digest, "NODE_REGISTRAR_IMAGE": "quay.io/example/registrar" + digest}})
}

// TestNewestOpenShift is the one that end-to-end tests run on.
func TestNewestOpenShift(t *testing.T) {
	tested := semver.MustParse(cluster.OpenShiftVersion)
	if want := semver.MustParse(maxOpenShiftVersion + ".0"); tested.Major != want.Major || tested.Minor != want.Minor {
		t.Errorf("bundles promise OpenShift %s, tests run on %s", maxOpenShiftVersion, tested)
	}
}
