package bundle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/api/pkg/validation/errors"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Severity says what a finding means for the bundle.
type Severity string

const (
	// SeverityError is a finding that keeps the bundle from being installed or published.
	SeverityError Severity = "error"
	// SeverityWarning is a finding that should be looked at.
	SeverityWarning Severity = "warning"
)

// Finding is one thing that a validator found wrong with a bundle.
type Finding struct {
	Severity Severity
	// Rule names the validator and its kind of finding, such as "good-practices/ValidationFailed".
	Rule    string
	Message string
	// File is the file of the finding, slash-separated and relative to the bundle's folder.
	File string
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s (%s)", f.File, f.Severity, f.Message, f.Rule)
}

// The validators of the Operator Framework, under the names that operator-sdk knows them by where it
// knows them. Those not here: PackageManifest is of the older format, OperatorHub and
// CommunityOperator are deprecated in favour of others here, and MultipleArchitectures needs a
// container tool that pulls each image.
var validators = []struct {
	name      string
	validator interfaces.Validator
}{
	{"clusterserviceversion", validation.ClusterServiceVersionValidator},
	{"customresourcedefinition", validation.CustomResourceDefinitionValidator},
	{"bundle", validation.BundleValidator},
	{"operatorhubv2", validation.OperatorHubV2Validator},
	{"standardcapabilities", validation.StandardCapabilitiesValidator},
	{"standardcategories", validation.StandardCategoriesValidator},
	{"alpha-deprecated-apis", validation.AlphaDeprecatedAPIsValidator},
	{"good-practices", validation.GoodPracticesValidator},
	{"object", validation.ObjectValidator},
	{"operatorgroup", validation.OperatorGroupValidator},
}

// Validate runs the Operator Framework's validators on a bundle folder and returns what they find,
// errors first. It fails if the folder cannot be loaded as a bundle at all.
func Validate(dir string) ([]Finding, error) {
	b, err := Load(dir)
	if err != nil {
		return nil, err
	}
	objects, err := b.objects()
	if err != nil {
		return nil, err
	}
	loaded, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		return nil, fmt.Errorf("bundle folder %s: %w", dir, err)
	}

	var findings []Finding
	for _, v := range validators {
		for _, subject := range loaded.ObjectsToValidate() {
			file := fileOf(subject, objects)
			for _, result := range v.validator.Validate(subject) {
				for _, e := range result.Errors {
					findings = append(findings, finding(SeverityError, v.name, file, e))
				}
				for _, e := range result.Warnings {
					findings = append(findings, finding(SeverityWarning, v.name, file, e))
				}
			}
		}
	}
	return ordered(findings), nil
}

func finding(severity Severity, validator, file string, e errors.Error) Finding {
	message := e.Detail
	if e.Field != "" && !strings.Contains(message, e.Field) {
		message = e.Field + ": " + message
	}
	// Some validators name the object they mean only as the bad value.
	if subject, ok := e.BadValue.(fmt.Stringer); ok && !strings.Contains(message, subject.String()) {
		message += ": " + subject.String()
	}
	return Finding{Severity: severity, Rule: validator + "/" + string(e.Type), File: file, Message: message}
}

// fileOf returns the file that a validator's subject was read from. What concerns the bundle as a
// whole is put right in its ClusterServiceVersion.
func fileOf(subject any, objects []object) string {
	kind, name := v1alpha1.ClusterServiceVersionKind, ""
	switch s := subject.(type) {
	case *apiextensionsv1.CustomResourceDefinition:
		kind, name = s.Kind, s.Name
	case *apiextensionsv1beta1.CustomResourceDefinition:
		kind, name = s.Kind, s.Name
	case *unstructured.Unstructured:
		kind, name = s.GetKind(), s.GetName()
	}
	for _, o := range objects {
		if o.GetKind() == kind && (o.GetName() == name || name == "") {
			return o.file
		}
	}
	return manifestsDir
}

// ordered sorts findings, errors first, and drops what two validators found alike.
func ordered(findings []Finding) []Finding {
	type key struct {
		severity      Severity
		file, message string
	}
	seen := map[key]bool{}
	findings = slices.DeleteFunc(findings, func(f Finding) bool {
		k := key{f.Severity, f.File, f.Message}
		duplicate := seen[k]
		seen[k] = true
		return duplicate
	})
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.File, b.File),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	return findings
}
