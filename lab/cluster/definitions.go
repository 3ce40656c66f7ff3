package cluster

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"golang.org/x/mod/semver"
	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/lab/cluster/crds"
	"github.com/berth-csi/berth/lab/cluster/tools"
)

// readDefinitions reads CustomResourceDefinitions from files, without rules that the cluster's version of Kubernetes cannot read.
func readDefinitions(files []string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	kubernetes, _, err := tools.Kubernetes()
	if err != nil {
		return nil, err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		definitions, err := crds.Read(file)
		if err != nil {
			return nil, err
		}
		all = append(all, definitions...)
	}
	if semver.Compare(kubernetes, addressRules) < 0 {
		for _, definition := range all {
			for _, version := range definition.Spec.Versions {
				dropRulesOfAddresses(version.Schema.OpenAPIV3Schema)
			}
		}
	}
	return all, nil
}

// addressRules is the first version of Kubernetes whose rules in CEL can call functions of IP addresses, and ofAddresses matches such calls.
// The OpenShift of an earlier Kubernetes has definitions without these rules.
const addressRules = "v1.31.0"

var ofAddresses = regexp.MustCompile(`\b(isIP|ip|isCIDR|cidr)\(`)

// dropRulesOfAddresses removes the rules that call functions of IP addresses from a schema, which may be nil.
func dropRulesOfAddresses(schema *apiextensionsv1.JSONSchemaProps) {
	if schema == nil {
		return
	}
	schema.XValidations = slices.DeleteFunc(schema.XValidations, func(r apiextensionsv1.ValidationRule) bool { return ofAddresses.MatchString(r.Rule) })
	for name, property := range schema.Properties {
		dropRulesOfAddresses(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil {
		dropRulesOfAddresses(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil {
		dropRulesOfAddresses(schema.AdditionalProperties.Schema)
	}
}

// createDefinitions creates CustomResourceDefinitions and waits until their APIs are served.
func createDefinitions(ctx context.Context, config *rest.Config, definitions []*apiextensionsv1.CustomResourceDefinition) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	api, err := newClient(config)
	if err != nil {
		return err
	}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	group, createCtx := errgroup.WithContext(ctx)
	for _, definition := range definitions {
		group.Go(func() error { return create(createCtx, api, definition) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for version, plurals := range byGroupVersion(definitions) {
		if err := awaitServed(ctx, served, version, plurals); err != nil {
			return err
		}
	}
	return nil
}

// byGroupVersion returns the plural names of resources that definitions define.
func byGroupVersion(definitions []*apiextensionsv1.CustomResourceDefinition) map[schema.GroupVersion][]string {
	plurals := map[schema.GroupVersion][]string{}
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			if version.Served {
				key := schema.GroupVersion{Group: definition.Spec.Group, Version: version.Name}
				plurals[key] = append(plurals[key], definition.Spec.Names.Plural)
			}
		}
	}
	return plurals
}

// awaitServed waits until discovery lists the resources of a group. Then their definitions are established. Discovery
// is far cheaper than reading the definitions with megabytes of schemas.
func awaitServed(ctx context.Context, served discovery.ServerResourcesInterface, version schema.GroupVersion, plurals []string) error {
	return Until(ctx, "the resources of "+version.String(), func(context.Context) error {
		list, err := served.ServerResourcesForGroupVersion(version.String())
		if err != nil {
			return err
		}
		for _, plural := range plurals {
			if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural }) {
				return fmt.Errorf("%s is not served", plural)
			}
		}
		return nil
	})
}
