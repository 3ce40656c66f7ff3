package bundle

import (
	"encoding/base64"
	"fmt"
	"maps"
	"time"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
)

const (
	skipRangeAnnotation = "olm.skipRange"
	createdAtAnnotation = "createdAt"
)

// clusterServiceVersion returns the ClusterServiceVersion from which OLM installs the driver's operator, and which consoles show.
func clusterServiceVersion(d drivers.Driver, opts Options, crds []*apiextensionsv1.CustomResourceDefinition) (*v1alpha1.ClusterServiceVersion, error) {
	rules, err := d.OperatorPolicyRules(permissions.Removable)
	if err != nil {
		return nil, err
	}
	examples, err := loadExamples(d.Package.Examples)
	if err != nil {
		return nil, err
	}
	var owned []v1alpha1.CRDDescription
	for _, crd := range crds {
		owned = append(owned, ownedAPIs(crd)...)
	}
	annotations, err := consoleAnnotations(d, opts, examples, owned)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.ClusterServiceVersion{
		TypeMeta: metav1.TypeMeta{
			APIVersion: v1alpha1.ClusterServiceVersionAPIVersion,
			Kind:       v1alpha1.ClusterServiceVersionKind,
		},
		ObjectMeta: metav1.ObjectMeta{Name: csvName(d, opts), Labels: platforms(), Annotations: annotations},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			DisplayName:    d.Package.DisplayName,
			Description:    d.Package.Description,
			Icon:           []v1alpha1.Icon{{Data: base64.StdEncoding.EncodeToString(d.Package.Icon), MediaType: "image/svg+xml"}},
			Keywords:       d.Package.Keywords,
			Maintainers:    maintainers,
			Provider:       provider,
			Links:          links,
			Maturity:       maturity(opts),
			Version:        version.OperatorVersion{Version: opts.Version},
			Replaces:       replaces(d, opts),
			MinKubeVersion: d.Package.MinKubeVersion,
			InstallModes:   allNamespaces(),
			InstallStrategy: v1alpha1.NamedInstallStrategy{
				StrategyName: v1alpha1.InstallStrategyNameDeployment,
				StrategySpec: installStrategy(d, rules),
			},
			CustomResourceDefinitions: v1alpha1.CustomResourceDefinitions{Owned: owned},
			NativeAPIs:                foreignAPIs(examples, owned),
			RelatedImages:             relatedImages(d),
		},
	}, nil
}

func csvName(d drivers.Driver, opts Options) string {
	return d.Package.Name + ".v" + opts.Version.String()
}

func replaces(d drivers.Driver, opts Options) string {
	if opts.Replaces != "" {
		return opts.Replaces
	}
	return d.Package.Replaces
}

// skipRange returns the range of versions from which OLM updates to a bundle directly, or "" if OLM updates only from the version that the
// bundle replaces.
func skipRange(d drivers.Driver, opts Options) string {
	if from := d.Package.UpdatesFrom; opts.SkipRange == "" && from != "" && opts.Version.GT(semver.MustParse(from)) {
		return fmt.Sprintf(">=%s <%s", d.Package.UpdatesFrom, opts.Version)
	}
	return opts.SkipRange
}

// maturity returns the maturity of a version, as semantic versioning defines it.
func maturity(opts Options) string {
	if opts.Version.Major == 0 || len(opts.Version.Pre) > 0 {
		return "alpha"
	}
	return "stable"
}

// allNamespaces returns the install modes of a CSI driver's operator. It supports only AllNamespaces: a cluster can have a driver only
// once, and this mode allows only one installation of the package.
func allNamespaces() []v1alpha1.InstallMode {
	return []v1alpha1.InstallMode{
		{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: false},
		{Type: v1alpha1.InstallModeTypeSingleNamespace, Supported: false},
		{Type: v1alpha1.InstallModeTypeMultiNamespace, Supported: false},
		{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true},
	}
}

func installStrategy(d drivers.Driver, rules drivers.Rules) v1alpha1.StrategyDetailsDeployment {
	deployment := d.OperatorDeployment()
	account := deployment.Spec.Template.Spec.ServiceAccountName
	return v1alpha1.StrategyDetailsDeployment{
		DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{
			{Name: deployment.Name, Spec: deployment.Spec, Label: deployment.Labels},
		},
		Permissions:        []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: account, Rules: rules.Permissions}},
		ClusterPermissions: []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: account, Rules: rules.ClusterPermissions}},
	}
}

// foreignAPIs returns the APIs that the operator needs but does not define. While the cluster lacks one, OLM delays the
// installation and reports it.
func foreignAPIs(examples []*unstructured.Unstructured, owned []v1alpha1.CRDDescription) []metav1.GroupVersionKind {
	var foreign []metav1.GroupVersionKind
	seen := map[metav1.GroupVersionKind]bool{}
	for _, example := range examples {
		gvk := metav1.GroupVersionKind(example.GroupVersionKind())
		if !owns(owned, example) && !seen[gvk] {
			foreign = append(foreign, gvk)
		}
		seen[gvk] = true
	}
	return foreign
}

// consoleAnnotations returns the annotations that OperatorHub shows, filters operators by, and takes example objects from.
func consoleAnnotations(d drivers.Driver, opts Options, examples []*unstructured.Unstructured, owned []v1alpha1.CRDDescription) (map[string]string, error) {
	initialization, err := asJSON(examples[0])
	if err != nil {
		return nil, err
	}
	samples, err := asJSON(ofOwnAPIs(examples, owned))
	if err != nil {
		return nil, err
	}
	annotations := features(d)
	maps.Copy(annotations, map[string]string{
		"alm-examples":   samples,
		"capabilities":   capabilityLevel,
		"categories":     "Storage",
		"certified":      "false",
		"containerImage": d.Operator.Image,
		"description":    d.Package.Summary,
		"repository":     repository,
		"support":        repository + "/issues",
		"operatorframework.io/initialization-resource": initialization,
		"operatorframework.io/suggested-namespace":     suggestedNamespace,
		// If the console creates that namespace, it asks whether to enable the cluster's monitoring there, and labels the
		// namespace accordingly.
		"operatorframework.io/cluster-monitoring": "true",
	})
	if versions := skipRange(d, opts); versions != "" {
		annotations[skipRangeAnnotation] = versions
	}
	if !opts.Released.IsZero() {
		annotations[createdAtAnnotation] = opts.Released.UTC().Format(time.RFC3339)
	}
	return annotations, nil
}
