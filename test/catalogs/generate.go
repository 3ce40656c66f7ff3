package catalogs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
)

// Kind is the size and form of a large catalog.
type Kind struct {
	// Name is the name of the kind in reports.
	Name string
	// Packages and Bundles are the numbers of packages and bundles.
	Packages, Bundles int
	// YAML says that the catalog is YAML and not JSON.
	YAML bool
	// Inline says that bundles carry their objects and not a description of their ClusterServiceVersion.
	Inline bool
}

// The kinds of public catalogs: with objects, as in the past; with descriptions in place of objects; and as a community keeps a catalog in
// its repository.
var (
	Objects   = Kind{Name: "objects", Packages: 150, Bundles: 1500, Inline: true}
	Metadata  = Kind{Name: "metadata", Packages: 330, Bundles: 7000}
	Community = Kind{Name: "community", Packages: 40, Bundles: 1700, YAML: true}
)

// Kinds lists all kinds.
var Kinds = []Kind{Objects, Metadata, Community}

// Generate writes a large catalog into a folder, with a folder for each package. It always writes the same bytes.
func Generate(dir string, kind Kind) error {
	left := kind.Bundles
	for i := range kind.Packages {
		// Most packages have few bundles, some have very many.
		share := left / (kind.Packages - i)
		bundles := max(1, share/2)
		if i%7 == 6 || i == kind.Packages-1 {
			bundles = min(left-(kind.Packages-i-1), 4*share)
		}
		if i == kind.Packages-1 {
			bundles = left
		}
		left -= bundles
		g := generator{Rand: rand.New(rand.NewPCG(uint64(i), uint64(kind.Bundles))), name: fmt.Sprintf("%s-operator-%d", words[i%len(words)], i)}
		if err := g.write(dir, kind, bundles); err != nil {
			return err
		}
	}
	return nil
}

// generator makes one package.
type generator struct {
	*rand.Rand
	name string
	// deeper is the number of levels that the schemas of CRDs have beyond most operators'. Each level multiplies the size
	// by five.
	deeper int
}

func (g *generator) write(dir string, kind Kind, bundles int) error {
	extension, write := ".json", declcfg.WriteJSON
	if kind.YAML {
		extension, write = ".yaml", declcfg.WriteYAML
	}
	path := filepath.Join(dir, g.name, "catalog"+extension)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	// One bundle at a time: a large package does not have to fit into memory.
	for _, part := range g.parts(kind, bundles) {
		if err := write(part(), file); err != nil {
			return err
		}
	}
	return file.Close()
}

// parts returns the documents of the package, in the order of a rendered catalog.
func (g *generator) parts(kind Kind, bundles int) []func() declcfg.DeclarativeConfig {
	versions := make([]semver.Version, bundles)
	for i := range versions {
		versions[i] = semver.Version{Major: uint64(i / 40), Minor: uint64(i / 8 % 5), Patch: uint64(i % 8)}
	}
	csv := g.csv()
	crds := g.crds(csv.Spec.CustomResourceDefinitions.Owned)
	parts := []func() declcfg.DeclarativeConfig{func() declcfg.DeclarativeConfig { return g.head(versions) }}
	for _, version := range versions {
		parts = append(parts, func() declcfg.DeclarativeConfig {
			return declcfg.DeclarativeConfig{Bundles: []declcfg.Bundle{g.bundle(kind, csv, crds, version)}}
		})
	}
	return parts
}

func (g *generator) bundleName(v semver.Version) string { return g.name + ".v" + v.String() }

// head returns the package itself and its channels: one channel with all versions, and one for each major version.
func (g *generator) head(versions []semver.Version) declcfg.DeclarativeConfig {
	icon := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><title>%s</title>%s</svg>`, g.name,
		strings.Repeat(`<path d="M12.5 3.25c4 0 7.5 3.5 7.5 7.5z" fill="#204060"/>`, 20+g.IntN(160)))
	config := declcfg.DeclarativeConfig{Packages: []declcfg.Package{{
		Schema: declcfg.SchemaPackage, Name: g.name, DefaultChannel: "stable",
		Icon: &declcfg.Icon{Data: []byte(icon), MediaType: "image/svg+xml"}, Description: g.markdown(300),
	}}}
	stable := declcfg.Channel{Schema: declcfg.SchemaChannel, Package: g.name, Name: "stable"}
	byMajor := map[uint64]*declcfg.Channel{}
	for i, v := range versions {
		e := declcfg.ChannelEntry{Name: g.bundleName(v)}
		major := byMajor[v.Major]
		if major == nil {
			major = &declcfg.Channel{Schema: declcfg.SchemaChannel, Package: g.name, Name: fmt.Sprintf("stable-v%d", v.Major)}
			byMajor[v.Major] = major
		}
		if i > 0 {
			e.Replaces = g.bundleName(versions[i-1])
		}
		stable.Entries = append(stable.Entries, e)
		if v.Patch == 7 { // it skips the earlier patches, so they are no longer part of the chain
			e.SkipRange = fmt.Sprintf(">=%d.%d.0 <%s", v.Major, v.Minor, v)
		}
		major.Entries = append(major.Entries, e)
	}
	config.Channels = append(config.Channels, stable)
	for major := range uint64(len(byMajor)) {
		config.Channels = append(config.Channels, *byMajor[major])
	}
	if g.IntN(4) == 0 {
		config.Deprecations = []declcfg.Deprecation{{Schema: declcfg.SchemaDeprecation, Package: g.name, Entries: []declcfg.DeprecationEntry{
			{Reference: declcfg.PackageScopedReference{Schema: declcfg.SchemaBundle, Name: g.bundleName(versions[0])}, Message: g.sentence(12)},
		}}}
	}
	return config
}

func (g *generator) bundle(kind Kind, csv *v1alpha1.ClusterServiceVersion, crds []map[string]any, v semver.Version) declcfg.Bundle {
	csv.Name = g.bundleName(v)
	csv.Spec.Version.Version = v
	csv.Spec.RelatedImages = nil
	b := declcfg.Bundle{Schema: declcfg.SchemaBundle, Package: g.name, Name: csv.Name, Image: g.image(g.name + "-bundle")}
	for _, crd := range csv.Spec.CustomResourceDefinitions.Owned {
		_, group, _ := strings.Cut(crd.Name, ".")
		b.Properties = append(b.Properties, property.MustBuild(&property.GVK{Group: group, Version: crd.Version, Kind: crd.Kind}))
	}
	b.Properties = append(b.Properties, property.MustBuildPackage(g.name, v.String()))
	for i := range 6 {
		image := v1alpha1.RelatedImage{Name: fmt.Sprintf("%s-%d", words[i], i), Image: g.image(words[i])}
		csv.Spec.RelatedImages = append(csv.Spec.RelatedImages, image)
		b.RelatedImages = append(b.RelatedImages, declcfg.RelatedImage{Name: image.Name, Image: image.Image})
	}
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image = csv.Spec.RelatedImages[0].Image
	if !kind.Inline {
		b.Properties = append(b.Properties, property.MustBuildCSVMetadata(*csv))
		return b
	}
	b.Properties = append(b.Properties, bundleObject(csv))
	for _, crd := range crds {
		b.Properties = append(b.Properties, bundleObject(crd))
	}
	return b
}

func bundleObject(object any) property.Property {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err) // the input is ours
	}
	return property.MustBuildBundleObject(data)
}

// image returns a pull spec by digest.
func (g *generator) image(repository string) string {
	return fmt.Sprintf("registry.example.com/%s/%s@sha256:%016x%016x%016x%016x", g.name, repository, g.Uint64(), g.Uint64(), g.Uint64(), g.Uint64())
}

var words = strings.Fields(`storage volume cluster driver claim access point mount node secret provider region zone backup restore
snapshot tenant gateway message broker stream search index table replica shard leader metric alert trace event policy
network route certificate registry pipeline build image runner schedule job queue worker cache session token identity
model training inference dataset feature notebook sensor device edge fleet update channel catalog bundle operator`)

func (g *generator) word() string { return words[g.IntN(len(words))] }

// sentence returns n words with punctuation, quotes and links as in descriptions.
func (g *generator) sentence(n int) string {
	var text strings.Builder
	for i := range n {
		if i > 0 {
			text.WriteString([]string{" ", " ", " ", " ", " ", ", ", " - ", " `", "` ", ": "}[g.IntN(10)])
		}
		text.WriteString(g.word())
	}
	return text.String() + "."
}

// markdown returns a text of about n words.
func (g *generator) markdown(n int) string {
	var text strings.Builder
	for n > 0 {
		switch g.IntN(6) {
		case 0:
			fmt.Fprintf(&text, "## %s\n\n", g.sentence(4))
		case 1:
			fmt.Fprintf(&text, "* **%s**: [%s](https://example.com/%s?a=b&c=<d>)\n", g.word(), g.word(), g.word())
		case 2:
			fmt.Fprintf(&text, "```\noc get %s -n %s # \"%s\"\n```\n", g.word(), g.word(), g.word())
		default:
			text.WriteString(g.sentence(20) + "\n")
			n -= 15
		}
		n -= 5
	}
	return text.String()
}
