package csimigration

import (
	"slices"

	"github.com/blang/semver/v4"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
)

// generalGate is the feature gate of CSI migration in general. Without it, the plugins' gates have no effect.
const generalGate = "CSIMigration"

// The two feature sets of the proposal: all operators but the machine-config operator heed the first.
const (
	controlPlaneSet configv1.FeatureSet = "CSIMigrationControlPlane"
	nodeSet         configv1.FeatureSet = "CSIMigrationNode"
)

// patchedSince is the OpenShift version from which the Attach/Detach controller follows the nodes' reports regardless
// of its own feature gates, so that the order makes no difference.
var patchedSince = semver.MustParse("4.8.0")

// Way is a way to configure a cluster for CSI migration.
type Way string

// The ways, the preferred one first.
const (
	// TwoSets sets the proposal's two feature sets, one after the other.
	TwoSets Way = "two-sets"
	// OneSet sets the feature set for previews, which includes the gates.
	OneSet Way = "one-set"
	// Custom lists the gates.
	Custom Way = "custom"
)

// Ways are all ways, the preferred one first.
var Ways = []Way{TwoSets, OneSet, Custom}

// properties of a way.
type properties struct {
	// sets are the values of spec.featureSet that lead from off to on.
	sets []configv1.FeatureSet
	// single says that plugins can be switched one by one.
	single bool
	// noReturn says that the feature set cannot be left, and that it prevents updates of the cluster.
	noReturn bool
	does     string
}

var ways = map[Way]properties{
	TwoSets: {sets: []configv1.FeatureSet{controlPlaneSet, nodeSet}, does: "feature sets CSIMigrationControlPlane and CSIMigrationNode, one after the other; they switch all plugins"},
	OneSet: {sets: []configv1.FeatureSet{configv1.TechPreviewNoUpgrade}, noReturn: true,
		does: "feature set TechPreviewNoUpgrade; it switches all plugins, and all other previews of this version"},
	Custom: {sets: []configv1.FeatureSet{configv1.CustomNoUpgrade}, noReturn: true, single: true, does: "feature set CustomNoUpgrade with the feature gates"},
}

// plugins returns the drivers with in-tree volumes, sorted by name.
func plugins() []drivers.Driver {
	return slices.DeleteFunc(registry.All(), func(d drivers.Driver) bool { return d.InTree.Gate == "" })
}

// isMigrated reports whether the gate of a plugin is on in an OpenShift version and cannot be switched off.
func isMigrated(d drivers.Driver, version semver.Version) bool {
	return minor(version).GTE(semver.MustParse(d.InTree.Migrated))
}

// isPreview reports whether the feature set for previews includes the gate of a plugin in an OpenShift version.
func isPreview(d drivers.Driver, version semver.Version) bool {
	return minor(version).GTE(semver.MustParse(d.InTree.Preview)) && !isMigrated(d, version)
}

// isPatched reports whether an OpenShift version's Attach/Detach controller follows the nodes' reports.
func isPatched(version semver.Version) bool { return minor(version).GTE(patchedSince) }

// minor drops everything after the minor version, so that a release candidate counts as its release.
func minor(version semver.Version) semver.Version {
	return semver.Version{Major: version.Major, Minor: version.Minor}
}
