package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestOpmReadsImages pushes images of a bundle and of a catalog to a registry. The real opm reads the
// same content from them as from the folders.
func TestOpmReadsImages(t *testing.T) {
	address := registry.Start(t, nil)
	root := "../.."
	for name, folder := range map[string]string{
		"bundle":  filepath.Join(root, "bundle", "aws-ebs-csi-driver-operator", "5.0.0"),
		"catalog": filepath.Join(root, "catalog", "certified"),
	} {
		t.Run(name, func(t *testing.T) {
			reference := address + "/harbour/" + name + ":v1"
			digest := output(t, exec.Command("berth", name, "image", folder, "--push", reference))
			assert.Regexp(t, `^sha256:[0-9a-f]{64}\n$`, digest)
			render := func(from string) map[string]any {
				return blobs(t, output(t, catalogs.OPMOfImages(t, "render", "--use-http", "--output=json", from)))
			}
			assert.Empty(t, cmp.Diff(render(folder), render(reference)), "what opm reads (-folder +image)")
			again := output(t, exec.Command("berth", name, "image", folder, "--layout", filepath.Join(t.TempDir(), "layout")))
			assert.Equal(t, digest, again, "the digest in a layout, and in the registry")
		})
	}
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoErrorf(t, err, "%s\n%s", cmd, stderr.String())
	return string(out)
}

// blobs returns the documents that opm has rendered, by schema, package and name, without their
// origin.
func blobs(t *testing.T, text string) map[string]any {
	t.Helper()
	found := map[string]any{}
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		var blob map[string]any
		if err := decoder.Decode(&blob); err == io.EOF {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		image, _ := blob["image"].(string)
		delete(blob, "image")
		if related, ok := blob["relatedImages"].([]any); ok {
			var others []any
			for _, r := range related {
				if r.(map[string]any)["image"] != image {
					others = append(others, r)
				}
			}
			blob["relatedImages"] = others
		}
		found[fmt.Sprint(blob["schema"], blob["package"], blob["name"])] = blob
	}
}
