package drivers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-csi/berth/drivers/permissions"
)

// Retired is an object that other versions of the driver have, and this version does not. When the operator of this
// version takes over, it deletes the object, if one of the driver's operators created it. An object stays in the list
// as long as OLM can update from a version that has it.
type Retired struct {
	Kind schema.GroupVersionKind
	// Namespace is as in an asset: NamespacePlaceholder for the driver's namespace, "" for a cluster-scoped object, or
	// one of OpenShift's namespaces, which begin with "openshift-". Users can write to any other namespace.
	Namespace string
	Name      string
	// Since is the first version of the operator that does not have the object.
	Since string
}

// reservedPrefix begins the names of namespaces that users cannot create.
const reservedPrefix = "openshift-"

// RetiredObjects returns the objects of Driver.Retired, with only the metadata that identifies them, for a driver in a
// namespace. It fails if one of them must not be deleted: because it is among the assets, its kind is unknown or
// outlives the driver, or users may write to its namespace.
func (d Driver) RetiredObjects(namespace string) ([]Manifest, error) {
	if len(d.Retired) == 0 {
		return nil, nil
	}
	assets, err := d.unrendered()
	if err != nil {
		return nil, err
	}
	var objects []Manifest
	for _, r := range d.Retired {
		if err := r.check(assets); err != nil {
			return nil, fmt.Errorf("retired %s %s of driver %s: %w", r.Kind.Kind, r.Name, d.Name, err)
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(r.Kind)
		object.SetName(r.Name)
		object.SetNamespace(strings.ReplaceAll(r.Namespace, NamespacePlaceholder, namespace))
		objects = append(objects, Manifest{Object: object})
	}
	return objects, nil
}

func (r Retired) check(assets []Manifest) error {
	if r.Since == "" {
		return errors.New(`missing since version "": want one`)
	}
	return checkDeletable(r.Kind, r.Namespace, r.Name, assets)
}

// checkDeletable fails if an object that a definition names must not be deleted.
func checkDeletable(of schema.GroupVersionKind, namespace, name string, assets []Manifest) error {
	kind, known := kinds[of.GroupKind()]
	switch {
	case !known:
		return fmt.Errorf("the API resource of kind %s is unknown: add it to the table of kinds in package drivers", of.GroupKind())
	case kind.kept:
		return fmt.Errorf("objects of kind %s outlive the driver, because volumes may refer to them: want another kind", of.Kind)
	case name == "":
		return errors.New(`found the name "": want one`)
	case namespace != "" && namespace != NamespacePlaceholder && !strings.HasPrefix(namespace, reservedPrefix):
		return fmt.Errorf("found the namespace %q, want %s, one that begins with %q, or none", namespace, NamespacePlaceholder, reservedPrefix)
	case slices.ContainsFunc(assets, func(m Manifest) bool {
		return m.Object.GroupVersionKind().GroupKind() == of.GroupKind() && m.Object.GetName() == name
	}):
		return errors.New("the driver has an asset of that kind and name: remove one of the two")
	}
	return nil
}

// rulesToRetire returns the permissions to find and delete the retired objects.
func (d Driver) rulesToRetire() ([]permissions.Rule, error) {
	retired, err := d.RetiredObjects(NamespacePlaceholder)
	if err != nil {
		return nil, err
	}
	var rules []permissions.Rule
	for _, m := range retired {
		kind := m.Object.GroupVersionKind().GroupKind()
		rules = append(rules, permissions.Rule{
			For: "To remove objects that the driver no longer has", From: d.definition(),
			Group: kind.Group, Resources: []string{kinds[kind].resource}, Names: []string{m.Object.GetName()}, Verbs: []string{"get", "delete"},
			Unexercised: map[string]string{"delete": "the end-to-end run begins without objects of earlier versions"},
		})
	}
	return rules, nil
}
