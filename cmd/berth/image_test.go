package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/berth-csi/berth/test/cluster/tools"
)

// TestOpmReadsImages pushes images of a bundle and of a catalog to a registry, and has the real opm read
// them back: they say what their folders say.
func TestOpmReadsImages(t *testing.T) {
	peers, err := tools.Ensure(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	root := "../.."
	for name, folder := range map[string]string{
		"bundle":  filepath.Join(root, "bundle", "aws-ebs-csi-driver-operator", "1.0.0"),
		"catalog": filepath.Join(root, "catalog", "certified"),
	} {
		t.Run(name, func(t *testing.T) {
			reference := strings.TrimPrefix(server.URL, "http://") + "/harbour/" + name + ":v1"
			digest := output(t, exec.Command("berth", name, "image", folder, "--push", reference))
			if !regexp.MustCompile(`^sha256:[0-9a-f]{64}\n$`).MatchString(digest) {
				t.Errorf("it prints %q, want a digest", digest)
			}
			render := func(from string) map[string]any {
				cmd := exec.Command(peers.Path("opm"), "render", "--use-http", "--output=json", from)
				cmd.Env = append(os.Environ(), "HOME="+homeWithPolicy(t))
				return blobs(t, output(t, cmd))
			}
			if diff := cmp.Diff(render(folder), render(reference)); diff != "" {
				t.Errorf("what opm reads (-folder +image):\n%s", diff)
			}
			again := output(t, exec.Command("berth", name, "image", folder, "--layout", filepath.Join(t.TempDir(), "layout")))
			if again != digest {
				t.Errorf("in a layout the image's digest is %s, in the registry %s", again, digest)
			}
		})
	}
}

// homeWithPolicy returns a home folder that says that any image may be pulled. opm asks for that.
func homeWithPolicy(t *testing.T) string {
	home := t.TempDir()
	folder := filepath.Join(home, ".config", "containers")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	policy := []byte(`{"default": [{"type": "insecureAcceptAnything"}]}`)
	if err := os.WriteFile(filepath.Join(folder, "policy.json"), policy, 0o644); err != nil {
		t.Fatal(err)
	}
	return home
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	return string(out)
}

// blobs returns what opm has rendered, by schema and name, without where it comes from.
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
		found[blob["schema"].(string)+" "+blob["name"].(string)] = blob
	}
}
