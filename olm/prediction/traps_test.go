package prediction

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/olm/installplan"
	"github.com/berth-csi/berth/test/catalogs/operators"
)

// trap is a case in which OLM does not do what people expect when they point a Subscription, buoy, to another catalog.
type trap struct {
	name     string
	reaction Reaction
	code     Code // of a reason, blocker or risk
	// targets returns the target namespaces of the OperatorGroup. The default is its own.
	targets func(string) []string
	// before prepares the namespace.
	before func(*scene)
	// change changes the Subscription. The default is toSecond.
	change func(*v1alpha1.SubscriptionSpec)
	// changeState changes the observed State and act the cluster, for traps without a change of the spec.
	changeState func(*State)
	act         func(*scene)
	// happened waits for OLM's reaction, and describes it.
	happened func(s *scene, p *Prediction) string
	// fix takes the prediction's advice, and updatesTo is the version that OLM then installs.
	fix       func(*scene)
	updatesTo string
}

func toSecond(spec *v1alpha1.SubscriptionSpec) { spec.CatalogSource = "second" }

// follows is an entry with an upgrade edge from buoy.v1.0.0.
func follows(name string) declcfg.ChannelEntry {
	return declcfg.ChannelEntry{Name: name, Replaces: "buoy.v1.0.0"}
}

var traps = []trap{
	{
		name: "The new channel has no upgrade edge from the installed version", reaction: Stranded, code: NoEdge,
		before: func(s *scene) {
			s.install("buoy.v1.0.0")
			s.serve("second", operators.Entries(s.T, declcfg.ChannelEntry{Name: "buoy.v2.0.0"}))
		},
		happened: unchanged,
	},
	{
		name: "An InstallPlan waits for approval when the source is changed", reaction: Waits, code: PendingInstallPlan,
		before: func(s *scene) {
			s.install("buoy.v1.0.0")
			s.changeOf("buoy", func(spec *v1alpha1.SubscriptionSpec) { spec.InstallPlanApproval = v1alpha1.ApprovalManual })
			s.serve("between", operators.Entries(s.T, follows("buoy.v1.1.0")))
			s.changeOf("buoy", func(spec *v1alpha1.SubscriptionSpec) { spec.CatalogSource = "between" })
			s.awaitInstallPlan(v1alpha1.InstallPlanPhaseRequiresApproval)
			s.serve("second", operators.Entries(s.T, follows("buoy.v1.2.0")))
		},
		happened: func(s *scene, _ *Prediction) string {
			s.awaitSync(upToDate)
			plan := s.awaitInstallPlan(v1alpha1.InstallPlanPhaseRequiresApproval)
			return fmt.Sprintf("OLM does not read the new catalog; InstallPlan for %s stays in phase %s",
				strings.Join(plan.Spec.ClusterServiceVersionNames, ", "), plan.Status.Phase)
		},
		fix: func(s *scene) {
			s.delete(s.awaitInstallPlan(v1alpha1.InstallPlanPhaseRequiresApproval))
			s.approve("buoy.v1.2.0")
		},
		updatesTo: "buoy.v1.2.0",
	},
	{
		name: "The InstallPlan that OLM waits for was deleted", reaction: Waits, code: InstallPlanGone,
		before: func(s *scene) {
			s.install("buoy.v1.0.0")
			s.serve("second", operators.Entries(s.T, follows("buoy.v1.1.0")))
			s.loseInstallPlan("buoy.v1.0.1")
		},
		happened: func(s *scene, _ *Prediction) string {
			s.awaitSync(upToDate)
			status := s.subscription(s.Context(), s.cluster.Client(), "buoy").Status
			return fmt.Sprintf("OLM does not read the new catalog; the Subscription stays %s with %s", status.State, status.InstalledCSV)
		},
		fix: func(s *scene) {
			subscription := s.subscription(s.Context(), s.cluster.Client(), "buoy")
			if err := s.cluster.Client().Status().Patch(s.Context(), subscription, client.RawPatch(types.MergePatchType, []byte(installplan.ResetPatch))); err != nil {
				s.Fatal(err)
			}
		},
		updatesTo: "buoy.v1.1.0",
	},
	{
		name: "Another Subscription of the namespace has manual approval", reaction: Waits, code: ManualApprovalElsewhere,
		before: func(s *scene) {
			s.install("buoy.v1.0.0")
			s.serve("others", operators.Write(s.T, "float", operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: "float.v1.0.0"}}))
			s.subscribe("float", "others")
			s.awaitInstalled("float", "float.v1.0.0")
			s.changeOf("float", func(spec *v1alpha1.SubscriptionSpec) { spec.InstallPlanApproval = v1alpha1.ApprovalManual })
			s.serve("second", operators.Entries(s.T, follows("buoy.v1.1.0")))
		},
		happened: func(s *scene, _ *Prediction) string {
			plan := s.awaitInstallPlan(v1alpha1.InstallPlanPhaseRequiresApproval)
			return fmt.Sprintf("InstallPlan for %s is in phase %s", strings.Join(plan.Spec.ClusterServiceVersionNames, ", "), plan.Status.Phase)
		},
		fix:       func(s *scene) { s.approve("buoy.v1.1.0") },
		updatesTo: "buoy.v1.1.0",
	},
	{
		name: "A second Subscription of the namespace is for the same package", reaction: Refused, code: SecondSubscription,
		before: func(s *scene) {
			s.install("buoy.v1.0.0")
			s.serve("second", operators.Entries(s.T, follows("buoy.v1.1.0")))
		},
		changeState: func(st *State) {
			second := st.Subscriptions[0].DeepCopy()
			second.Name, second.Spec.CatalogSource, second.Status = "buoy-again", "second", v1alpha1.SubscriptionStatus{}
			st.Subscriptions = append(st.Subscriptions, second)
		},
		act: func(s *scene) {
			s.subscribe("buoy", "second", func(second *v1alpha1.Subscription) { second.Name = "buoy-again" })
		},
		happened: refused,
		fix: func(s *scene) {
			s.delete(&v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: "buoy-again", Namespace: s.namespace}})
			s.change(toSecond)
		},
		updatesTo: "buoy.v1.1.0",
	},
	{
		name: "An operator of another namespace, whose OperatorGroup overlaps, provides the same APIs", reaction: Waits, code: ProvidedElsewhere,
		targets: all,
		before: func(s *scene) {
			modes := []v1alpha1.InstallModeType{v1alpha1.InstallModeTypeAllNamespaces}
			// OLM copies it to all namespaces, whose own operators have other names.
			newScene(s.T, s.cluster, s.watched, all).install("beacon.v1.0.0",
				operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: "beacon.v1.0.0"}, Modes: modes, Definition: s.moorings("v1")})
			s.serve("second", operators.Write(s.T, "buoy", operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: "buoy.v1.0.1"}, Modes: modes, Definition: s.moorings("v1")}))
			s.subscribe("buoy", "not-yet-there")
		},
		happened: func(s *scene, p *Prediction) string {
			status := s.awaitPhase(p.Next.Name, v1alpha1.CSVPhaseFailed)
			return fmt.Sprintf("%s is %s: %s, %s", p.Next.Name, status.Phase, status.Reason, status.Message)
		},
	},
	{
		name: "OLM cannot reach one of the catalogs that it uses", reaction: Refused, code: SourceUnreachable,
		before: func(s *scene) {
			s.install("buoy.v1.0.0")
			s.serve("second", operators.Entries(s.T, follows("buoy.v1.1.0")))
			s.offer("broken", "127.0.0.1:1", func(state string) bool { return state == "TRANSIENT_FAILURE" })
		},
		happened: func(s *scene, p *Prediction) string {
			return refusedBy(s, p, func(said string) bool {
				return strings.HasPrefix(said, p.Message)
			})
		},
	},
	{
		name: "The package has no such channel", reaction: Refused, code: ChannelAbsent,
		before: func(s *scene) {
			s.install("buoy.v1.0.0")
			s.serve("second", operators.Entries(s.T, follows("buoy.v1.1.0")))
		},
		change:   func(spec *v1alpha1.SubscriptionSpec) { spec.CatalogSource, spec.Channel = "second", "fast" },
		happened: refused,
	},
	{
		name: "The catalog has the operator under another package name", reaction: Refused, code: PackageAbsent,
		before: func(s *scene) {
			s.install("buoy.v1.0.0", operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: "buoy.v1.0.0"}, Definition: s.moorings("v1")})
			s.serve("second", operators.Write(s.T, "buoy-certified", operators.Bundle{Definition: s.moorings("v1"),
				ChannelEntry: declcfg.ChannelEntry{Name: "buoy-certified.v1.1.0", Replaces: "buoy.v1.0.0"}}))
		},
		happened: refused,
		fix: func(s *scene) {
			s.change(func(spec *v1alpha1.SubscriptionSpec) { spec.Package = "buoy-certified" })
		},
		updatesTo: "buoy-certified.v1.1.0",
	},
	{
		name: "There is no such CatalogSource", reaction: Refused, code: SourceMissing,
		before:   func(s *scene) { s.install("buoy.v1.0.0") },
		happened: refused,
	},
	{
		name: "The Subscription is deleted and recreated", reaction: Refused, code: OrphanedCSV,
		before: func(s *scene) {
			s.install("buoy.v1.0.0")
			s.serve("second", operators.Entries(s.T, follows("buoy.v1.1.0")))
		},
		changeState: func(st *State) {
			st.Subscriptions[0].Status = v1alpha1.SubscriptionStatus{}
			toSecond(st.Subscriptions[0].Spec)
		},
		act: func(s *scene) {
			s.delete(&v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: "buoy", Namespace: s.namespace}})
			s.subscribe("buoy", "second")
		},
		happened: refused,
		fix: func(s *scene) {
			s.delete(&v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "buoy.v1.0.0", Namespace: s.namespace}})
			s.patch(s.subscription(s.Context(), s.cluster.Client(), "buoy"), `{"metadata":{"annotations":{"resolve":"again"}}}`)
		},
		updatesTo: "buoy.v1.1.0",
	},
	{
		name: "A custom resource is invalid under the new CRD", reaction: Waits, code: InvalidObjects,
		before: func(s *scene) {
			s.install("buoy.v1.0.0", operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: "buoy.v1.0.0"}, Definition: s.moorings("v1")})
			s.create(s.mooring("v1"))
			stricter := s.moorings("v1")
			stricter.Required = []string{"chain"}
			s.serve("second", operators.Write(s.T, "buoy", operators.Bundle{ChannelEntry: follows("buoy.v1.1.0"), Definition: stricter}))
		},
		happened:  stuck("updated validation is too restrictive"),
		fix:       func(s *scene) { s.patch(s.mooring("v1"), `{"spec":{"chain":"10 m"}}`) },
		updatesTo: "buoy.v1.1.0",
	},
	{
		name: "The new CRD lacks a version that custom resources are stored in", reaction: Waits, code: StoredVersionRemoved,
		before: func(s *scene) {
			s.install("buoy.v1.0.0", operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: "buoy.v1.0.0"}, Definition: s.moorings("v1alpha1")})
			s.serve("second", operators.Write(s.T, "buoy", operators.Bundle{ChannelEntry: follows("buoy.v1.1.0"), Definition: s.moorings("v1")}))
		},
		happened: stuck("risk of data loss"),
	},
	{
		name: "The new CRD is of an API version that Kubernetes no longer serves", reaction: Waits, code: OldDefinition,
		before: func(s *scene) {
			s.install("buoy.v1.0.0")
			old := s.moorings("v1")
			old.APIVersion = "v1beta1"
			s.serve("second", operators.Write(s.T, "buoy", operators.Bundle{ChannelEntry: follows("buoy.v1.1.0"), Definition: old}))
		},
		happened: stuck("GroupVersionKind apiextensions.k8s.io/v1beta1, Kind=CustomResourceDefinition not found on the cluster"),
	},
	{
		name: "The next version is earlier than the installed one", reaction: Updates, code: Downgrade,
		before: func(s *scene) {
			s.install("buoy.v1.0.0")
			s.serve("second", operators.Entries(s.T, follows("buoy.v0.9.0")))
		},
		happened: updated,
	},
	{
		name: "The new catalog has a bundle of the same name as the installed one", reaction: Latest, code: SameCSV,
		before: func(s *scene) {
			s.install("buoy.v1.0.0", operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: "buoy.v1.0.0"}, Title: "Community buoy"})
			s.serve("second", operators.Write(s.T, "buoy", operators.Bundle{ChannelEntry: declcfg.ChannelEntry{Name: "buoy.v1.0.0"}, Title: "Certified buoy"}))
		},
		happened: func(s *scene, p *Prediction) string {
			happened := unchanged(s, p)
			csv := &v1alpha1.ClusterServiceVersion{}
			if err := s.cluster.Client().Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "buoy.v1.0.0"}, csv); err != nil {
				s.Fatal(err)
			}
			return fmt.Sprintf("%s; its name is still %q", happened, csv.Spec.DisplayName)
		},
	},
	{
		name: "Kubernetes is older than minKubeVersion", reaction: Waits, code: OldKubernetes,
		before: func(s *scene) {
			s.install("buoy.v1.0.0")
			s.serve("second", operators.Write(s.T, "buoy", operators.Bundle{ChannelEntry: follows("buoy.v1.1.0"), Kubernetes: "1.99.0"}))
		},
		happened: func(s *scene, p *Prediction) string {
			status := s.awaitPhase(p.Next.Name, v1alpha1.CSVPhasePending)
			i := slices.IndexFunc(status.RequirementStatus, func(r v1alpha1.RequirementStatus) bool {
				return r.Status == v1alpha1.RequirementStatusReasonPresentNotSatisfied
			})
			if i < 0 {
				s.Fatalf("its requirements are %+v", status.RequirementStatus)
			}
			return fmt.Sprintf("%s is %s: %s", p.Next.Name, status.Phase, status.RequirementStatus[i].Message)
		},
	},
	{
		name: "The operator does not support the next minor version of OpenShift", reaction: Updates, code: OpenShiftHeldBack,
		before: func(s *scene) {
			s.install("buoy.v1.0.0")
			s.serve("second", operators.Write(s.T, "buoy", operators.Bundle{ChannelEntry: follows("buoy.v1.1.0"),
				Properties: []property.Property{{Type: maxOpenShift, Value: []byte(`"5.0"`)}}}))
		},
		happened: func(s *scene, p *Prediction) string {
			happened := updated(s, p)
			condition := ""
			cluster.Eventually(s, limit, "OLM to block updates of OpenShift", func(ctx context.Context) error {
				olm := &configv1.ClusterOperator{}
				if err := s.watched.Get(ctx, client.ObjectKey{Name: "operator-lifecycle-manager"}, olm); err != nil {
					return err
				}
				for _, c := range olm.Status.Conditions {
					if c.Type == configv1.OperatorUpgradeable && c.Status == configv1.ConditionFalse && strings.Contains(c.Message, s.namespace+"/"+p.Next.Name) {
						condition = fmt.Sprintf("ClusterOperator %s has %s %s: %s", olm.Name, c.Type, c.Status, c.Reason)
						return nil
					}
				}
				return fmt.Errorf("its conditions are %+v", olm.Status.Conditions)
			})
			return happened + "; " + condition
		},
	},
	{
		name: "Nothing provides what the next version requires", reaction: Stranded, code: DependencyMissing,
		before: func(s *scene) {
			s.install("buoy.v1.0.0")
			s.serve("second", operators.Write(s.T, "buoy", operators.Bundle{ChannelEntry: follows("buoy.v1.1.0"),
				Properties: []property.Property{property.MustBuildPackageRequired("moon", ">=1.0.0")}}))
		},
		happened: unchanged,
	},
}

// TestTraps compares the prediction for each trap with the real OLM, and writes the table in the documentation.
func TestTraps(t *testing.T) {
	type place struct {
		*cluster.Cluster
		watched client.Reader
	}
	var places []place // OLM limits its own requests, so two get there sooner than one
	for _, name := range []string{"", "second"} {
		c := cluster.Shared(t, cluster.Options{OLM: true, Name: name})
		places = append(places, place{c, watch(t, c)})
	}
	rows := make([]string, len(traps))
	shown := t.Run("all", func(t *testing.T) {
		for i, trap := range traps {
			t.Run(trap.name, func(t *testing.T) {
				t.Parallel()
				at := places[i%len(places)]
				rows[i] = trap.show(t, at.Cluster, at.watched)
			})
		}
	})
	if shown {
		checkTable(t, "../../docs/move/switch.md", rows)
	}
}

// show runs a trap and returns its row of the table.
func (trap trap) show(t *testing.T, c *cluster.Cluster, watched client.Reader) string {
	targets := trap.targets
	if targets == nil {
		targets = own
	}
	s := newScene(t, c, watched, targets)
	trap.before(s)

	change := trap.change
	if change == nil {
		change = toSecond
	}
	st := s.observe()
	if trap.changeState != nil {
		trap.changeState(st)
	} else {
		var err error
		if st, err = st.WithSpec("buoy", change); err != nil {
			t.Fatal(err)
		}
	}
	predicted := s.predict(st, "buoy")
	reasons := slices.Concat(predicted.Why, predicted.Blockers, predicted.Risks)
	at := slices.IndexFunc(reasons, func(r Reason) bool { return r.Code == trap.code })
	if predicted.Reaction != trap.reaction || at < 0 {
		t.Fatalf("predicted %s, %+v; want %s, %s", predicted.Reaction, reasons, trap.reaction, trap.code)
	}

	if trap.act != nil {
		trap.act(s)
	} else {
		s.change(change)
	}
	happened := trap.happened(s, predicted)
	if trap.fix != nil {
		trap.fix(s)
		s.awaitInstalled("buoy", trap.updatesTo)
	}
	cells := []string{trap.name, predicted.describe(reasons[at]), happened, reasons[at].Do}
	for i := range cells {
		cells[i] = normalize(s.namespace, cells[i])
	}
	return "| " + strings.Join(cells, " | ") + " |"
}
