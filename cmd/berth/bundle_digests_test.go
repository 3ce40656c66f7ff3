package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/internal/oci"
	loopback "github.com/berth-csi/berth/lab/registry"
)

// TestBumpTakesDigests: when an image is rebuilt under its tag, bump --digests finds it, and nothing else changes.
func TestBumpTakesDigests(t *testing.T) {
	address := loopback.Start(t, nil)
	driver, err := registry.Get("efs")
	require.NoError(t, err)
	names := []string{"OPERATOR_IMAGE"}
	for _, i := range driver.Images {
		names = append(names, i.Env)
	}
	var images []string
	for _, name := range names {
		push(t, address, name)
		images = append(images, "--image", name+"="+reference(address, name))
	}
	folder := t.TempDir()
	first, second := filepath.Join(folder, "1.0.0"), filepath.Join(folder, "1.0.1")
	output(t, exec.Command("berth", "bundle", "generate", "efs", "--version", "1.0.0", "--output-dir", first))
	output(t, exec.Command("berth", append([]string{"bundle", "bump", first, "--digests", "--pinned"}, images...)...))
	assert.Empty(t, output(t, exec.Command("berth", append([]string{"bundle", "bump", second, "--digests", "--pinned"}, images...)...)), "although nothing was rebuilt")
	rebuilt := push(t, address, "LIVENESS_PROBE_IMAGE")
	text := output(t, exec.Command("berth", append([]string{"bundle", "bump", second, "--digests", "--pinned"}, images...)...))
	assert.Containsf(t, text, rebuilt, "the differences lack %s", rebuilt)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "+") && strings.Contains(line, "@sha256:") && !strings.Contains(line, rebuilt) {
			t.Errorf("an image changes that was not rebuilt: %s", line)
		}
	}

	// If one cannot be asked for, nothing is written, and each of them is named.
	nobody := loopback.Nobody()
	failing := exec.Command("berth", "bundle", "bump", filepath.Join(folder, "1.0.2"), "--digests", "--image", "DRIVER_IMAGE="+nobody+"/images/a:1",
		"--image", "PROVISIONER_IMAGE="+nobody+"/images/b:1")
	for _, name := range names {
		if name != "DRIVER_IMAGE" && name != "PROVISIONER_IMAGE" {
			failing.Args = append(failing.Args, "--image", name+"="+reference(address, name))
		}
	}
	out, err := failing.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "DRIVER_IMAGE: cannot find the digest of image "+nobody+"/images/a:1") || !strings.Contains(string(out), nobody+"/images/b:1") {
		t.Errorf("%v:\n%s", err, out)
	}
	if written, _ := filepath.Glob(filepath.Join(folder, "1.0.3")); len(written) > 0 {
		t.Error("a bundle was written without all digests")
	}
}

func reference(address, name string) string {
	return address + "/images/" + strings.ToLower(name) + ":1"
}

// push pushes a new build of an image, and returns its digest.
func push(t *testing.T, address, name string) string {
	t.Helper()
	index, err := random.Index(16, 1, 1)
	require.NoError(t, err)
	digest, err := oci.Push(t.Context(), reference(address, name), index)
	require.NoError(t, err)
	return digest
}
