package refusal

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the schema of deploymentConfig")

// TestSchema makes the schema of deploymentConfig from Kubernetes' OpenAPI, like OLM v1: all fields of a Subscription's
// spec.config but its selector.
func TestSchema(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "api/openapi-spec/v3/api__v1_openapi.json"))
	require.NoError(t, err)
	var published struct {
		Components struct{ Schemas map[string]any }
	}
	require.NoError(t, json.Unmarshal(data, &published))
	g := &schemaMaker{published: published.Components.Schemas, used: map[string]any{}}
	properties := map[string]any{}
	for field := range reflect.TypeFor[v1alpha1.SubscriptionConfig]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "selector" {
			properties[name] = g.schema(field.Type)
		}
	}
	made, err := json.MarshalIndent(map[string]any{
		deploymentConfigField: map[string]any{"type": "object", "additionalProperties": false, "properties": properties},
		"components":          map[string]any{"schemas": g.used},
	}, "", " ")
	require.NoError(t, err)
	made = append(made, '\n')
	const path = "deploymentconfig.json"
	if *update {
		require.NoError(t, os.WriteFile(path, made, 0o644))
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, made) {
		t.Errorf("%s is stale (%v); run this test with -update", path, err)
	}
}

// schemaMaker makes schemas of Go types, and collects the published schemas that they refer to.
type schemaMaker struct{ published, used map[string]any }

func (g *schemaMaker) schema(of reflect.Type) any {
	switch of.Kind() {
	case reflect.Pointer:
		return g.schema(of.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": g.schema(of.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": g.schema(of.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	}
	return g.reference("io.k8s.api.core.v1." + of.Name())
}

func (g *schemaMaker) reference(name string) any {
	if _, has := g.used[name]; !has {
		g.used[name] = nil
		g.used[name] = g.collect(g.published[name])
	}
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

// collect returns a published schema without descriptions, and collects the schemas that it refers to.
func (g *schemaMaker) collect(published any) any {
	switch value := published.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, field := range value {
			if _, text := field.(string); key == "description" && text {
				continue
			}
			if ref, text := field.(string); key == "$ref" && text {
				g.reference(strings.TrimPrefix(ref, "#/components/schemas/"))
			}
			kept[key] = g.collect(field)
		}
		return kept
	case []any:
		kept := []any{}
		for _, element := range value {
			kept = append(kept, g.collect(element))
		}
		return kept
	}
	return published
}
