package bundle

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/internal/boundedyaml"
)

// PullSpecs returns the images that a cluster pulls because of a bundle, sorted.
func PullSpecs(b *registryv1.Bundle) ([]string, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := boundedyaml.Unmarshal(b.File(csvPath(b)), csv); err != nil {
		return nil, fmt.Errorf("bundle %s: %s: %w", b.Name, csvPath(b), err)
	}
	var specs []string
	for _, image := range csv.Spec.RelatedImages {
		specs = append(specs, image.Image)
	}
	slices.Sort(specs)
	return slices.Compact(specs), nil
}

// Pin returns the bundle with other pull specs, such as digests, and no other change. pins must have a value for each of
// PullSpecs.
func Pin(b *registryv1.Bundle, pins map[string]string) (*registryv1.Bundle, error) {
	specs, err := PullSpecs(b)
	if err != nil {
		return nil, err
	}
	for _, spec := range specs {
		if pins[spec] == "" {
			return nil, fmt.Errorf("bundle %s: nothing says what to pin image %s to", b.Name, spec)
		}
	}
	pinned := &registryv1.Bundle{Package: b.Package, Name: b.Name, Files: slices.Clone(b.Files)}
	at := slices.IndexFunc(pinned.Files, func(f registryv1.File) bool { return f.Path == csvPath(b) })
	pinned.Files[at].Data, err = pinYAML(pinned.Files[at].Data, pins)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %s: %w", b.Name, csvPath(b), err)
	}
	return pinned, nil
}

// csvPath returns the path to which Generate writes the ClusterServiceVersion.
func csvPath(b *registryv1.Bundle) string {
	return registryv1.ManifestsDir + "/" + b.Package + ".clusterserviceversion.yaml"
}

// pinYAML replaces each value of a YAML file that is a pull spec. If the first line is a comment, it stays.
func pinYAML(file []byte, pins map[string]string) ([]byte, error) {
	var header []byte
	if line, _, found := bytes.Cut(file, []byte("\n")); found && bytes.HasPrefix(line, []byte("#")) {
		header = append(slices.Clone(line), '\n')
	}
	var object map[string]any
	if err := boundedyaml.Unmarshal(file, &object); err != nil {
		return nil, err
	}
	pinned, err := boundedyaml.Marshal(pinValues(object, pins))
	return append(header, pinned...), err
}

func pinValues(value any, pins map[string]string) any {
	switch v := value.(type) {
	case string:
		if pin, found := pins[v]; found {
			return pin
		}
	case []any:
		for i := range v {
			v[i] = pinValues(v[i], pins)
		}
	case map[string]any:
		for key := range v {
			v[key] = pinValues(v[key], pins)
		}
	}
	return value
}
