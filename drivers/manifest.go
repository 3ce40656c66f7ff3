package drivers

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// NamespacePlaceholder stands for the driver's namespace in assets, retired objects and leftovers.
const NamespacePlaceholder = "${NAMESPACE}"

// Manifest is one object of a driver, rendered from its asset.
type Manifest struct {
	// File is the asset's path in Driver.Assets.
	File string
	// YAML is the rendered document. It may still hold the placeholders that library-go's CSI
	// controllers fill in from the cluster's configuration, such as "${LOG_LEVEL}".
	YAML []byte
	// Object is the decoded document.
	Object *unstructured.Unstructured
}

// Values fill in the placeholders of a driver's assets.
type Values struct {
	// Namespace replaces "${NAMESPACE}": where the driver runs.
	Namespace string
	// Image returns the pull spec for an image's environment variable, or "" if there is none; usually os.Getenv.
	Image func(env string) string
}

// MissingImagesError says which environment variables with images of a driver are not set.
type MissingImagesError struct{ Env []string }

func (e *MissingImagesError) Error() string {
	return fmt.Sprintf("no image given for %s: set the environment variable of that name in the operator's Deployment "+
		"(the bundle's ClusterServiceVersion sets it; a Subscription may override it in spec.config.env)", strings.Join(e.Env, ", "))
}

// Manifests renders all of the driver's assets, sorted by file name. It fails with a MissingImagesError if an image
// is unknown, so that no placeholder ever reaches a cluster as an image.
func (d Driver) Manifests(v Values) ([]Manifest, error) {
	replace := []string{NamespacePlaceholder, v.Namespace}
	var missing []string
	for _, image := range d.Images {
		pullSpec := v.Image(image.Env)
		if pullSpec == "" {
			missing = append(missing, image.Env)
		}
		replace = append(replace, "${"+image.Env+"}", pullSpec)
	}
	if len(missing) > 0 {
		return nil, &MissingImagesError{Env: missing}
	}
	manifests, err := render(d.Assets, strings.NewReplacer(replace...))
	if err != nil {
		return nil, fmt.Errorf("driver %s: %w", d.Name, err)
	}
	if len(manifests) == 0 {
		return nil, fmt.Errorf("driver %s has no assets", d.Name)
	}
	return manifests, nil
}

// render replaces placeholders in all files and decodes the object in each.
func render(files fs.FS, placeholders *strings.Replacer) ([]Manifest, error) {
	var manifests []Manifest
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		rendered := []byte(placeholders.Replace(string(raw)))
		object, err := decode(rendered)
		if err != nil {
			return fmt.Errorf("asset %s: %w", path, err)
		}
		manifests = append(manifests, Manifest{File: path, YAML: rendered, Object: object})
		return nil
	})
	return manifests, err
}

// decode returns the only object in a file.
func decode(file []byte) (*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	documents, err := boundedyaml.Split(file)
	if err != nil {
		return nil, err
	}
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		if err := boundedyaml.UnmarshalStrict(document, &object.Object); err != nil {
			return nil, err
		}
		if object.Object != nil { // not just comments
			found = append(found, object)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("holds %d objects, want one: each object has a file of its own", len(found))
	}
	if kind, name := found[0].GetKind(), found[0].GetName(); kind == "" || name == "" {
		return nil, fmt.Errorf("has kind %q and metadata.name %q, want both", kind, name)
	}
	return found[0], nil
}

// Operand renders the objects of the driver itself: all assets except CustomResourceDefinitions. OLM installs those
// with the operator, and they stay when the driver is removed. Operand fails for the same reasons as Manifests.
func (d Driver) Operand(v Values) ([]Manifest, error) {
	manifests, err := d.Manifests(v)
	return slices.DeleteFunc(manifests, func(m Manifest) bool { return m.Object.GetKind() == "CustomResourceDefinition" }), err
}

// OfKind returns the manifests of a kind.
func OfKind(manifests []Manifest, kind string) []Manifest {
	var found []Manifest
	for _, m := range manifests {
		if m.Object.GetKind() == kind {
			found = append(found, m)
		}
	}
	return found
}

// Is reports whether a manifest has a kind and name.
func (m Manifest) Is(kind, name string) bool {
	return m.Object.GetKind() == kind && m.Object.GetName() == name
}

// Named returns the manifests with a kind and name.
func Named(manifests []Manifest, kind, name string) []Manifest {
	return slices.DeleteFunc(slices.Clone(manifests), func(m Manifest) bool { return !m.Is(kind, name) })
}

var placeholder = regexp.MustCompile(`\$\{[A-Z][A-Z0-9_]*\}`)

// CheckRendered fails if a document still contains a placeholder. Such a document must not reach a cluster.
func CheckRendered(document []byte) error {
	if left := placeholder.Find(document); left != nil {
		return fmt.Errorf("placeholder %s was not filled in: %w", left, errUnrendered)
	}
	return nil
}

var errUnrendered = errors.New("the operator has no value for it")

// ServedAPIs returns the names of the CustomResourceDefinitions in the driver's bundle: the APIs that the operator
// serves in addition to the driver.
func (d Driver) ServedAPIs() ([]string, error) {
	manifests, err := d.unrendered()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range OfKind(manifests, "CustomResourceDefinition") {
		names = append(names, m.Object.GetName())
	}
	return names, nil
}
