package graph

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/lifecycle"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// version holds the details of a version on the page, from the ClusterServiceVersion, as OperatorHub shows them. The
// page's script uses the JSON names of the fields.
type version struct {
	Name        printable `json:"name"`
	Version     printable `json:"version"`
	Display     printable `json:"display,omitempty"`
	Provider    printable `json:"provider,omitempty"`
	Icon        int       `json:"icon"`        // index in texts, of a data URL
	Description int       `json:"description"` // index in texts, of Markdown
	Deprecated  printable `json:"deprecated,omitempty"`
	Bundle      printable `json:"bundle,omitempty"` // the image
	// Facts are single values, and Lists have several.
	Facts []fact `json:"facts,omitempty"`
	Lists []list `json:"lists,omitempty"`
	// Unknown names the details that the catalog lacks.
	Unknown printable `json:"unknown,omitempty"`
}

type fact struct {
	Title string    `json:"title"`
	Text  printable `json:"text"`
}

type list struct {
	Title string      `json:"title"`
	Items []printable `json:"items"`
}

// texts holds each long text once, even if many versions share it.
type texts struct {
	all   []prose
	index map[prose]int
}

// add adds a text unless it is there, and returns its index.
func (t *texts) add(text prose) int {
	n, found := t.index[text]
	if !found {
		n = len(t.all)
		t.index[text] = n
		t.all = append(t.all, text)
	}
	return n
}

// describeAll returns the details of the versions of a package, the latest first.
func (t *texts) describeAll(p *Package) ([]*version, error) {
	icon := ""
	if of := p.source.Icon; of != nil && len(of.Data) > 0 {
		icon = dataURL(of.MediaType, base64.StdEncoding.EncodeToString(of.Data))
	}
	supported, err := p.source.Lifecycle()
	if err != nil {
		return nil, err
	}
	common := version{Display: printable(p.Name), Icon: t.add(prose(icon)), Description: t.add(prose(p.source.Description))}
	all := []*version{} // not null
	for _, b := range slices.SortedStableFunc(slices.Values(p.source.Bundles), func(a, b *fbc.Bundle) int { return laterFirst(a.Number(), b.Number()) }) {
		v := common
		v.Name, v.Bundle, v.Deprecated = printable(b.Name), printable(b.Image), printable(p.deprecation(b.Schema, b.Name))
		number, _ := p.version(b.Name)
		v.Version = printable(number)
		if err := t.describe(&v, b); err != nil {
			return nil, err
		}
		if of := supported.Find(b.Number()); of != nil {
			v.Lists = append(support(of), v.Lists...)
		}
		all = append(all, &v)
	}
	return all, nil
}

// describe adds the details from a bundle to its version.
func (t *texts) describe(v *version, b *fbc.Bundle) error {
	details, err := b.Details()
	if err != nil {
		return err
	}
	switch csv := details.CSV; {
	case details.Undecodable != nil:
		v.Unknown = printable(fmt.Sprintf("OLM cannot install this version: %v", details.Undecodable))
	case csv == nil:
		v.Unknown = "The catalog does not describe this version; its image does."
	default:
		v.Display, v.Provider, v.Description = printable(csv.Spec.DisplayName), printable(csv.Spec.Provider.Name), t.add(prose(csv.Spec.Description))
		if len(csv.Spec.Icon) > 0 {
			v.Icon = t.add(prose(dataURL(csv.Spec.Icon[0].MediaType, csv.Spec.Icon[0].Data)))
		}
		v.Facts = facts(csv)
		v.Lists = append(v.Lists, installModes(csv), apis(csv))
		if details.Carried {
			v.Lists = append(v.Lists, permissions(csv)...)
		} else {
			v.Unknown = "The catalog does not list its permissions; its image does."
		}
	}
	v.Lists = append(v.Lists, images(b))
	v.Lists = slices.DeleteFunc(v.Lists, func(l list) bool { return len(l.Items) == 0 })
	return nil
}

// Limits of the lists that all versions of a minor version share: the page repeats the lists for each version, and there may be
// thousands. `berth catalog lifecycle` shows all.
const (
	supportLimit  = 10
	supportLength = 200
)

// support lists the phases of support of a version, and the platforms that it runs on.
func support(v *lifecycle.Version) (lists []list) {
	phases, platforms := list{Title: "Support"}, list{Title: "Runs on"}
	for _, p := range v.Phases[:min(len(v.Phases), supportLimit)] {
		phases.add("%s: %s to %s", escape.Short(p.Name, supportLength), escape.Short(string(p.Start), supportLength), escape.Short(string(p.End), supportLength))
	}
	for _, p := range v.Platforms[:min(len(v.Platforms), supportLimit)] {
		versions := p.Versions[:min(len(p.Versions), supportLength)]
		platforms.add("%s %s", escape.Short(p.Name, supportLength), escape.Short(strings.Join(versions, ", "), supportLength))
	}
	if more := len(v.Phases) - supportLimit; more > 0 {
		phases.add("and %d more", more)
	}
	if more := len(v.Platforms) - supportLimit; more > 0 {
		platforms.add("and %d more", more)
	}
	return slices.DeleteFunc([]list{phases, platforms}, func(l list) bool { return len(l.Items) == 0 })
}

func (l *list) add(format string, args ...any) {
	l.Items = append(l.Items, printable(fmt.Sprintf(format, args...)))
}

var imageType = regexp.MustCompile(`^image/[a-z0-9.+-]+$`)

// dataURL returns an image as a data URL, or nothing if the data is not an image.
func dataURL(mediaType, data string) string {
	image, err := base64.StdEncoding.DecodeString(data)
	if !imageType.MatchString(mediaType) || err != nil {
		return ""
	}
	return "data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(image)
}

// annotated are the annotations that OperatorHub shows, by their titles.
var annotated = []struct{ title, annotation string }{
	{"Capability", "capabilities"}, {"Categories", "categories"}, {"Support", "support"}, {"Created", "createdAt"},
	{"Certified", "certified"}, {"Repository", "repository"}, {"Image", "containerImage"},
	{"Suggested namespace", "operatorframework.io/suggested-namespace"},
}

const featurePrefix = "features.operators.openshift.io/"

func facts(csv *v1alpha1.ClusterServiceVersion) (all []fact) {
	for _, a := range annotated {
		if text := csv.Annotations[a.annotation]; text != "" {
			all = append(all, fact{a.title, printable(text)})
		}
	}
	if csv.Spec.MinKubeVersion != "" {
		all = append(all, fact{"Oldest Kubernetes", printable(csv.Spec.MinKubeVersion)})
	}
	if csv.Spec.Maturity != "" {
		all = append(all, fact{"Maturity", printable(csv.Spec.Maturity)})
	}
	var features []string
	for _, key := range slices.Sorted(maps.Keys(csv.Annotations)) {
		if feature, is := strings.CutPrefix(key, featurePrefix); is && csv.Annotations[key] == "true" {
			features = append(features, feature)
		}
	}
	if len(features) > 0 {
		all = append(all, fact{"Features", printable(strings.Join(features, ", "))})
	}
	return all
}

func installModes(csv *v1alpha1.ClusterServiceVersion) list {
	l := list{Title: "Install modes"}
	for _, mode := range csv.Spec.InstallModes {
		if mode.Supported {
			l.Items = append(l.Items, printable(mode.Type))
		}
	}
	return l
}

func apis(csv *v1alpha1.ClusterServiceVersion) list {
	l := list{Title: "APIs"}
	for _, crd := range csv.Spec.CustomResourceDefinitions.Owned {
		l.Items = append(l.Items, printable(fmt.Sprintf("%s %s (%s)", crd.Kind, crd.Version, crd.Name)))
	}
	return l
}

func images(b *fbc.Bundle) list {
	l := list{Title: "Images"}
	for _, image := range b.RelatedImages {
		if item := image.Image; item != "" {
			l.Items = append(l.Items, printable(item))
		}
	}
	return l
}

// permissions lists the permissions that a ClusterServiceVersion requests, in the cluster and in its namespace.
func permissions(csv *v1alpha1.ClusterServiceVersion) []list {
	strategy := csv.Spec.InstallStrategy.StrategySpec
	return []list{asked("Permissions in the cluster", strategy.ClusterPermissions), asked("Permissions in its namespace", strategy.Permissions)}
}

func asked(title string, permissions []v1alpha1.StrategyDeploymentPermissions) list {
	l := list{Title: title}
	for _, permission := range permissions {
		for _, rule := range permission.Rules {
			what := slices.Concat(rule.Resources, rule.NonResourceURLs)
			item := fmt.Sprintf("%s: %s", strings.Join(what, ", "), strings.Join(rule.Verbs, ", "))
			if groups := strings.TrimPrefix(strings.Join(rule.APIGroups, ", "), ", "); groups != "" {
				item = fmt.Sprintf("%s of %s: %s", strings.Join(what, ", "), groups, strings.Join(rule.Verbs, ", "))
			}
			if len(rule.ResourceNames) > 0 {
				item += fmt.Sprintf(" (%s)", strings.Join(rule.ResourceNames, ", "))
			}
			l.Items = append(l.Items, printable(item))
		}
	}
	return l
}
