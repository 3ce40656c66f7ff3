// Package schemas checks the JSON documents that commands write by their schemas, in docs/schemas.
package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// Folder is where the schemas are, in the project.
const Folder = "docs/schemas"

// root is the project's folder, found before a test can change the working directory.
var root, errRoot = tools.Root()

// Check fails unless a document complies with the schema that it names. Programs that read documents must ignore unknown fields; Check
// refuses them.
func Check(document []byte) error {
	var named struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(document, &named); err != nil {
		return err
	}
	if filepath.Base(named.Schema) != named.Schema {
		return fmt.Errorf("schema is %q, want the name of one in docs/schemas", named.Schema)
	}
	schema, err := compile(named.Schema)
	if err != nil {
		return err
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return err
	}
	return schema.Validate(instance)
}

// compiled are the schemas that were used, by their names. Tests check thousands of documents.
var compiled sync.Map

// compile returns the schema of a name.
func compile(name string) (*jsonschema.Schema, error) {
	if found, ok := compiled.Load(name); ok {
		return found.(*jsonschema.Schema), nil
	}
	if errRoot != nil {
		return nil, errRoot
	}
	text, err := os.ReadFile(filepath.Join(root, Folder, name+".json"))
	if err != nil {
		return nil, err
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	forbidOthers(schema)
	delete(schema.(map[string]any), "$id")
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", schema); err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	result, err := compiler.Compile("schema.json")
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	compiled.Store(name, result)
	return result, nil
}

// forbidOthers makes objects with properties admit no other properties.
func forbidOthers(schema any) {
	switch schema := schema.(type) {
	case map[string]any:
		if properties, is := schema["properties"].(map[string]any); is && schema["type"] == "object" {
			schema["additionalProperties"] = false
			for _, of := range properties {
				forbidOthers(of)
			}
		}
		for key, of := range schema {
			if key != "properties" { // a map of names
				forbidOthers(of)
			}
		}
	case []any:
		for _, of := range schema {
			forbidOthers(of)
		}
	}
}
