package subscription

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/prediction"
)

// Content lists the objects that OLM installs for a ClusterServiceVersion.
type Content struct {
	Name            string `json:"name"`
	SourceNamespace string `json:"sourceNamespace"`
	Source          string `json:"source"`
	// Image is the image of the bundle. It is empty if the catalog itself contains the bundle's objects.
	Image string `json:"image,omitempty"`
	// Digest is a hash of the bundle's objects. It is empty if they were not read.
	Digest string `json:"digest,omitempty"`
}

// The maximum lengths of an image and of a digest in a plan, in bytes.
const (
	maxImage  = 1024
	maxDigest = 256
)

func (c Content) source() string { return c.SourceNamespace + "/" + c.Source }

// contentOf returns the content of a bundle of a catalog.
func contentOf(b prediction.Bundle) (Content, error) {
	c := Content{Name: b.Name, SourceNamespace: b.From.Namespace, Source: b.From.Name, Image: b.Image}
	if c.Image != "" {
		return c, nil
	}
	details, err := b.Details()
	if err != nil || !details.Carried {
		return c, err
	}
	var objects [][]byte
	for _, object := range details.Objects {
		text, err := json.Marshal(object.Object)
		if err != nil {
			return c, fmt.Errorf("%s: object %s %s: %w", b.Name, object.GetKind(), object.GetName(), err)
		}
		objects = append(objects, text)
	}
	c.Digest, err = digestOf(details.CSV, objects)
	return c, err
}

// digestOf returns a hash of a ClusterServiceVersion and other objects, independent of their order. It leaves out
// spec.replaces of the ClusterServiceVersion, which OLM sets.
func digestOf(csv *v1alpha1.ClusterServiceVersion, objects [][]byte) (string, error) {
	spec := csv.Spec
	spec.Replaces = ""
	text, err := json.Marshal(spec)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, part := range slices.Concat([][]byte{text}, slices.SortedFunc(slices.Values(objects), slices.Compare[[]byte])) {
		sum := sha256.Sum256(part)
		hash.Write(sum[:])
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// validateContents fails unless there is one content for each ClusterServiceVersion that the plan installs.
func (p *Plan) validateContents() error {
	var want, have []string
	if p.Safe && p.Strategy != Keep {
		want = append(slices.Clone(p.Additional), p.Target)
	}
	for _, c := range p.Contents {
		have = append(have, c.Name)
		if err := errors.Join(migrate.ValidateName("contents.name", c.Name), migrate.ValidateNamespace("contents.sourceNamespace", c.SourceNamespace), migrate.ValidateName("contents.source", c.Source)); err != nil {
			return err
		}
		if len(c.Image) > maxImage || len(c.Digest) > maxDigest {
			return fmt.Errorf("the image or the digest of %s in contents is too long", c.Name)
		}
	}
	slices.Sort(want)
	if p.Safe && !slices.Equal(slices.Sorted(slices.Values(have)), want) {
		return fmt.Errorf("contents are for %q, want %q", have, want)
	}
	if at := slices.IndexFunc(p.Contents, func(c Content) bool { return c.Name == p.Target }); p.Safe && at >= 0 &&
		(p.Contents[at].Source != p.To.Source || p.Contents[at].SourceNamespace != p.To.SourceNamespace) {
		return fmt.Errorf("contents has %s from %s, want it from the CatalogSource to switch to, %s/%s", p.Target, p.Contents[at].source(), p.To.SourceNamespace, p.To.Source)
	}
	return nil
}

// matches fails unless an InstallPlan installs exactly the plan's objects.
func (p *Plan) matches(installPlan *v1alpha1.InstallPlan) error {
	for _, name := range installPlan.Spec.ClusterServiceVersionNames {
		if !slices.ContainsFunc(p.Contents, func(c Content) bool { return c.Name == name }) {
			return fmt.Errorf("would install %s, which is not in the plan", name)
		}
	}
	for _, lookup := range installPlan.Status.BundleLookups {
		if !slices.ContainsFunc(p.Contents, func(c Content) bool { return c.Name == lookup.Identifier }) {
			return fmt.Errorf("would unpack %s, which is not in the plan", lookup.Identifier)
		}
	}
	steps := map[string][]*v1alpha1.Step{}
	for _, step := range installPlan.Status.Plan {
		if step == nil {
			continue
		}
		if !slices.ContainsFunc(p.Contents, func(c Content) bool { return c.Name == step.Resolving }) {
			return fmt.Errorf("has %s %s for %s, which is not in the plan", step.Resource.Kind, step.Resource.Name, step.Resolving)
		}
		steps[step.Resolving] = append(steps[step.Resolving], step)
	}
	for _, c := range p.Contents {
		if !slices.Contains(installPlan.Spec.ClusterServiceVersionNames, c.Name) {
			continue // another InstallPlan installs it
		}
		if err := c.check(steps[c.Name], installPlan.Status.BundleLookups); err != nil {
			return fmt.Errorf("installs %s with other content than planned: %w", c.Name, err)
		}
	}
	return nil
}

// check fails unless the steps and bundle lookups of an InstallPlan match this content.
func (c Content) check(steps []*v1alpha1.Step, lookups []v1alpha1.BundleLookup) error {
	image := ""
	for _, lookup := range lookups {
		if lookup.Identifier != c.Name {
			continue
		}
		image = lookup.Path
		if ref := lookup.CatalogSourceRef; ref == nil || ref.Namespace != c.SourceNamespace || ref.Name != c.Source {
			return fmt.Errorf("its bundle is from CatalogSource %v, want %s", ref, c.source())
		}
	}
	if image != c.Image {
		return fmt.Errorf("its bundle has image %q, want %q", image, c.Image)
	}
	var csv *v1alpha1.ClusterServiceVersion
	var others []v1alpha1.StepResource
	for _, step := range steps {
		r := step.Resource
		if r.CatalogSource != c.Source || r.CatalogSourceNamespace != c.SourceNamespace {
			return fmt.Errorf("%s %s comes from CatalogSource %s/%s, want %s", r.Kind, r.Name, r.CatalogSourceNamespace, r.CatalogSource, c.source())
		}
		switch {
		case r.Kind == v1alpha1.SubscriptionKind: // OLM creates one for a dependency
			if err := c.checkSubscription(r); err != nil {
				return err
			}
		case c.Image != "": // OLM reads the objects from the image
		case r.Kind == v1alpha1.ClusterServiceVersionKind:
			csv = &v1alpha1.ClusterServiceVersion{}
			if err := json.Unmarshal([]byte(r.Manifest), csv); err != nil {
				return fmt.Errorf("%s %s: %w", r.Kind, r.Name, err)
			}
		default:
			others = append(others, r)
		}
	}
	if c.Digest == "" {
		return nil
	}
	if csv == nil || csv.Name != c.Name {
		return errors.New("there is no ClusterServiceVersion of that name")
	}
	return c.checkObjects(csv, others)
}

// checkObjects fails unless the objects match this content. Objects that OLM derives from the ClusterServiceVersion are
// left out.
func (c Content) checkObjects(csv *v1alpha1.ClusterServiceVersion, others []v1alpha1.StepResource) error {
	derived, err := resolver.NewServiceAccountStepResources(csv, c.Source, c.SourceNamespace)
	if err != nil {
		return err
	}
	var objects [][]byte
	var names []string
	for _, r := range others {
		if slices.Contains(derived, r) {
			continue
		}
		var object map[string]any
		if err := json.Unmarshal([]byte(r.Manifest), &object); err != nil {
			return fmt.Errorf("%s %s: %w", r.Kind, r.Name, err)
		}
		text, err := json.Marshal(object)
		if err != nil {
			return fmt.Errorf("%s %s: %w", r.Kind, r.Name, err)
		}
		objects, names = append(objects, text), append(names, r.Kind+" "+r.Name)
	}
	digest, err := digestOf(csv, objects)
	if err == nil && digest != c.Digest {
		err = fmt.Errorf("the ClusterServiceVersion or its objects (%s) differ from those in the catalog", strings.Join(names, ", "))
	}
	return err
}

// checkSubscription fails unless a Subscription that OLM creates for a dependency uses the catalog of this content.
func (c Content) checkSubscription(r v1alpha1.StepResource) error {
	created := &v1alpha1.Subscription{}
	if err := json.Unmarshal([]byte(r.Manifest), created); err != nil {
		return fmt.Errorf("%s %s: %w", r.Kind, r.Name, err)
	}
	if created.Spec == nil || created.Spec.CatalogSource != c.Source || created.Spec.CatalogSourceNamespace != c.SourceNamespace || created.Spec.Config != nil {
		return fmt.Errorf("%s %s is not to CatalogSource %s", r.Kind, r.Name, c.source())
	}
	return nil
}
