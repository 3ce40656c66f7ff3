// Package featuregates knows the feature gates of OLM v1's operator-controller: which ones a version has, which of them are on, and what
// each release of OpenShift makes of that.
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
	// SingleOwnNamespace installs bundles that do not support the install mode AllNamespaces, and reads spec.config for all.
	SingleOwnNamespace Gate = "SingleOwnNamespaceInstallSupport"
	// CertManager gives webhooks certificates by cert-manager. It takes precedence over ServiceCA.
	CertManager Gate = "WebhookProviderCertManager"
	// ServiceCA gives webhooks certificates by OpenShift's service CA.
	ServiceCA Gate = "WebhookProviderOpenshiftServiceCA"
	// Boxcutter applies bundles by Boxcutter, in phases, instead of by Helm.
	Boxcutter Gate = "BoxcutterRuntime"
	// DeploymentConfig reads deploymentConfig in spec.config.
	DeploymentConfig Gate = "DeploymentConfig"
	// BundleRelease reads the release of a bundle from its property olm.package, and not only from the build metadata of its version.
	BundleRelease Gate = "BundleReleaseSupport"
)

// others are gates that decide nothing that is predicted. Users may name them, because operator-controller takes them.
var others = []Gate{"PreflightPermissions", "SyntheticPermissions", "HelmChartSupport"}

// all are the gates that decide something.
var all = []Gate{SingleOwnNamespace, CertManager, ServiceCA, Boxcutter, DeploymentConfig, BundleRelease}

// Set says which gates are on. One that is not in it is off.
type Set map[Gate]bool

// Latest is the version of operator-controller that predictions follow.
const Latest = "1.11"

// versions are the gates that are on by default in the minor versions of operator-controller, whose
// internal/operator-controller/features says so. Versions before 1.2 have none.
var versions = map[string][]Gate{
	"1.0": nil, "1.1": nil, "1.2": nil, "1.3": nil, "1.4": nil, "1.5": nil,
	"1.6": {CertManager, ServiceCA}, "1.7": {CertManager, ServiceCA},
	"1.8": {SingleOwnNamespace, CertManager, ServiceCA},
	"1.9": {CertManager, ServiceCA}, "1.10": {CertManager, ServiceCA}, Latest: {CertManager, ServiceCA},
}

// openShift are the gates that releases of OpenShift enable by default: those of their operator-controller, as openshift/api
// (features/features.go of each release's branch) and cluster-olm-operator change them. OpenShift never has the one for
// cert-manager.
var openShift = map[string][]Gate{
	"4.18": nil, "4.19": nil, "4.20": nil,
	"4.21": {ServiceCA}, "4.22": {ServiceCA}, "4.23": {ServiceCA}, "5.0": {ServiceCA},
}

// OfOpenShift are the gates of operator-controller that OpenShift's own feature gates enable, by their names in its FeatureGate
// object.
var OfOpenShift = map[string]Gate{
	"NewOLMOwnSingleNamespace": SingleOwnNamespace, "NewOLMWebhookProviderOpenshiftServiceCA": ServiceCA,
	"NewOLMBoxCutterRuntime": Boxcutter, "NewOLMConfigAPI": DeploymentConfig,
}

// Of returns the gates that are on by default in a version: one of operator-controller, such as 1.11, or one of OpenShift, such as
// 4.21. A patch version, and a v before it, do not matter. It fails if the version is not known.
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

// Versions are all versions that Of knows.
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

// With returns a copy in which gates are set as operator-controller's flag --feature-gates has them: NAME=true,NAME=false.
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

// Names are the names of the gates that decide something.
func Names() (names []string) {
	for _, gate := range all {
		names = append(names, string(gate))
	}
	return names
}

// All are all gates that decide something, as With takes them, all set to the same value.
func All(on bool) string {
	return strings.Join(Names(), "="+strconv.FormatBool(on)+",") + "=" + strconv.FormatBool(on)
}
