// Package featuregates knows the feature gates of OLM v1's operator-controller: which ones are on in each version, and in each
// release of OpenShift.
package featuregates

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Gate is the name of a feature gate of operator-controller.
type Gate string

// The gates that decide what OLM installs.
const (
	// SingleOwnNamespace installs bundles that do not support the install mode AllNamespaces, and reads spec.config for all bundles.
	SingleOwnNamespace Gate = "SingleOwnNamespaceInstallSupport"
	// CertManager gives webhooks certificates from cert-manager. It takes precedence over ServiceCA.
	CertManager Gate = "WebhookProviderCertManager"
	// ServiceCA gives webhooks certificates from OpenShift's service CA.
	ServiceCA Gate = "WebhookProviderOpenshiftServiceCA"
	// Boxcutter applies bundles in phases with Boxcutter, instead of Helm.
	Boxcutter Gate = "BoxcutterRuntime"
	// DeploymentConfig reads deploymentConfig in spec.config.
	DeploymentConfig Gate = "DeploymentConfig"
	// BundleRelease also reads the release of a bundle from its property olm.package, not only from the build metadata of its
	// version.
	BundleRelease Gate = "BundleReleaseSupport"
)

// others are gates that do not affect predictions. Users may name them, because operator-controller accepts them.
var others = []Gate{"PreflightPermissions", "SyntheticPermissions", "HelmChartSupport"}

// all are the gates that affect predictions.
var all = []Gate{SingleOwnNamespace, CertManager, ServiceCA, Boxcutter, DeploymentConfig, BundleRelease}

// Set says which gates are on. Missing gates are off.
type Set map[Gate]bool

// Latest is the version of operator-controller that predictions follow.
const Latest = "1.11"

// versions are the gates that are on by default in minor versions of operator-controller, from its
// internal/operator-controller/features. Versions before 1.2 have none.
var versions = map[string][]Gate{
	"1.0": nil, "1.1": nil, "1.2": nil, "1.3": nil, "1.4": nil, "1.5": nil,
	"1.6": {CertManager, ServiceCA}, "1.7": {CertManager, ServiceCA},
	"1.8": {SingleOwnNamespace, CertManager, ServiceCA},
	"1.9": {CertManager, ServiceCA}, "1.10": {CertManager, ServiceCA}, Latest: {CertManager, ServiceCA},
}

// openShift are the gates that releases of OpenShift enable by default: operator-controller's defaults with the changes in
// openshift/api (features/features.go of each release's branch) and cluster-olm-operator. OpenShift never enables the gate for
// cert-manager.
var openShift = map[string][]Gate{
	"4.18": nil, "4.19": nil, "4.20": nil,
	"4.21": {ServiceCA}, "4.22": {ServiceCA}, "4.23": {ServiceCA}, "5.0": {ServiceCA},
}

// OfOpenShift maps OpenShift's own feature gates, by their names in its FeatureGate object, to the gates of operator-controller
// that they enable.
var OfOpenShift = map[string]Gate{
	"NewOLMOwnSingleNamespace": SingleOwnNamespace, "NewOLMWebhookProviderOpenshiftServiceCA": ServiceCA,
	"NewOLMBoxCutterRuntime": Boxcutter, "NewOLMConfigAPI": DeploymentConfig,
}

// Of returns the gates that are on by default in a version of operator-controller, such as 1.11, or of OpenShift, such as 4.21. It
// ignores a patch version and a leading v. It fails for unknown versions.
func Of(version string) (Set, error) {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	on, known := versions[major+"."+minor]
	if !known {
		on, known = openShift[major+"."+minor]
	}
	if !known {
		return nil, fmt.Errorf("version %q of OLM v1 is not known; want one of operator-controller, %s, or of OpenShift, %s", version,
			strings.Join(sorted(versions), ", "), strings.Join(sorted(openShift), ", "))
	}
	set := Set{}
	for _, gate := range on {
		set[gate] = true
	}
	return set, nil
}

// Versions returns all versions that Of knows.
func Versions() []string { return append(sorted(versions), sorted(openShift)...) }

// sorted returns versions like 1.11, ordered as numbers.
func sorted(of map[string][]Gate) []string {
	number := func(version string) int {
		major, minor, _ := strings.Cut(version, ".")
		a, _ := strconv.Atoi(major)
		b, _ := strconv.Atoi(minor)
		return a*1000 + b
	}
	return slices.SortedFunc(maps.Keys(of), func(a, b string) int { return number(a) - number(b) })
}

// With returns a copy with gates set as by operator-controller's flag --feature-gates: NAME=true,NAME=false.
func (s Set) With(settings string) (Set, error) {
	changed := maps.Clone(s)
	for setting := range strings.SplitSeq(settings, ",") {
		if setting = strings.TrimSpace(setting); setting == "" {
			continue
		}
		name, value, _ := strings.Cut(setting, "=")
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("feature gate %q, want NAME=true or NAME=false", setting)
		}
		gate := Gate(strings.TrimSpace(name))
		if !slices.Contains(all, gate) && !slices.Contains(others, gate) {
			return nil, fmt.Errorf("OLM v1 has no feature gate %q, want one of %s", gate, strings.Join(Names(), ", "))
		}
		changed[gate] = on
	}
	return changed, nil
}

// Names returns the names of the gates that affect predictions.
func Names() (names []string) {
	for _, gate := range all {
		names = append(names, string(gate))
	}
	return names
}

// All returns settings for With that give all gates that affect predictions the same value.
func All(on bool) string {
	return strings.Join(Names(), "="+strconv.FormatBool(on)+",") + "=" + strconv.FormatBool(on)
}
