package prediction

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestPredict covers reasons outside the catalog that block OLM. In each case tide.v0.0.0 is installed, and the catalog has an
// upgrade edge from it to tide.v1.0.0.
func TestPredict(t *testing.T) {
	c := tide(t)
	for name, test := range map[string]struct {
		change func(*State)
		want   Reaction
		// says is part of the reason, or of the warning.
		says string
	}{
		"nothing":                      {func(*State) {}, Updates, ""},
		"installedCSV not yet written": {func(st *State) { st.Subscriptions[0].Status.InstalledCSV = "" }, Updates, ""},
		"manual approval": {func(st *State) { st.Subscriptions[0].Spec.InstallPlanApproval = v1alpha1.ApprovalManual }, Waits,
			"OLM creates an InstallPlan that waits for approval"},
		"manual approval elsewhere": {func(st *State) { other(st).Spec.InstallPlanApproval = v1alpha1.ApprovalManual }, Waits,
			"because Subscription ebb of the same namespace requires it"},
		"pending plan": {func(st *State) { addPendingInstallPlan(st, "tide.v0.9.0") }, Waits,
			"InstallPlan install-1, for tide.v0.9.0, is not complete; until it is, OLM does not read the catalog"},
		"pending plan for what is refused": {func(st *State) {
			addPendingInstallPlan(st, "tide.v0.9.0")
			st.Subscriptions[0].Spec.Channel = "slow"
		}, Waits, "until it is, OLM does not read the catalog"},
		"pending plan that is gone": {func(st *State) { addPendingInstallPlan(st, "tide.v0.9.0"); st.InstallPlans = nil }, Waits,
			"InstallPlan install-1 was deleted, but OLM still waits for it and does not read the catalog"},
		"pending plan that is gone, which OLM notices": {func(st *State) {
			addPendingInstallPlan(st, "tide.v0.9.0")
			st.InstallPlans = nil
			st.Subscriptions[0].Status.Conditions = []v1alpha1.SubscriptionCondition{{Type: v1alpha1.SubscriptionInstallPlanPending, Status: corev1.ConditionTrue}}
		}, Updates, ""},
		"pending plan and another Subscription": {func(st *State) { addPendingInstallPlan(st, "tide.v0.9.0"); other(st) }, Updates, ""},
		"no OperatorGroup":                      {func(st *State) { st.OperatorGroups = nil }, Refused, "namespace default has 0 OperatorGroups, and OLM requires exactly one"},
		"two OperatorGroups": {func(st *State) { st.OperatorGroups = append(st.OperatorGroups, group("more")) }, Refused,
			"namespace default has 2 OperatorGroups, and OLM requires exactly one"},
		"not upgradeable": {func(st *State) { st.Conditions = condition(metav1.ConditionFalse, nil) }, Waits, "tide.v0.0.0 has set condition Upgradeable to False: it is busy"},
		"upgradeable":     {func(st *State) { st.Conditions = condition(metav1.ConditionTrue, nil) }, Updates, ""},
		"upgradeable by override": {func(st *State) {
			st.Conditions = condition(metav1.ConditionFalse, []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: metav1.ConditionTrue}})
		}, Updates, ""},
		"old Kubernetes": {func(st *State) { st.Kubernetes = &semver.Version{Major: 1, Minor: 24} }, Waits,
			"tide.v1.0.0 requires Kubernetes 1.25.0 or later, and the cluster runs 1.24.0"},
		"new Kubernetes": {func(st *State) { st.Kubernetes = &semver.Version{Major: 1, Minor: 25} }, Updates, ""},
		"install mode": {func(st *State) { st.OperatorGroups[0].Status.Namespaces = []string{"default"} }, Waits,
			"tide.v1.0.0 does not support the target namespaces of OperatorGroup all: OwnNamespace InstallModeType not supported"},
		"all namespaces": {func(st *State) { st.OperatorGroups[0].Status.Namespaces = []string{""} }, Updates, ""},
		"second Subscription": {func(st *State) {
			second := st.Subscriptions[0].DeepCopy()
			second.Name, second.Spec.Channel, second.Status = "again", "fast", v1alpha1.SubscriptionStatus{}
			st.Subscriptions = append(st.Subscriptions, second)
		}, Refused, `Subscription again is for package "tide", too`},
		"Subscription recreated": {func(st *State) { st.Subscriptions[0].Status = v1alpha1.SubscriptionStatus{} }, Refused,
			"ClusterServiceVersion tide.v0.0.0 is of this package, and no Subscription has it installed"},
		"other Subscription": {func(st *State) {
			s := other(st)
			s.Spec.Channel = "gone"
			st.Catalogs[sourceOf(s)] = c
		}, Refused, `OLM resolves all Subscriptions of the namespace together, and cannot resolve Subscription ebb: the catalog has no package "ebb"`},
		"startingCSV": {func(st *State) {
			st.CSVs, st.Subscriptions[0].Status = nil, v1alpha1.SubscriptionStatus{}
			st.Subscriptions[0].Spec.StartingCSV = "tide.v7.0.0"
		}, Refused, `channel "stable" has no entry "tide.v7.0.0", which spec.startingCSV of the Subscription names`},
		"API of another operator": {func(st *State) {
			st.CSVs = append(st.CSVs, &v1alpha1.ClusterServiceVersion{
				ObjectMeta: metav1.ObjectMeta{Name: "moon.v1.0.0", Namespace: st.Namespace},
				Spec: v1alpha1.ClusterServiceVersionSpec{CustomResourceDefinitions: v1alpha1.CustomResourceDefinitions{
					Owned: []v1alpha1.CRDDescription{{Name: "tides.sea.example.com", Kind: "Tide", Version: "v1"}},
				}},
			})
		}, Stranded, "the next version is tide.v1.0.0, but OLM cannot install it: "},
		"catalog out of reach": {func(st *State) { unreachableSource(st, st.Namespace) }, Refused,
			"OLM cannot reach CatalogSource broken in namespace default (its connection is CONNECTING)"},
		"catalog never reached": {func(st *State) { unreachableSource(st, st.Namespace).Status.GRPCConnectionState = nil }, Refused,
			"OLM cannot reach CatalogSource broken in namespace default (its connection is not made yet)"},
		"idle catalog": {func(st *State) {
			unreachableSource(st, st.Namespace).Status.GRPCConnectionState.LastObservedState = "IDLE"
		}, Updates, ""},
		"global catalog out of reach": {func(st *State) { unreachableSource(st, "marketplace") }, Refused,
			"OLM cannot reach CatalogSource broken in namespace marketplace"},
		"excluded global catalog out of reach": {func(st *State) {
			unreachableSource(st, "marketplace")
			st.OperatorGroups[0].Annotations = map[string]string{withoutGlobal: "true"}
		}, Updates, ""},
		"the same API elsewhere": {func(st *State) { elsewhere(st, "Tide.v1.sea.example.com") }, Waits,
			"an operator in namespace harbour already provides Tide.v1.sea.example.com, and OperatorGroups all and harbour/all have target namespaces in common: OLM chooses tide.v1.0.0, which then fails"},
		"the same version elsewhere": {func(st *State) {
			elsewhere(st, "Tide.v1.sea.example.com").CSVs = []*v1alpha1.ClusterServiceVersion{{ObjectMeta: metav1.ObjectMeta{Name: "tide.v1.0.0"}}}
		}, Waits, "but takes the copy of the other namespace's ClusterServiceVersion for it: no operator runs here"},
		"another API elsewhere": {func(st *State) { elsewhere(st, "Moon.v1.sea.example.com") }, Updates, ""},
		"global catalogs excluded": {func(st *State) {
			st.OperatorGroups[0].Annotations = map[string]string{"olm.operatorframework.io/exclude-global-namespace-resolution": "true"}
			st.Subscriptions[0].Spec.CatalogSourceNamespace = "marketplace"
			st.Catalogs[sourceOf(st.Subscriptions[0])] = c
		}, Refused, "no operators found from catalog this-catalog in namespace marketplace"},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := Installed(c, "tide", "0.0.0", "")
			require.NoError(t, err)
			test.change(st)
			predictions, err := st.Predict(t.Context())
			require.NoError(t, err)
			got := predictions[0]
			var said []string
			for _, reason := range append(got.Blockers, got.Why...) {
				said = append(said, reason.What)
			}
			if slices.ContainsFunc(append(got.Blockers, got.Why...), func(r Reason) bool { return r.Code == "" }) {
				t.Errorf("a reason has no code: %+v, %+v", got.Blockers, got.Why)
			}
			if got.Reaction != test.want || !strings.Contains(strings.Join(said, "\n"), test.says) || (test.says == "") != (len(said) == 0) {
				t.Errorf("got %s: %q, want %s: %q", got.Reaction, said, test.want, test.says)
			}
			if got.Reaction == Refused && got.Message == "" {
				t.Error("the prediction has no message")
			}
		})
	}
}

// TestRisks covers the risks of predictions.
func TestRisks(t *testing.T) {
	for name, test := range map[string]struct {
		// openShift is the version of the cluster, and max the latest one that tide.v1.0.0 supports.
		openShift, max string
		change         func(*State)
		want           Code
	}{
		"no OpenShift":                 {"", `"4.21"`, nil, ""},
		"supports the next OpenShift":  {"4.21.3", `"4.22"`, nil, ""},
		"supports this OpenShift only": {"4.22.3", `"4.22"`, nil, OpenShiftHeldBack},
		"a number":                     {"4.22.3", `4.22`, nil, OpenShiftHeldBack},
		"no version":                   {"4.22.3", `"latest"`, nil, OpenShiftHeldBack},
		"5.0 is 4.23":                  {"4.22.3", `"5.0"`, nil, ""},
		"5.0 is 4.23, the other way":   {"5.0.1", `"4.23"`, nil, OpenShiftHeldBack},
		"4.23 and 5.0 are one step":    {"4.23.1", `"5.0"`, nil, OpenShiftHeldBack},
		"after 4.23 comes 5.1":         {"4.23.1", `"5.1"`, nil, ""},
		"after 5.0 comes 5.1":          {"5.0.1", `"5.1"`, nil, ""},
		"5.0 only":                     {"5.0.1", `"5.0"`, nil, OpenShiftHeldBack},
		"no property":                  {"4.22.3", "", nil, ""},
		"the same package elsewhere":   {"", "", func(st *State) { elsewhere(st, "").Subscriptions = st.Subscriptions }, SecondSubscriptionElsewhere},
		"an earlier rebuild":           {"", "", func(st *State) { st.CSVs[0].Spec.Version.Version = semver.MustParse("1.0.0+2") }, Downgrade},
		"another package elsewhere":    {"", "", func(st *State) { elsewhere(st, "").Subscriptions = []*v1alpha1.Subscription{other(st)} }, ""},
		"the same package, no overlap": {"", "", func(st *State) {
			there := elsewhere(st, "")
			there.Subscriptions, there.OperatorGroups[0].Status.Namespaces = st.Subscriptions, []string{"harbour"}
			st.OperatorGroups[0].Status.Namespaces = nil
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bundle := catalogs.Bundle("tide", "tide.v1.0.0")
			if test.max != "" {
				bundle.Properties = append(bundle.Properties, property.Property{Type: maxOpenShift, Value: []byte(test.max)})
			}
			dir := t.TempDir()
			catalogs.WriteConfig(t, dir, declcfg.DeclarativeConfig{
				Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "tide", DefaultChannel: "stable"}},
				Channels: []declcfg.Channel{{Schema: declcfg.SchemaChannel, Package: "tide", Name: "stable",
					Entries: []declcfg.ChannelEntry{{Name: "tide.v1.0.0", Replaces: "tide.v0.0.0"}}}},
				Bundles: []declcfg.Bundle{bundle},
			})
			st, err := Installed(read(t, dir), "tide", "0.0.0", "")
			require.NoError(t, err)
			if test.openShift != "" {
				version := semver.MustParse(test.openShift)
				st.OpenShift = &version
			}
			if test.change != nil {
				test.change(st)
			}
			predictions, err := st.Predict(t.Context())
			require.NoError(t, err)
			var got Code
			for _, risk := range predictions[0].Risks {
				got += risk.Code
			}
			if got != test.want || predictions[0].Reaction != Updates {
				t.Errorf("got %s with risks %q, want %s with %q", predictions[0].Reaction, got, Updates, test.want)
			}
		})
	}
}

// TestOverlap: OLM adds the OperatorGroup's own namespace to specific target namespaces.
func TestOverlap(t *testing.T) {
	for name, test := range map[string]struct {
		a, b []string
		want bool
	}{
		"all and all":         {[]string{""}, []string{""}, true},
		"all and one":         {[]string{""}, []string{"quay"}, true},
		"one and all":         {[]string{"quay"}, []string{""}, true},
		"one and another":     {[]string{"quay"}, []string{"pier"}, false},
		"one in common":       {[]string{"quay", "pier"}, []string{"pier"}, true},
		"the other's own":     {[]string{"quay"}, []string{"default"}, true},
		"none yet and all":    {nil, []string{""}, false},
		"all and none so far": {[]string{""}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := group("a"), group("b")
			a.Status.Namespaces, b.Status.Namespaces, b.Namespace = test.a, test.b, "harbour"
			assert.Equal(t, test.want, overlap(a, b))
		})
	}
}

// TestWithSpec: it changes a copy, and keeps the status of the Subscription.
func TestWithSpec(t *testing.T) {
	c := tide(t)
	st, err := Installed(c, "tide", "0.0.0", "")
	require.NoError(t, err)
	addPendingInstallPlan(st, "tide.v0.9.0")
	st.Subscriptions[0].Status.InstalledCSV = "tide.v0.0.0"
	changed, err := st.WithSpec("tide", func(s *v1alpha1.SubscriptionSpec) { s.Channel = "fast" })
	require.NoError(t, err)
	if before, after := st.Subscriptions[0], changed.Subscriptions[0]; before.Spec.Channel != "stable" || after.Spec.Channel != "fast" || after.Status.InstallPlanRef == nil {
		t.Errorf("before %+v, after %+v", before, after)
	}
	_, err = st.WithSpec("ebb", func(*v1alpha1.SubscriptionSpec) {})
	assert.EqualError(t, err, "namespace default has no Subscription ebb")
}

// TestLaterUpdates runs the resolver for each update of a long path.
func TestLaterUpdates(t *testing.T) {
	entries := []declcfg.ChannelEntry{{Name: "tide.v0.0.0"}}
	for i := 1; i < 20; i++ {
		entries = append(entries, declcfg.ChannelEntry{Name: fmt.Sprintf("tide.v%d.0.0", i), Replaces: fmt.Sprintf("tide.v%d.0.0", i-1)})
	}
	st, err := Installed(channelOf(t, entries), "tide", "0.0.0", "")
	require.NoError(t, err)
	predictions, err := st.Predict(t.Context())
	require.NoError(t, err)
	if got := predictions[0]; len(got.Then) != 18 || !got.ReachesHead || got.Then[17].Name != "tide.v19.0.0" {
		t.Errorf("got %+v", got)
	}
}

// TestNoDefaultChannel: if neither the package nor the Subscription names a channel, OLM looks in all of them.
func TestNoDefaultChannel(t *testing.T) {
	dir := t.TempDir()
	catalogs.WriteConfig(t, dir, declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "tide"}},
		Channels: []declcfg.Channel{{Schema: declcfg.SchemaChannel, Package: "tide", Name: "stable", Entries: []declcfg.ChannelEntry{{Name: "tide.v1.0.0"}}}},
		Bundles:  []declcfg.Bundle{catalogs.Bundle("tide", "tide.v1.0.0")},
	})
	c, _, err := fbc.Read(t.Context(), dir) // the missing default channel is a finding
	require.NoError(t, err)
	for installed, want := range map[string]Reaction{"": Installs, "1.0.0": Stranded} {
		st, err := Installed(c, "tide", installed, "")
		require.NoError(t, err)
		predictions, err := st.Predict(t.Context())
		require.NoError(t, err)
		got := predictions[0]
		if got.Reaction != want || want == Stranded && !strings.Contains(got.Why[0].What, "names no channel") {
			t.Errorf("%q is installed: got %s: %+v, want %s", installed, got.Reaction, got.Why, want)
		}
	}
}

// tide is a catalog with an upgrade edge from tide.v0.0.0, which it does not contain, to tide.v1.0.0. Another channel has
// tide.v2.0.0.
func tide(t *testing.T) *fbc.Catalog {
	t.Helper()
	bundle := catalogs.Bundle("tide", "tide.v1.0.0")
	bundle.Properties = append(bundle.Properties,
		property.MustBuildGVK("sea.example.com", "v1", "Tide"),
		property.MustBuildCSVMetadata(v1alpha1.ClusterServiceVersion{Spec: v1alpha1.ClusterServiceVersionSpec{
			MinKubeVersion: "1.25.0",
			InstallModes:   []v1alpha1.InstallMode{{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}},
		}}))
	dir := t.TempDir()
	catalogs.WriteConfig(t, dir, declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "tide", DefaultChannel: "stable"}},
		Channels: []declcfg.Channel{
			{Schema: declcfg.SchemaChannel, Package: "tide", Name: "stable", Entries: []declcfg.ChannelEntry{{Name: "tide.v1.0.0", Replaces: "tide.v0.0.0"}}},
			{Schema: declcfg.SchemaChannel, Package: "tide", Name: "fast", Entries: []declcfg.ChannelEntry{{Name: "tide.v2.0.0"}}},
		},
		Bundles: []declcfg.Bundle{bundle, catalogs.Bundle("tide", "tide.v2.0.0")},
	})
	return read(t, dir)
}

func read(t *testing.T, dir string) *fbc.Catalog {
	t.Helper()
	c, found, err := fbc.Read(t.Context(), dir)
	require.NoError(t, err)
	require.Empty(t, found)
	return c
}

// other adds a Subscription with something installed from a catalog that was not read.
func other(st *State) *v1alpha1.Subscription {
	s := st.Subscriptions[0].DeepCopy()
	s.Name, s.Spec.Package, s.Spec.CatalogSource = "ebb", "ebb", "elsewhere"
	s.Status = v1alpha1.SubscriptionStatus{InstalledCSV: "ebb.v1.0.0", CurrentCSV: "ebb.v1.0.0"}
	st.Subscriptions = append(st.Subscriptions, s)
	st.CSVs = append(st.CSVs, &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "ebb.v1.0.0", Namespace: st.Namespace}})
	return s
}

// unreachableSource adds a catalog that OLM cannot reach.
func unreachableSource(st *State, namespace string) *v1alpha1.CatalogSource {
	s := &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Name: "broken", Namespace: namespace},
		Status: v1alpha1.CatalogSourceStatus{GRPCConnectionState: &v1alpha1.GRPCConnectionState{LastObservedState: "CONNECTING"}}}
	st.CatalogSources = append(st.CatalogSources, s)
	return s
}

// elsewhere adds a namespace, harbour, whose OperatorGroup also targets all namespaces, and whose operators provide some APIs.
func elsewhere(st *State, apis string) *State {
	st.OperatorGroups[0].Status.Namespaces = []string{""}
	all := group("all")
	all.Annotations = map[string]string{operatorsv1.OperatorGroupProvidedAPIsAnnotationKey: apis}
	all.Status.Namespaces = []string{""}
	there := &State{Namespace: "harbour", OperatorGroups: []*operatorsv1.OperatorGroup{all}}
	st.WithGroup = append(st.WithGroup, there)
	return there
}

// addPendingInstallPlan gives the first Subscription an InstallPlan that is not approved.
func addPendingInstallPlan(st *State, csv string) {
	s := st.Subscriptions[0]
	st.InstallPlans = []*v1alpha1.InstallPlan{{ObjectMeta: metav1.ObjectMeta{Name: "install-1", UID: "1"}}}
	s.Status.CurrentCSV = csv
	s.Status.State = v1alpha1.SubscriptionStateUpgradePending
	s.Status.InstallPlanRef = &corev1.ObjectReference{Name: "install-1", UID: "1"}
}

func group(name string) *operatorsv1.OperatorGroup {
	return &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: hypotheticalNamespace}}
}

func condition(status metav1.ConditionStatus, overrides []metav1.Condition) []*operatorsv2.OperatorCondition {
	return []*operatorsv2.OperatorCondition{{
		ObjectMeta: metav1.ObjectMeta{Name: "tide.v0.0.0", Namespace: hypotheticalNamespace},
		Spec:       operatorsv2.OperatorConditionSpec{Overrides: overrides},
		Status:     operatorsv2.OperatorConditionStatus{Conditions: []metav1.Condition{{Type: operatorsv2.Upgradeable, Status: status, Message: "it is busy"}}},
	}}
}
