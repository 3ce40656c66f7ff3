package repository

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/blang/semver/v4"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/openshift"
)

// Facts holds the data about a bundle that rules about several bundles need.
type Facts struct {
	// CSVFile and MetadataFile are paths in the bundle. They are empty if the file does not exist.
	CSVFile      string `json:"csvFile"`
	MetadataFile string `json:"metadataFile"`
	// Name is the name of the ClusterServiceVersion, and Version its spec.version.
	Name           string   `json:"name"`
	Version        string   `json:"version"`
	Replaces       string   `json:"replaces"`
	Skips          []string `json:"skips"`
	SkipRange      string   `json:"skipRange"`
	Marketplace    []string `json:"marketplace"` // the values of marketplaceAnnotations
	Package        string   `json:"package"`
	Channels       []string `json:"channels"`
	DefaultChannel string   `json:"defaultChannel"`
	OpenShift      string   `json:"openShift"`
	// OpenShiftGiven says that the annotation exists whose value is in the field OpenShift.
	OpenShiftGiven bool `json:"openShiftGiven"`
}

// bundle is a bundle in a repository.
type bundle struct {
	Facts
	operator, folder string
	err              error           // why it cannot be read
	number           *semver.Version // in the ClusterServiceVersion's name, or nil if there is none
}

// split splits the name of a ClusterServiceVersion into operator and version.
func split(name string) (operator, version string) {
	operator, version, _ = strings.Cut(name, ".")
	return operator, strings.TrimLeft(version, "v")
}

// csvOperator and csvVersion return the parts of the ClusterServiceVersion's name.
func (b *bundle) csvOperator() string { operator, _ := split(b.Name); return operator }
func (b *bundle) csvVersion() string  { _, version := split(b.Name); return version }

// compare orders bundles by version, or by text if one of them has no version.
func (b *bundle) compare(other *bundle) int {
	mine, its := b.number, other.number
	if mine == nil || its == nil {
		return strings.Compare(b.csvVersion(), other.csvVersion())
	}
	return mine.Compare(*its)
}

// versions returns the given versions of OpenShift that the bundle is for. It fails if its annotation is not valid.
func (b *bundle) versions(of []openshift.Version) ([]openshift.Version, error) {
	r, err := openshift.ParseRange(b.OpenShift)
	return r.Of(of), err
}

// value returns the value at a path of keys. Like pipelines and the API server, it respects case.
func value(of any, keys ...string) any {
	for _, key := range keys {
		fields, _ := of.(map[string]any)
		of = fields[key]
	}
	return of
}

// marketplaceAnnotations lead from the console to the marketplace.
var marketplaceAnnotations = []string{"marketplace.openshift.io/remote-workflow", "marketplace.openshift.io/support-workflow"}

// read reads the facts of a bundle's folder.
func read(dir string) (f Facts, err error) {
	manifests, err := os.ReadDir(filepath.Join(dir, registryv1.ManifestsDir))
	if err != nil {
		return f, err
	}
	// Pipelines recognize the file by its name, other tools by its content.
	slices.SortStableFunc(manifests, func(a, b fs.DirEntry) int { return isCSV(b.Name()) - isCSV(a.Name()) })
	for _, entry := range manifests {
		if entry.IsDir() || strings.HasPrefix(entry.Name(), ".") || f.CSVFile != "" {
			continue
		}
		var csv map[string]any
		if err := decode(dir, registryv1.ManifestsDir+"/"+entry.Name(), &csv); err != nil || csv["kind"] != "ClusterServiceVersion" {
			if isCSV(entry.Name()) == 1 && err != nil {
				return f, err
			}
			continue
		}
		f.CSVFile = registryv1.ManifestsDir + "/" + entry.Name()
		f.Name, f.Version, f.Replaces = text(value(csv, "metadata", "name")), text(value(csv, "spec", "version")), text(value(csv, "spec", "replaces"))
		skips, _ := value(csv, "spec", "skips").([]any)
		for _, name := range skips {
			f.Skips = append(f.Skips, text(name))
		}
		f.SkipRange = text(value(csv, "metadata", "annotations", "olm.skipRange"))
		for _, key := range marketplaceAnnotations {
			f.Marketplace = append(f.Marketplace, text(value(csv, "metadata", "annotations", key)))
		}
	}
	if f.CSVFile == "" {
		return f, fmt.Errorf("%s has no ClusterServiceVersion", filepath.Join(dir, registryv1.ManifestsDir))
	}
	for _, name := range []string{"annotations.yaml", "annotations.yml"} {
		var metadata struct {
			Annotations map[string]any `json:"annotations"`
		}
		err := decode(dir, registryv1.MetadataDir+"/"+name, &metadata)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return f, err
		}
		f.MetadataFile = registryv1.MetadataDir + "/" + name
		f.Package = text(metadata.Annotations[registryv1.PackageAnnotation])
		f.DefaultChannel = strings.TrimSpace(text(metadata.Annotations[registryv1.DefaultChannelAnnotation]))
		if channels := text(metadata.Annotations[registryv1.ChannelsAnnotation]); channels != "" {
			for _, channel := range strings.Split(channels, ",") {
				f.Channels = append(f.Channels, strings.TrimSpace(channel))
			}
		}
		var versions any
		versions, f.OpenShiftGiven = metadata.Annotations[openshift.VersionsAnnotation]
		f.OpenShift = text(versions)
		break
	}
	return f, nil
}

// isCSV returns 1 for the names of files that hold ClusterServiceVersions, and 0 for others.
func isCSV(name string) int {
	if strings.HasSuffix(name, ".clusterserviceversion.yaml") || strings.HasSuffix(name, ".clusterserviceversion.yml") {
		return 1
	}
	return 0
}

// text returns a value as text, or "" for nil.
func text(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// decode decodes the document of a file in a folder.
func decode(dir, file string, into any) error {
	d, err := onlyDocument(dir, file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(d.Content, into); err != nil {
		return fmt.Errorf("%s: %w", d.File, err)
	}
	return nil
}

// onlyDocument returns the document of a file in a folder, or an empty document if the file is empty. Its error may be a
// finding.
func onlyDocument(dir, file string) (document.Document, error) {
	data, err := boundedyaml.ReadFileIn(dir, filepath.FromSlash(file))
	if err != nil {
		return document.Document{}, err
	}
	documents, malformed := document.Parse(filepath.Join(dir, filepath.FromSlash(file)), data)
	documents = slices.DeleteFunc(documents, func(d document.Document) bool { return string(d.Content) == "null" }) // for example comments before a separator
	switch {
	case len(malformed) > 0:
		return document.Document{}, malformed[0]
	case len(documents) == 0:
		return document.Document{Span: document.Span{File: filepath.Join(dir, filepath.FromSlash(file)), Line: 1}, Content: []byte("null")}, nil
	case len(documents) > 1:
		return document.Document{}, documents[1].Fault(document.Syntax, "a second document begins here; pipelines read files with one")
	}
	return documents[0], nil
}

// fault returns a finding about the value at a path of keys in a file of a bundle.
func (r *Repository) fault(rule findings.Rule, b *bundle, file string, at []any, format string, args ...any) *findings.Finding {
	return r.reporter(rule, b, file)(at, format, args...)
}

// reporter returns a function like fault, for several findings in a file, which is read once.
func (r *Repository) reporter(rule findings.Rule, b *bundle, file string) func(at []any, format string, args ...any) *findings.Finding {
	dir := r.path(OperatorsDir, b.operator, b.folder)
	positions := sync.OnceValues(func() (func([]any) (line, column int), error) {
		d, err := onlyDocument(dir, file)
		return d.Positions(), err
	})
	return func(at []any, format string, args ...any) *findings.Finding {
		f := rule.Finding(filepath.Join(dir, filepath.FromSlash(file)), format, args...).In(b.operator)
		if file == "" {
			return f
		}
		if position, err := positions(); err == nil {
			f.At(position(at))
		}
		return f
	}
}
