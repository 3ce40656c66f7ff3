// Package imageset reads the configuration files of oc-mirror v2, ImageSetConfiguration and DeleteImageSetConfiguration, as far as
// they are about catalogs of operators and single images.
package imageset

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings/nearest"
)

// Version is the API version of the files that Read takes. Mirror and Delete are their kinds.
const (
	Version = "mirror.openshift.io/v2alpha1"
	Mirror  = "ImageSetConfiguration"
	Delete  = "DeleteImageSetConfiguration"
)

// ImagesName is the name under which single images are mirrored, which no catalog may have.
const ImagesName = "additional-images"

// Set says what to mirror, or what to delete from a mirror.
type Set struct {
	Catalogs []Catalog
	Images   []Image
	// Blocked matches references of images that are left out.
	Blocked []*regexp.Regexp
	// Warnings name the parts of the file that are ignored.
	Warnings []string
}

// Catalog is a catalog and the part of it to mirror.
type Catalog struct {
	mirror.Choice
	Source     string
	Name       string // for objects
	Repository string // below the destination
	Tag        string
	Platforms  []string // empty for all
}

// Image is a single image.
type Image struct {
	Reference string
	Platforms []string // empty for all
}

// file holds the fields of both kinds of files.
type file struct {
	APIVersion  string   `json:"apiVersion"`
	Kind        string   `json:"kind"`
	Metadata    any      `json:"metadata"` // ignored by oc-mirror, too
	ArchiveSize any      `json:"archiveSize"`
	Mirror      *content `json:"mirror"`
	Delete      *content `json:"delete"`
}

type content struct {
	Platform         any        `json:"platform"`
	Operators        []operator `json:"operators"`
	AdditionalImages []single   `json:"additionalImages"`
	Helm             any        `json:"helm"`
	BlockedImages    []blocked  `json:"blockedImages"`
	Samples          any        `json:"samples"`
}

type operator struct {
	Catalog                     string     `json:"catalog"`
	TargetCatalog               string     `json:"targetCatalog"`
	TargetTag                   string     `json:"targetTag"`
	Full                        bool       `json:"full"`
	SkipDependencies            bool       `json:"skipDependencies"`
	TargetCatalogSourceTemplate string     `json:"targetCatalogSourceTemplate"`
	Platforms                   []platform `json:"platforms"`
	Packages                    []pkg      `json:"packages"`
}

type pkg struct {
	Name           string    `json:"name"`
	DefaultChannel string    `json:"defaultChannel"`
	Channels       []channel `json:"channels"`
	versions       `json:",inline"`
}

type channel struct {
	Name     string `json:"name"`
	versions `json:",inline"`
}

type versions struct {
	MinVersion string `json:"minVersion"`
	MaxVersion string `json:"maxVersion"`
}

type single struct {
	Name       string     `json:"name"`
	TargetRepo string     `json:"targetRepo"`
	TargetTag  string     `json:"targetTag"`
	Platforms  []platform `json:"platforms"`
}

type blocked struct {
	Name string `json:"name"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

// Read reads a file of a kind. Its error lists all faults.
func Read(at, kind string) (*Set, error) {
	text, err := boundedyaml.ReadFile(at)
	if err != nil {
		return nil, fmt.Errorf("%w; expected a file of oc-mirror v2, of kind %s", err, kind)
	}
	var f file
	if err := boundedyaml.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if f.APIVersion != Version || f.Kind != kind {
		return nil, fmt.Errorf("%s: its kind is %q and its apiVersion %q; expected %q and %q, which is the version of oc-mirror v2", at, f.Kind, f.APIVersion, kind, Version)
	}
	if err := boundedyaml.UnmarshalStrict(text, &file{}); err != nil {
		return nil, fmt.Errorf("%s: %w; expected only fields of oc-mirror v2", at, err)
	}
	key, of := "mirror", f.Mirror
	if kind == Delete {
		key, of = "delete", f.Delete
	}
	if of == nil {
		return nil, fmt.Errorf("%s: it has no %s; expected %s.operators or %s.additionalImages", at, key, key, key)
	}
	s := &Set{}
	s.warn(f.ArchiveSize != nil, "archiveSize is for archives, and there are none")
	s.warnings(key, of)
	if err := s.translate(key, of); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return s, nil
}

func (s *Set) warn(of bool, format string, args ...any) {
	if of {
		s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
	}
}

// warnings adds a warning for each part of the file that is ignored.
func (s *Set) warnings(key string, of *content) {
	s.warn(of.Platform != nil, "%s.platform is ignored: use oc-mirror for the releases of OpenShift", key)
	s.warn(of.Helm != nil, "%s.helm is ignored: use oc-mirror for Helm charts, or name their images in %s.additionalImages", key, key)
	s.warn(of.Samples != nil, "%s.samples is ignored, as by oc-mirror", key)
	for i, o := range of.Operators {
		at := fmt.Sprintf("%s.operators[%d]", key, i)
		s.warn(o.SkipDependencies, "%s.skipDependencies changes nothing: dependencies are not added, and warnings name those that are missing", at)
		s.warn(o.TargetCatalogSourceTemplate != "", "%s.targetCatalogSourceTemplate is ignored: change the CatalogSource that is written", at)
	}
	for i, image := range of.AdditionalImages {
		at := fmt.Sprintf("%s.additionalImages[%d]", key, i)
		s.warn(image.TargetRepo != "", "%s.targetRepo is ignored: the image is at the place of its registry and repository, which the objects for clusters name", at)
		s.warn(image.TargetTag != "", "%s.targetTag is ignored: the image keeps its tag or digest", at)
	}
}

// translate adds the chosen catalogs and images to the set.
func (s *Set) translate(key string, of *content) error {
	var faults []error
	fault := func(at string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", at, err))
		}
	}
	if len(of.Operators) == 0 && len(of.AdditionalImages) == 0 {
		faults = append(faults, fmt.Errorf("%s names nothing that is handled; expected operators or additionalImages there", key))
	}
	for i, b := range of.BlockedImages {
		at := fmt.Sprintf("%s.blockedImages[%d].name", key, i)
		expression, err := regexp.Compile(b.Name)
		if err == nil && b.Name == "" {
			err = errors.New("is missing; an empty one would block all images")
		}
		fault(at, err)
		s.Blocked = append(s.Blocked, expression)
	}
	for i, o := range of.Operators {
		at := fmt.Sprintf("%s.operators[%d]", key, i)
		c, err := o.catalog()
		fault(at, err)
		if other := slices.IndexFunc(s.Catalogs, func(c2 Catalog) bool { return c2.Name == c.Name }); other >= 0 && err == nil {
			fault(at, fmt.Errorf("its name for clusters would be %q, the same as for %s.operators[%d]; give it another targetCatalog", c.Name, key, other))
		}
		if strings.HasPrefix(c.Name, ImagesName) {
			fault(at, fmt.Errorf("its name would be %q, that of additional images; give it another targetCatalog", c.Name))
		}
		s.Catalogs = append(s.Catalogs, c)
	}
	for i, image := range of.AdditionalImages {
		at := fmt.Sprintf("%s.additionalImages[%d]", key, i)
		if image.Name == "" {
			fault(at, errors.New("its name is missing"))
		}
		platforms, err := platformsOf(image.Platforms)
		fault(at, err)
		s.Images = append(s.Images, Image{image.Name, platforms})
	}
	return errors.Join(faults...)
}

// target matches paths of repositories.
var target = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)

// catalog returns the choice of an entry, as oc-mirror v2 understands it: without full, the heads of channels, or the versions from
// minVersion to maxVersion.
func (o operator) catalog() (Catalog, error) {
	var faults []error
	repository, tag := cut(o.Catalog)
	c := Catalog{Source: o.Catalog, Repository: cmp.Or(o.TargetCatalog, path.Base(repository)), Tag: cmp.Or(o.TargetTag, tag, "latest")}
	c.Name = mirror.NameOf(path.Base(c.Repository))
	c.HeadsOnly, c.DefaultChannels = !o.Full, map[string]string{}
	if o.Catalog == "" {
		faults = append(faults, errors.New("catalog is missing"))
	}
	if o.TargetCatalog == "" {
		c.Repository = c.Name
	} else if first, _, more := strings.Cut(o.TargetCatalog, "/"); !target.MatchString(o.TargetCatalog) || more && strings.ContainsAny(first, "._") {
		faults = append(faults, fmt.Errorf("targetCatalog is %q; expected a path such as team/catalog, without a tag, that does not begin with the name of a registry: images have such places", o.TargetCatalog))
	}
	for i, p := range o.Packages {
		selections, err := p.selections(o.Full)
		if err != nil {
			faults = append(faults, fmt.Errorf("packages[%d] %q: %w", i, p.Name, err))
		}
		c.Selections = append(c.Selections, selections...)
		if p.DefaultChannel != "" {
			c.DefaultChannels[p.Name] = p.DefaultChannel
		}
	}
	platforms, err := platformsOf(o.Platforms)
	c.Platforms = platforms
	return c, errors.Join(append(faults, err)...)
}

// cut returns the parts of a source's name. Folders have no tag.
func cut(name string) (repository, tag string) {
	if folder, is := strings.CutPrefix(name, source.InFolder); is {
		return folder, ""
	}
	repository, _, _ = strings.Cut(strings.TrimPrefix(name, source.InRegistry), "@")
	if colon := strings.LastIndex(repository, ":"); colon > strings.LastIndex(repository, "/") {
		return repository[:colon], repository[colon+1:]
	}
	return repository, ""
}

func (p pkg) selections(full bool) (all []mirror.Selection, err error) {
	if p.Name == "" {
		return nil, errors.New("its name is missing")
	}
	if len(p.Channels) > 0 && p.versions != (versions{}) {
		return nil, errors.New("it has versions and channels; expected the versions in the channels")
	}
	if len(p.Channels) == 0 {
		s, err := p.selection(p.Name, full)
		return []mirror.Selection{s}, err
	}
	for _, c := range p.Channels {
		s, err := c.selection(p.Name+"/"+c.Name, full)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// selection returns the selection of versions of a package or a channel.
func (v versions) selection(of string, full bool) (mirror.Selection, error) {
	if full && v != (versions{}) {
		return mirror.Selection{}, errors.New("it has full and versions; expected one of them")
	}
	for _, version := range []string{v.MinVersion, v.MaxVersion} {
		if _, err := semver.Parse(version); err != nil && version != "" {
			return mirror.Selection{}, fmt.Errorf("%q is not a version such as 1.2.0: %w%s", version, err, nearest.Version(version))
		}
	}
	switch {
	case full:
		return mirror.ParseSelection(of)
	case v == versions{}:
		return mirror.ParseSelection(of + "@head")
	case v.MinVersion == v.MaxVersion:
		return mirror.ParseSelection(of + "@" + v.MinVersion)
	case v.MinVersion == "":
		return mirror.ParseSelection(of + "@<=" + v.MaxVersion)
	case v.MaxVersion == "":
		return mirror.ParseSelection(of + "@>=" + v.MinVersion)
	}
	return mirror.ParseSelection(of + "@>=" + v.MinVersion + " <=" + v.MaxVersion)
}

func platformsOf(list []platform) (all []string, err error) {
	for _, p := range list {
		if p.OS == "" || p.Architecture == "" {
			return nil, fmt.Errorf("a platform has os %q and architecture %q; expected both, such as linux and amd64", p.OS, p.Architecture)
		}
		all = append(all, p.OS+"/"+p.Architecture)
	}
	return all, nil
}

// Images are single images for the same platforms.
type Images struct {
	Name       string // of the objects for clusters
	References []string
	Platforms  []string
}

// ImagesByPlatforms returns the single images by their platforms.
func (s *Set) ImagesByPlatforms() (groups []Images) {
	for _, image := range s.Images {
		at := slices.IndexFunc(groups, func(g Images) bool { return slices.Equal(g.Platforms, image.Platforms) })
		if at < 0 {
			name := ImagesName
			if len(image.Platforms) > 0 {
				name += "-" + mirror.NameOf(strings.NewReplacer("/", "-").Replace(strings.Join(image.Platforms, "-")))
			}
			at, groups = len(groups), append(groups, Images{Name: name, Platforms: image.Platforms})
		}
		groups[at].References = append(groups[at].References, image.Reference)
	}
	return groups
}
