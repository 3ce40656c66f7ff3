package bundle

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// loadExamples reads example objects, sorted by file name. The first is the initialization resource, which consoles ask the
// administrator to create once the operator is installed.
func loadExamples(files fs.FS) ([]*unstructured.Unstructured, error) {
	var examples []*unstructured.Unstructured
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		example := &unstructured.Unstructured{}
		if err := boundedyaml.UnmarshalStrict(raw, &example.Object); err != nil {
			return fmt.Errorf("example %s: %w", path, err)
		}
		if example.GetKind() == "" || example.GetName() == "" {
			return fmt.Errorf("example %s: want an object with kind and metadata.name", path)
		}
		examples = append(examples, example)
		return nil
	})
	if err == nil && len(examples) == 0 {
		err = fmt.Errorf("no examples: want at least one, the initialization resource")
	}
	return examples, err
}

// ofOwnAPIs returns the examples of owned kinds. A ClusterServiceVersion may not offer others.
func ofOwnAPIs(examples []*unstructured.Unstructured, owned []v1alpha1.CRDDescription) []*unstructured.Unstructured {
	own := []*unstructured.Unstructured{} // an empty list, not null, if there are none
	for _, example := range examples {
		if owns(owned, example) {
			own = append(own, example)
		}
	}
	return own
}

func owns(owned []v1alpha1.CRDDescription, example *unstructured.Unstructured) bool {
	gvk := example.GroupVersionKind()
	return slices.ContainsFunc(owned, func(api v1alpha1.CRDDescription) bool {
		_, group, _ := strings.Cut(api.Name, ".")
		return group == gvk.Group && api.Version == gvk.Version && api.Kind == gvk.Kind
	})
}

// asJSON encodes a value for an annotation, indented for people who read the file.
func asJSON(value any) (string, error) {
	text, err := json.MarshalIndent(value, "", "  ")
	return string(text), err
}
