// Package rules checks bundles with the validators of the Operator Framework, and against what the Operator Lifecycle
// Manager and consoles require in addition.
//
// It is a separate package because those validators import much of an API server.
package rules

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	validationerrors "github.com/operator-framework/api/pkg/validation/errors"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/findings"
	"github.com/berth-csi/berth/registryv1"
)

// validators are the validators of the Operator Framework, each as a rule with the name that it has in operator-sdk if it is
// there. Not included: PackageManifest is for the older format, OperatorHub and CommunityOperator are deprecated in favour
// of others, and MultipleArchitectures needs a container tool to pull each image.
var validators = []struct {
	rule      findings.Rule
	validator interfaces.Validator
}{
	{rule("clusterserviceversion", "The ClusterServiceVersion has what OLM needs, and its examples are of its own APIs."), validation.ClusterServiceVersionValidator},
	{rule("customresourcedefinition", "The API server accepts each CustomResourceDefinition."), validation.CustomResourceDefinitionValidator},
	{rule("bundle", "Owned APIs have definitions, images are pull specs, and the bundle is not too large."), validation.BundleValidator},
	{rule("operatorhubv2", "OperatorHub can show the package: with provider, maintainers, links, version and icon."), validation.OperatorHubV2Validator},
	{rule("standardcapabilities", "The annotation capabilities is one of the five levels."), validation.StandardCapabilitiesValidator},
	{rule("standardcategories", "The annotation categories lists only those that OperatorHub knows."), validation.StandardCategoriesValidator},
	{rule("alpha-deprecated-apis", "No manifest uses an API that Kubernetes has removed."), validation.AlphaDeprecatedAPIsValidator},
	{rule("good-practices", "Containers request resources, channels and names follow the conventions, and APIs are described."), validation.GoodPracticesValidator},
	{rule("object", "Objects besides the ClusterServiceVersion do not get in the way of managing the cluster."), validation.ObjectValidator},
	{rule("operatorgroup", "Annotations of OperatorGroups are spelled correctly."), validation.OperatorGroupValidator},
}

func rule(id, what string) findings.Rule {
	return findings.Rule{ID: id, Severity: findings.Error, What: what}
}

// Rules are all rules of Check: those of the Operator Framework's validators, whose findings may also be warnings, and
// those of OLM.
func Rules() []findings.Rule {
	all := append([]findings.Rule{syntaxRule, expansionRule}, registryv1.Rules...)
	for _, v := range validators {
		all = append(all, v.rule)
	}
	for _, c := range ownChecks {
		all = append(all, c.rule)
	}
	return all
}

// Check checks a bundle folder and returns the findings in the order of files and lines. It fails if the folder is not a
// bundle.
func Check(dir string) ([]*findings.Finding, error) {
	broken, err := brokenFiles(dir)
	if err != nil || len(broken) > 0 {
		return broken, err // other checks need files that can be read
	}
	b, err := registryv1.Load(dir)
	if err != nil {
		found, others := registryv1.Faults(err)
		return found, errors.Join(others...)
	}
	c := &check{dir: dir, bundle: b, places: places{}}
	for _, own := range ownChecks {
		own.find(c, own.rule)
	}
	loaded, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		if len(c.found) > 0 {
			return c.ordered(), nil // these findings are the cause
		}
		return nil, fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	files := filesByObject(b.Objects)
	for _, v := range validators {
		for _, subject := range loaded.ObjectsToValidate() {
			file := fileOf(subject, files)
			for _, result := range v.validator.Validate(subject) {
				for _, e := range result.Errors {
					c.add(v.rule, findings.Error, file, e)
				}
				for _, e := range result.Warnings {
					c.add(v.rule, findings.Warning, file, e)
				}
			}
		}
	}
	return c.ordered(), nil
}

// check is a bundle that is being checked, and the findings so far.
type check struct {
	dir    string
	bundle *registryv1.Contents
	found  []*findings.Finding
	places places
}

// find adds a finding about a field of a file.
func (c *check) find(rule findings.Rule, file string, path []string, format string, args ...any) {
	f := rule.Finding(filepath.Join(c.dir, filepath.FromSlash(file)), format, args...)
	c.found = append(c.found, f.At(placeOf(c.places.of(file, c.bundle.File(file)).root, path)))
}

// add adds a finding of a validator.
func (c *check) add(rule findings.Rule, severity findings.Severity, file string, e validationerrors.Error) {
	message := e.Detail
	if e.Field != "" && !strings.Contains(message, e.Field) {
		message = e.Field + ": " + message
	}
	// Some validators name the object only as the bad value.
	if subject, ok := e.BadValue.(fmt.Stringer); ok && !strings.Contains(message, subject.String()) {
		message += ": " + subject.String()
	}
	rule.Severity = severity
	f := rule.Finding(filepath.Join(c.dir, filepath.FromSlash(file)), "%s", message)
	c.found = append(c.found, f.At(guessPlace(c.places.of(file, c.bundle.File(file)), e.Field, fmt.Sprint(e.BadValue), message)))
}

// ordered sorts the findings and drops duplicates from different validators.
func (c *check) ordered() []*findings.Finding {
	type key struct {
		severity      findings.Severity
		file, message string
	}
	seen := map[key]bool{}
	var kept []*findings.Finding
	for _, f := range c.found {
		k := key{f.Severity, f.File, f.Message}
		if !seen[k] {
			kept = append(kept, f)
		}
		seen[k] = true
	}
	findings.Sort(kept)
	return kept
}

// object is the kind and the name of an object; the name is "" for the first of its kind.
type object struct{ kind, name string }

// filesByObject returns the files of objects.
func filesByObject(objects []registryv1.Object) map[object]string {
	files := map[object]string{}
	for _, o := range objects {
		for _, of := range []object{{o.GetKind(), o.GetName()}, {o.GetKind(), ""}} {
			if files[of] == "" {
				files[of] = o.File
			}
		}
	}
	return files
}

// fileOf returns the file that a validator's subject was read from. Findings about the whole bundle are in the file of its
// ClusterServiceVersion.
func fileOf(subject any, files map[object]string) string {
	of := object{kind: v1alpha1.ClusterServiceVersionKind}
	switch s := subject.(type) {
	case *apiextensionsv1.CustomResourceDefinition:
		of = object{s.Kind, s.Name}
	case *apiextensionsv1beta1.CustomResourceDefinition:
		of = object{s.Kind, s.Name}
	case *unstructured.Unstructured:
		of = object{s.GetKind(), s.GetName()}
	}
	return cmp.Or(files[of], registryv1.ManifestsDir)
}
