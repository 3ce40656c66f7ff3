package bundle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/test/widget"
)

// TestPin: pinning a bundle's images gives the same bundle as generating it with them.
func TestPin(t *testing.T) {
	loose := mustGenerate(t, widget.Driver(), version1)
	before := string(loose.File(csvPath(loose)))
	specs, err := PullSpecs(loose)
	require.NoError(t, err)
	pins := map[string]string{}
	for _, spec := range specs {
		repository := spec[:strings.LastIndex(spec, ":")]
		pins[spec] = strings.Replace(repository, "quay.io", "registry.example.com/team", 1) + "@sha256:" + strings.Repeat("0", 64)
	}
	got, err := Pin(loose, pins)
	require.NoError(t, err)
	opts := version1
	opts.Pinned, opts.Images = true, map[string]string{OperatorImage: pins[widget.Driver().Operator.Image]}
	for _, image := range widget.Driver().Images {
		opts.Images[image.Env] = pins[image.Default]
	}
	assert.Empty(t, cmp.Diff(mustGenerate(t, widget.Driver(), opts), got), "-generated +pinned")
	if string(loose.File(csvPath(loose))) != before {
		t.Error("the bundle that was pinned has changed itself")
	}
	delete(pins, specs[0])
	if _, err := Pin(loose, pins); err == nil || !strings.Contains(err.Error(), specs[0]) {
		t.Errorf("without %s: %v", specs[0], err)
	}
}

// TestReferences: an image with a digest is looked up by the tag in the definition, and a tag in the bundle takes
// precedence.
func TestReferences(t *testing.T) {
	opts := version1
	opts.Images = map[string]string{OperatorImage: "quay.io/mirror/operator@sha256:" + strings.Repeat("0", 64), "DRIVER_IMAGE": "quay.io/mirror/widget:v7"}
	got, err := References(mustGenerate(t, widget.Driver(), opts), widget.Driver())
	require.NoError(t, err)
	if got[OperatorImage] != widget.Driver().Operator.Image || got["DRIVER_IMAGE"] != "quay.io/mirror/widget:v7" {
		t.Errorf("references %v", got)
	}
	for _, image := range widget.Driver().Images {
		if image.Env != "DRIVER_IMAGE" && got[image.Env] != image.Default {
			t.Errorf("%s is %s, want %s", image.Env, got[image.Env], image.Default)
		}
	}
	assert.Lenf(t, got, len(widget.Driver().Images)+1, "%d references, want one for each image", len(got))
}
