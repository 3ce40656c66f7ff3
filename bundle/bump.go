package bundle

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/boundedyaml"
)

// Bump returns the next bundle after an earlier one. It has the next z-version, which updates all earlier z-versions of its minor
// version, and the images that opts names. Other images come from the earlier bundle, and everything else from the driver's current
// definition. Bump returns nil if nothing has changed.
//
// It uses only Images, Pinned and Released of opts.
func Bump(earlier *registryv1.Bundle, d drivers.Driver, opts Options) (*registryv1.Bundle, error) {
	was, err := optionsOf(earlier, d)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", earlier.Name, err)
	}
	same := was
	same.Images = maps.Clone(was.Images)
	maps.Copy(same.Images, opts.Images)
	again, err := Generate(d, same)
	if err != nil {
		return nil, err
	}
	if len(Diff(earlier, again)) == 0 {
		return nil, nil
	}
	following := Options{Version: next(was.Version), Replaces: earlier.Name, Images: same.Images, Pinned: opts.Pinned, Released: opts.Released}
	if skipRange(d, following) == "" { // the package updates no other versions
		following.SkipRange = fmt.Sprintf(">=%d.%d.0 <%s", following.Version.Major, following.Version.Minor, following.Version)
	}
	return Generate(d, following)
}

// next returns the release of a prerelease, or the next patch version of a release.
func next(version semver.Version) semver.Version {
	if len(version.Pre) == 0 {
		version.Patch++
	}
	version.Pre, version.Build = nil, nil
	return version
}

// optionsOf returns the options that generate a bundle of the driver again.
func optionsOf(b *registryv1.Bundle, d drivers.Driver) (Options, error) {
	csv := &v1alpha1.ClusterServiceVersion{}
	if err := boundedyaml.Unmarshal(b.File(csvPath(b)), csv); err != nil {
		return Options{}, err
	}
	if b.Package != d.Package.Name || csv.Name == "" {
		return Options{}, fmt.Errorf("its package is %s, and it was not generated from driver %s", b.Package, d.Name)
	}
	opts := Options{Version: csv.Spec.Version.Version, Replaces: csv.Spec.Replaces, SkipRange: csv.Annotations[skipRangeAnnotation], Images: map[string]string{}}
	if created := csv.Annotations[createdAtAnnotation]; created != "" {
		released, err := time.Parse(time.RFC3339, created)
		if err != nil {
			return Options{}, fmt.Errorf("annotation %s: %w", createdAtAnnotation, err)
		}
		opts.Released = released
	}
	known := map[string]bool{}
	for _, image := range d.Images {
		known[image.Env] = true
	}
	for _, deployment := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		for _, container := range deployment.Spec.Template.Spec.Containers {
			opts.Images[OperatorImage] = container.Image
			for _, env := range container.Env {
				if known[env.Name] {
					opts.Images[env.Name] = env.Value
				}
			}
		}
	}
	return opts, nil
}

// References returns the references under which registries have the latest builds of a bundle's images, by the names in Options.Images:
// the pull spec in the bundle or, if that is a digest, the pull spec in the driver's definition.
func References(earlier *registryv1.Bundle, d drivers.Driver) (map[string]string, error) {
	was, err := optionsOf(earlier, d)
	if err != nil {
		return nil, fmt.Errorf("bundle %s: %w", earlier.Name, err)
	}
	references := map[string]string{OperatorImage: d.Operator.Image}
	for _, image := range d.Images {
		references[image.Env] = image.Default
	}
	for name := range references {
		if spec := was.Images[name]; spec != "" && !strings.Contains(spec, "@") {
			references[name] = spec
		}
	}
	return references, nil
}

// Diff returns the differences between the files of two bundles in the unified format, or "".
func Diff(before, after *registryv1.Bundle) string {
	var text strings.Builder
	paths := map[string]bool{}
	var order []string
	for _, b := range []*registryv1.Bundle{before, after} {
		for _, f := range b.Files {
			if !paths[f.Path] {
				order = append(order, f.Path)
			}
			paths[f.Path] = true
		}
	}
	for _, path := range order {
		text.Write(diff.Diff(before.Name+"/"+path, before.File(path), after.Name+"/"+path, after.File(path)))
	}
	return text.String()
}
