package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/yaml"
)

// Load reads a bundle folder. It fails if the folder does not have the shape of a bundle: manifests
// with exactly one ClusterServiceVersion, and metadata that names the package. Whether the content is
// right, package rules says.
func Load(dir string) (*Bundle, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("bundle folder: %w", err)
	}
	b := &Bundle{}
	for _, part := range []string{ManifestsDir, MetadataDir} {
		files, err := ReadFiles(dir, part)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, notABundle(dir, "it has no folder "+part)
		}
		if err != nil {
			return nil, fmt.Errorf("bundle folder %s: %w", dir, err)
		}
		b.Files = append(b.Files, files...)
	}
	// A bundle needs its Dockerfile only to be built into an image.
	if data, err := yaml.ReadFileIn(dir, DockerfilePath); err == nil {
		b.Files = append([]File{{Path: DockerfilePath, Data: data}}, b.Files...)
	}

	objects, err := b.Objects()
	if err != nil {
		return nil, fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	if b.Name, err = onlyCSV(objects); err != nil {
		return nil, notABundle(dir, err.Error())
	}
	if b.Package, err = packageName(b.File(AnnotationsPath)); err != nil {
		return nil, notABundle(dir, err.Error())
	}
	return b, nil
}

func notABundle(dir, found string) error {
	hint := ""
	if nested, _ := filepath.Glob(filepath.Join(dir, "*", ManifestsDir)); len(nested) > 0 {
		hint = "; there is a bundle in " + filepath.Dir(nested[len(nested)-1])
	}
	return fmt.Errorf("%s is not a bundle folder: %s; expected %s/ with exactly one ClusterServiceVersion, "+
		"and %s with the package's name%s", dir, found, ManifestsDir, AnnotationsPath, hint)
}

// ReadFiles returns the files of one folder of a bundle, sorted by name, without hidden ones.
func ReadFiles(dir, part string) ([]File, error) {
	entries, err := os.ReadDir(filepath.Join(dir, part))
	if err != nil {
		return nil, err
	}
	var files []File
	for _, entry := range entries {
		if entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		data, err := yaml.ReadFileIn(dir, filepath.Join(part, entry.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, File{Path: path.Join(part, entry.Name()), Data: data})
	}
	return files, nil
}

// Object is one object of a bundle.
type Object struct {
	*unstructured.Unstructured
	File string // that it stands in, by its path in the bundle
}

// Objects decodes the bundle's manifests.
func (b *Bundle) Objects() ([]Object, error) {
	var objects []Object
	for _, f := range b.manifests() {
		o := Object{Unstructured: &unstructured.Unstructured{}, File: f.Path}
		if err := yaml.Unmarshal(f.Data, &o.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// onlyCSV returns the name of the one ClusterServiceVersion among objects.
func onlyCSV(objects []Object) (string, error) {
	var name string
	var csvs, others []string
	for _, o := range objects {
		if o.GetKind() != v1alpha1.ClusterServiceVersionKind {
			others = append(others, fmt.Sprintf("%s (%s)", o.File, o.GetKind()))
			continue
		}
		name = o.GetName()
		csvs = append(csvs, o.File)
	}
	switch len(csvs) {
	case 0:
		if len(others) == 0 {
			return "", fmt.Errorf("its folder %s is empty", ManifestsDir)
		}
		return "", fmt.Errorf("it has no ClusterServiceVersion, only %s", strings.Join(others, ", "))
	case 1:
		return name, nil
	}
	return "", fmt.Errorf("it has %d ClusterServiceVersions: %s", len(csvs), strings.Join(csvs, ", "))
}

func packageName(annotations []byte) (string, error) {
	if annotations == nil {
		return "", fmt.Errorf("it has no %s", AnnotationsPath)
	}
	var file manifests.AnnotationsFile
	if err := yaml.Unmarshal(annotations, &file); err != nil {
		return "", fmt.Errorf("%s: %w", AnnotationsPath, err)
	}
	if file.Annotations.PackageName == "" {
		return "", fmt.Errorf("%s has no annotation %s", AnnotationsPath, packageAnnotation)
	}
	return file.Annotations.PackageName, nil
}
