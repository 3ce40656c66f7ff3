package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings/nearest"
)

// Follow returns the next bundle after an earlier one, of any operator. It has the next z-version, which replaces the earlier version,
// and the given images, named as in ImagesOf. Nothing else in the files changes, not even comments or formatting. Follow returns nil if
// no image changes.
func Follow(earlier *registryv1.Contents, images map[string]string, pinned bool) (*registryv1.Bundle, error) {
	replaced, err := replacements(earlier, images)
	if err != nil || len(replaced) == 0 {
		return nil, err
	}
	csv, err := decodedCSV(earlier)
	if err != nil {
		return nil, err
	}
	version := csv.Spec.Version.Version
	following := next(version)
	b := &registryv1.Bundle{Package: earlier.Package, Name: strings.Replace(earlier.Name, version.String(), following.String(), 1)}
	if b.Name == earlier.Name {
		return nil, fmt.Errorf("bundle %s: its name does not contain its version %s, so the next bundle cannot be named; expected %s.v%[2]s", earlier.Name, version, earlier.Package)
	}
	for _, f := range earlier.Files {
		if f.Path == pathOfCSV(earlier) {
			if f.Data, err = nextVersion(f.Data, csv, b.Name, version, following); err != nil {
				return nil, fmt.Errorf("%s: %w; change it by hand", earlier.CSV.File, err)
			}
		}
		if strings.HasPrefix(f.Path, registryv1.ManifestsDir+"/") {
			f.Data = replaceImages(f.Data, replaced)
		}
		b.Files = append(b.Files, f)
	}
	return b, checkFollowing(b, pinned)
}

// checkFollowing checks that a bundle can be read and, if pinned, that it names all images by digest.
func checkFollowing(b *registryv1.Bundle, pinned bool) error {
	files := map[string][]byte{}
	for _, f := range b.Files {
		files[f.Path] = f.Data
	}
	contents, err := registryv1.LoadImage("the next version", files)
	if err != nil {
		return err
	}
	if contents.Name != b.Name {
		return fmt.Errorf("the next version is called %s; expected %s", contents.Name, b.Name)
	}
	all, err := ImagesOf(contents)
	if err != nil || !pinned {
		return err
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.Contains(all[name], "@") {
			faults = append(faults, fmt.Errorf("image %s is %s; expected it by digest", name, all[name]))
		}
	}
	return errors.Join(faults...)
}

// relatedImage is the prefix of environment variables that name images to operators.
const relatedImage = "RELATED_IMAGE_"

// ImagesOf returns the images of a bundle by their names: those in spec.relatedImages of its ClusterServiceVersion, the environment
// variables RELATED_IMAGE_… of its Deployments, and the names of their containers. It leaves out names that several images share.
func ImagesOf(b *registryv1.Contents) (map[string]string, error) {
	csv, err := decodedCSV(b)
	if err != nil {
		return nil, err
	}
	all, several := map[string]string{}, map[string]bool{}
	add := func(name, image string) {
		several[name] = several[name] || all[name] != "" && all[name] != image
		if name != "" && image != "" {
			all[name] = image
		}
	}
	for _, image := range csv.Spec.RelatedImages {
		add(image.Name, image.Image)
	}
	for _, deployment := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		pod := deployment.Spec.Template.Spec
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			add(container.Name, container.Image)
			for _, env := range container.Env {
				if strings.HasPrefix(env.Name, relatedImage) {
					add(env.Name, env.Value)
				}
			}
		}
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return several[name] })
	return all, nil
}

// replacements returns the new pull specs of a bundle by its old ones.
func replacements(b *registryv1.Contents, images map[string]string) (map[string]string, error) {
	known, err := ImagesOf(b)
	if err != nil {
		return nil, err
	}
	replaced := map[string]string{}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(images)) {
		old, is := known[name]
		switch again, twice := replaced[old]; {
		case !is:
			names := slices.Sorted(maps.Keys(known))
			faults = append(faults, fmt.Errorf("bundle %s has no image %s; expected one of %s%s", b.Name, name, strings.Join(names, ", "), nearest.Hint(name, names)))
		case twice && again != images[name]:
			faults = append(faults, fmt.Errorf("image %s is the same as another one, %s, which becomes %s; expected one pull spec for both", name, old, again))
		default:
			replaced[old] = images[name]
		}
	}
	maps.DeleteFunc(replaced, func(old, new string) bool { return old == new })
	return replaced, errors.Join(faults...)
}

// replaceImages returns a text with other pull specs. It keeps longer pull specs that only contain a replaced one.
func replaceImages(text []byte, replaced map[string]string) []byte {
	for _, old := range slices.Sorted(maps.Keys(replaced)) {
		var out []byte
		for rest := text; ; {
			before, after, found := bytes.Cut(rest, []byte(old))
			out = append(out, before...)
			if !found {
				break
			}
			if isWhole(out, after) {
				out = append(out, replaced[old]...)
			} else {
				out = append(out, old...)
			}
			rest = after
		}
		text = out
	}
	return text
}

// isWhole reports whether a match is a whole pull spec, not a part of a longer one.
func isWhole(before, after []byte) bool {
	part := func(c byte) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_./:@", c) >= 0
	}
	return (len(before) == 0 || !part(before[len(before)-1])) && (len(after) == 0 || !part(after[0]))
}

func decodedCSV(b *registryv1.Contents) (*v1alpha1.ClusterServiceVersion, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := json.Unmarshal(b.CSV.Content, csv); err != nil {
		return nil, fmt.Errorf("%s: %w", b.CSV.File, err)
	}
	return csv, nil
}

// pathOfCSV returns the path of the ClusterServiceVersion in a bundle.
func pathOfCSV(b *registryv1.Contents) string {
	for _, object := range b.Objects {
		if object.GetKind() == v1alpha1.ClusterServiceVersionKind {
			return object.File
		}
	}
	return ""
}

// nextVersion returns the text of a ClusterServiceVersion with the next version.
func nextVersion(text []byte, csv *v1alpha1.ClusterServiceVersion, name string, was, is semver.Version) ([]byte, error) {
	root, err := boundedyaml.Parse(text)
	if err != nil {
		return nil, err
	}
	e := &edits{text: text, root: &root}
	e.set(csv.Name, name, "metadata", "name")
	e.set(was.String(), is.String(), "spec", "version")
	if skipped := csv.Annotations[skipRangeAnnotation]; strings.HasSuffix(skipped, "<"+was.String()) {
		e.set(skipped, strings.TrimSuffix(skipped, was.String())+is.String(), "metadata", "annotations", skipRangeAnnotation)
	}
	if csv.Spec.Replaces != "" {
		e.set(csv.Spec.Replaces, csv.Name, "spec", "replaces")
	} else {
		e.insertAfter("replaces: "+csv.Name, "spec", "version")
	}
	return e.apply()
}

// edits are changes of a text in YAML.
type edits struct {
	text   []byte
	root   *boundedyaml.Node
	all    []edit
	faults []error
}

// edit replaces some bytes of the text from an offset on.
type edit struct {
	offset, length int
	text           string
}

// find returns the key and the value at a path.
func (e *edits) find(path []string) (key, value *boundedyaml.Node) {
	value = e.root
	for _, step := range path {
		mapping := value
		key, value = nil, nil
		for i := 0; mapping != nil && mapping.Kind == boundedyaml.MappingNode && i+1 < len(mapping.Content); i += 2 {
			if mapping.Content[i].Value == step {
				key, value = mapping.Content[i], mapping.Content[i+1]
			}
		}
	}
	return key, value
}

// set replaces the value at a path. Apart from quotes, the text at that path must be the same as was.
func (e *edits) set(was, is string, path ...string) {
	_, value := e.find(path)
	if value == nil || was == "" {
		e.faults = append(e.faults, fmt.Errorf("%s is missing", strings.Join(path, ".")))
		return
	}
	offset := boundedyaml.Offset(e.text, value.Line, value.Column)
	if offset < len(e.text) && (e.text[offset] == '"' || e.text[offset] == '\'') {
		offset++
	}
	if !bytes.HasPrefix(e.text[offset:], []byte(was)) {
		e.faults = append(e.faults, fmt.Errorf("line %d: %s is not written as %s", value.Line, strings.Join(path, "."), was))
		return
	}
	e.all = append(e.all, edit{offset, len(was), is})
}

// insertAfter inserts a line after the line of the value at a path, in block style.
func (e *edits) insertAfter(line string, path ...string) {
	key, value := e.find(path)
	if key == nil {
		return // set reports it
	}
	begin := boundedyaml.Offset(e.text, key.Line, 1)
	indent := e.text[begin:boundedyaml.Offset(e.text, key.Line, key.Column)]
	end := bytes.IndexByte(e.text[begin:], '\n')
	if len(bytes.TrimSpace(indent)) > 0 || value.Line != key.Line || end < 0 {
		e.faults = append(e.faults, fmt.Errorf("line %d: nothing can be inserted after %s", key.Line, strings.Join(path, ".")))
		return
	}
	e.all = append(e.all, edit{begin + end + 1, 0, string(indent) + line + "\n"})
}

// apply returns the changed text.
func (e *edits) apply() ([]byte, error) {
	if len(e.faults) > 0 {
		return nil, errors.Join(e.faults...)
	}
	slices.SortFunc(e.all, func(a, b edit) int { return b.offset - a.offset })
	text := slices.Clone(e.text)
	for _, change := range e.all {
		text = slices.Concat(text[:change.offset], []byte(change.text), text[change.offset+change.length:])
	}
	return text, nil
}
