package plan

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/cluster"
)

var update = flag.Bool("update", false, "write the table of traps")

// trap is something that keeps OLM from updating an operator as people expect when they give its
// Subscription, buoy, another catalog.
type trap struct {
	name    string
	verdict Verdict
	code    Code // of a reason, hold or risk
	// targets are the namespaces of the OperatorGroup, its own if it is nil.
	targets func(string) []string
	// before prepares the namespace.
	before func(*stage)
	// change is what somebody does to the Subscription. Without, it is another source, second.
	change func(*v1alpha1.SubscriptionSpec)
	// world changes what is foretold from, and act the cluster, where it is not that change.
	world func(*World)
	act   func(*stage)
	// happened waits until OLM has done what it does, and says what that was.
	happened func(s *stage, o *Outcome, since int64) string
}

func toSecond(spec *v1alpha1.SubscriptionSpec) { spec.CatalogSource = "second" }

// follows is an entry that OLM updates to from buoy.v1.0.0.
func follows(name string) declcfg.ChannelEntry {
	return declcfg.ChannelEntry{Name: name, Replaces: "buoy.v1.0.0"}
}

var traps = []trap{
	{
		name: "No entry of the new channel leads on from what is installed", verdict: Stranded, code: NoEdge,
		before: func(s *stage) {
			s.install("buoy.v1.0.0")
			s.serve("second", buoys(s.T, declcfg.ChannelEntry{Name: "buoy.v2.0.0"}))
		},
		happened: silence,
	},
	{
		name: "An InstallPlan waits for approval when the source is changed", verdict: Waits, code: PendingInstallPlan,
		before: func(s *stage) {
			s.install("buoy.v1.0.0")
			s.changeOf("buoy", func(spec *v1alpha1.SubscriptionSpec) { spec.InstallPlanApproval = v1alpha1.ApprovalManual })
			s.serve("between", buoys(s.T, follows("buoy.v1.1.0")))
			s.changeOf("buoy", func(spec *v1alpha1.SubscriptionSpec) { spec.CatalogSource = "between" })
			s.awaitPlan(v1alpha1.InstallPlanPhaseRequiresApproval)
			s.serve("second", buoys(s.T, follows("buoy.v1.2.0")))
		},
		happened: func(s *stage, _ *Outcome, since int64) string {
			s.awaitLook(since, skipped)
			plan := s.awaitPlan(v1alpha1.InstallPlanPhaseRequiresApproval)
			return fmt.Sprintf("OLM does not look at the new catalog; InstallPlan for %s stays in phase %s",
				strings.Join(plan.Spec.ClusterServiceVersionNames, ", "), plan.Status.Phase)
		},
	},
	{
		name: "Another Subscription of the namespace is Manual", verdict: Waits, code: ManualApprovalElsewhere,
		before: func(s *stage) {
			s.install("buoy.v1.0.0")
			s.serve("others", floating(s.T, "float", bundle{ChannelEntry: declcfg.ChannelEntry{Name: "float.v1.0.0"}}))
			s.subscribe("float", "others")
			s.awaitInstalled("float", "float.v1.0.0")
			s.changeOf("float", func(spec *v1alpha1.SubscriptionSpec) { spec.InstallPlanApproval = v1alpha1.ApprovalManual })
			s.serve("second", buoys(s.T, follows("buoy.v1.1.0")))
		},
		happened: func(s *stage, _ *Outcome, _ int64) string {
			plan := s.awaitPlan(v1alpha1.InstallPlanPhaseRequiresApproval)
			return fmt.Sprintf("InstallPlan for %s is in phase %s", strings.Join(plan.Spec.ClusterServiceVersionNames, ", "), plan.Status.Phase)
		},
	},
	{
		name: "A second Subscription of the namespace is to the same package", verdict: Refused, code: SecondSubscription,
		before: func(s *stage) {
			s.install("buoy.v1.0.0")
			s.serve("second", buoys(s.T, follows("buoy.v1.1.0")))
		},
		world: func(w *World) {
			second := w.Subscriptions[0].DeepCopy()
			second.Name, second.Spec.CatalogSource, second.Status = "buoy-again", "second", v1alpha1.SubscriptionStatus{}
			w.Subscriptions = append(w.Subscriptions, second)
		},
		act: func(s *stage) {
			s.subscribe("buoy", "second", func(second *v1alpha1.Subscription) { second.Name = "buoy-again" })
		},
		happened: refused,
	},
	{
		name: "An operator of another namespace, whose OperatorGroup overlaps, provides the same APIs", verdict: Waits, code: ProvidedElsewhere,
		targets: all,
		before: func(s *stage) {
			modes := []v1alpha1.InstallModeType{v1alpha1.InstallModeTypeAllNamespaces}
			newStage(s.T, s.cluster, all).install("buoy.v1.0.0",
				bundle{ChannelEntry: declcfg.ChannelEntry{Name: "buoy.v1.0.0"}, modes: modes, definition: s.moorings("v1")})
			s.serve("second", floating(s.T, "buoy", bundle{ChannelEntry: follows("buoy.v1.1.0"), modes: modes, definition: s.moorings("v1")}))
			s.subscribe("buoy", "not-yet-there")
		},
		happened: func(s *stage, o *Outcome, _ int64) string {
			status := s.awaitPhase(o.Next.Name, v1alpha1.CSVPhaseFailed)
			return fmt.Sprintf("%s is %s: %s, %s", o.Next.Name, status.Phase, status.Reason, status.Message)
		},
	},
	{
		name: "A catalog that OLM looks at cannot be reached", verdict: Refused, code: SourceUnreachable,
		before: func(s *stage) {
			s.install("buoy.v1.0.0")
			s.serve("second", buoys(s.T, follows("buoy.v1.1.0")))
			s.offer("broken", nobody(s.T), func(state string) bool { return state == "TRANSIENT_FAILURE" })
		},
		happened: func(s *stage, o *Outcome, _ int64) string {
			return refusedBy(s, o, func(said string) bool {
				return strings.HasPrefix(said, o.Message)
			})
		},
	},
	{
		name: "The package has no such channel", verdict: Refused, code: ChannelAbsent,
		before: func(s *stage) {
			s.install("buoy.v1.0.0")
			s.serve("second", buoys(s.T, follows("buoy.v1.1.0")))
		},
		change:   func(spec *v1alpha1.SubscriptionSpec) { spec.CatalogSource, spec.Channel = "second", "fast" },
		happened: refused,
	},
	{
		name: "The catalog has the operator by another name", verdict: Refused, code: PackageAbsent,
		before: func(s *stage) {
			s.install("buoy.v1.0.0", bundle{ChannelEntry: declcfg.ChannelEntry{Name: "buoy.v1.0.0"}, definition: s.moorings("v1")})
			s.serve("second", floating(s.T, "buoy-certified", bundle{definition: s.moorings("v1"),
				ChannelEntry: declcfg.ChannelEntry{Name: "buoy-certified.v1.1.0", SkipRange: "<1.1.0"}}))
		},
		happened: refused,
	},
	{
		name: "There is no such CatalogSource", verdict: Refused, code: SourceMissing,
		before:   func(s *stage) { s.install("buoy.v1.0.0") },
		happened: refused,
	},
	{
		name: "The Subscription is deleted and created anew", verdict: Refused, code: OrphanedCSV,
		before: func(s *stage) {
			s.install("buoy.v1.0.0")
			s.serve("second", buoys(s.T, follows("buoy.v1.1.0")))
		},
		world: func(w *World) {
			w.Subscriptions[0].Status = v1alpha1.SubscriptionStatus{}
			toSecond(w.Subscriptions[0].Spec)
		},
		act: func(s *stage) {
			old := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Name: "buoy", Namespace: s.namespace}}
			if err := s.cluster.Client().Delete(s.Context(), old); err != nil {
				s.Fatal(err)
			}
			cluster.Eventually(s, limit, "the Subscription to be gone", s.cluster.Gone(old))
			s.subscribe("buoy", "second")
		},
		happened: refused,
	},
	{
		name: "An object is not valid by the CRD that comes", verdict: Waits, code: InvalidObjects,
		before: func(s *stage) {
			s.install("buoy.v1.0.0", bundle{ChannelEntry: declcfg.ChannelEntry{Name: "buoy.v1.0.0"}, definition: s.moorings("v1")})
			s.create(s.mooring("v1"))
			stricter := s.moorings("v1")
			stricter.required = []string{"chain"}
			s.serve("second", floating(s.T, "buoy", bundle{ChannelEntry: follows("buoy.v1.1.0"), definition: stricter}))
		},
		happened: stuck("updated validation is too restrictive"),
	},
	{
		name: "The CRD that comes lacks a version that objects are stored in", verdict: Waits, code: StoredVersionRemoved,
		before: func(s *stage) {
			s.install("buoy.v1.0.0", bundle{ChannelEntry: declcfg.ChannelEntry{Name: "buoy.v1.0.0"}, definition: s.moorings("v1alpha1")})
			s.serve("second", floating(s.T, "buoy", bundle{ChannelEntry: follows("buoy.v1.1.0"), definition: s.moorings("v1")}))
		},
		happened: stuck("risk of data loss"),
	},
	{
		name: "The CRD that comes is of an API version that Kubernetes no longer serves", verdict: Waits, code: OldDefinition,
		before: func(s *stage) {
			s.install("buoy.v1.0.0")
			old := s.moorings("v1")
			old.apiVersion = "v1beta1"
			s.serve("second", floating(s.T, "buoy", bundle{ChannelEntry: follows("buoy.v1.1.0"), definition: old}))
		},
		happened: stuck("GroupVersionKind apiextensions.k8s.io/v1beta1, Kind=CustomResourceDefinition not found on the cluster"),
	},
	{
		name: "What replaces is an earlier version", verdict: Updates, code: Downgrade,
		before: func(s *stage) {
			s.install("buoy.v1.0.0")
			s.serve("second", buoys(s.T, follows("buoy.v0.9.0")))
		},
		happened: updated,
	},
	{
		name: "The new catalog has what is installed, under the same name", verdict: Latest, code: SameCSV,
		before: func(s *stage) {
			s.install("buoy.v1.0.0", bundle{ChannelEntry: declcfg.ChannelEntry{Name: "buoy.v1.0.0"}, title: "Community buoy"})
			s.serve("second", floating(s.T, "buoy", bundle{ChannelEntry: declcfg.ChannelEntry{Name: "buoy.v1.0.0"}, title: "Certified buoy"}))
		},
		happened: func(s *stage, o *Outcome, since int64) string {
			happened := silence(s, o, since)
			csv := &v1alpha1.ClusterServiceVersion{}
			if err := s.cluster.Client().Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "buoy.v1.0.0"}, csv); err != nil {
				s.Fatal(err)
			}
			return fmt.Sprintf("%s; its name is still %q", happened, csv.Spec.DisplayName)
		},
	},
	{
		name: "Kubernetes is older than minKubeVersion", verdict: Waits, code: OldKubernetes,
		before: func(s *stage) {
			s.install("buoy.v1.0.0")
			s.serve("second", floating(s.T, "buoy", bundle{ChannelEntry: follows("buoy.v1.1.0"), kubernetes: "1.99.0"}))
		},
		happened: func(s *stage, o *Outcome, _ int64) string {
			status := s.awaitPhase(o.Next.Name, v1alpha1.CSVPhasePending)
			i := slices.IndexFunc(status.RequirementStatus, func(r v1alpha1.RequirementStatus) bool {
				return r.Status == v1alpha1.RequirementStatusReasonPresentNotSatisfied
			})
			if i < 0 {
				s.Fatalf("its requirements are %+v", status.RequirementStatus)
			}
			return fmt.Sprintf("%s is %s: %s", o.Next.Name, status.Phase, status.RequirementStatus[i].Message)
		},
	},
	{
		name: "The operator is not good for the next minor version of OpenShift", verdict: Updates, code: OpenShiftHeldBack,
		before: func(s *stage) {
			s.install("buoy.v1.0.0")
			s.serve("second", floating(s.T, "buoy", bundle{ChannelEntry: follows("buoy.v1.1.0"),
				properties: []property.Property{{Type: maxOpenShift, Value: []byte(`"4.22"`)}}}))
		},
		happened: func(s *stage, o *Outcome, since int64) string {
			happened := updated(s, o, since)
			said := ""
			cluster.Eventually(s, limit, "OLM to hold OpenShift back", func(ctx context.Context) error {
				olm := &configv1.ClusterOperator{}
				if err := s.cluster.Client().Get(ctx, client.ObjectKey{Name: "operator-lifecycle-manager"}, olm); err != nil {
					return err
				}
				for _, c := range olm.Status.Conditions {
					if c.Type == configv1.OperatorUpgradeable && c.Status == configv1.ConditionFalse && strings.Contains(c.Message, s.namespace+"/"+o.Next.Name) {
						said = fmt.Sprintf("ClusterOperator %s has %s %s: %s", olm.Name, c.Type, c.Status, c.Reason)
						return nil
					}
				}
				return fmt.Errorf("its conditions are %+v", olm.Status.Conditions)
			})
			return happened + "; " + said
		},
	},
	{
		name: "Nothing provides what the next version requires", verdict: Stranded, code: DependencyMissing,
		before: func(s *stage) {
			s.install("buoy.v1.0.0")
			s.serve("second", floating(s.T, "buoy", bundle{ChannelEntry: follows("buoy.v1.1.0"),
				properties: []property.Property{property.MustBuildPackageRequired("moon", ">=1.0.0")}}))
		},
		happened: silence,
	},
}

// TestTraps shows each trap on the real OLM: what is foretold, and what happens then. The table of it is in
// the documentation.
func TestTraps(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{OLM: true})
	rows := make([]string, len(traps))
	shown := t.Run("all", func(t *testing.T) {
		for i, trap := range traps {
			t.Run(trap.name, func(t *testing.T) {
				t.Parallel()
				rows[i] = trap.show(t, c)
			})
		}
	})
	if shown {
		checkTable(t, "../../docs/switch.md", rows)
	}
}

// show lets a trap snap, and returns its row of the table.
func (trap trap) show(t *testing.T, c *cluster.Cluster) string {
	targets := trap.targets
	if targets == nil {
		targets = own
	}
	s := newStage(t, c, targets)
	trap.before(s)

	change := trap.change
	if change == nil {
		change = toSecond
	}
	w := s.world()
	if trap.world != nil {
		trap.world(w)
	} else {
		var err error
		if w, err = w.Turn("buoy", change); err != nil {
			t.Fatal(err)
		}
	}
	foretold := s.foretell(w, "buoy")
	reasons := slices.Concat(foretold.Why, foretold.Holds, foretold.Risks)
	at := slices.IndexFunc(reasons, func(r Reason) bool { return r.Code == trap.code })
	if foretold.Verdict != trap.verdict || at < 0 {
		t.Fatalf("foretold %s, %+v; want %s, %s", foretold.Verdict, reasons, trap.verdict, trap.code)
	}

	since := s.logSize()
	if trap.act != nil {
		trap.act(s)
	} else {
		s.change(change)
	}
	happened := trap.happened(s, foretold, since)
	cells := []string{trap.name, fmt.Sprintf("OLM %s: %s", foretold.sentence(), reasons[at].What), happened, reasons[at].Do}
	for i := range cells {
		cells[i] = plain(s.namespace, cells[i])
	}
	return "| " + strings.Join(cells, " | ") + " |"
}

// unsteady is what differs from one time to the next.
var unsteady = regexp.MustCompile(`install-[a-z0-9]{5}|testtraps-[a-z0-9-]*|127\.0\.0\.1:[0-9]+`)

// plain returns a text with nothing in it that differs from one time to the next, as a cell of a table.
func plain(namespace, text string) string {
	text = strings.ReplaceAll(text, namespace, "NAMESPACE")
	text = unsteady.ReplaceAllStringFunc(text, func(found string) string {
		switch {
		case strings.HasPrefix(found, "install-"):
			return "install-abcde"
		case strings.HasPrefix(found, "127."):
			return "ADDRESS"
		}
		return "OTHER"
	})
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
}

// What is around the table in the page.
const tableBegin, tableEnd = "<!-- The table is what TestTraps of catalog/plan has seen; its -update writes it. -->\n", "<!-- End of the table. -->\n"

// checkTable compares the table in a page with the rows of this run, or writes it.
func checkTable(t *testing.T, path string, rows []string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := bytes.Cut(page, []byte(tableBegin))
	have, after, ended := bytes.Cut(rest, []byte(tableEnd))
	if !begun || !ended {
		t.Fatalf("%s lacks the lines around the table: %q and %q", path, tableBegin, tableEnd)
	}
	table := "\n| trap | foretold | happened | what to do |\n| --- | --- | --- | --- |\n" + strings.Join(rows, "\n") + "\n\n"
	if slices.Contains(rows, "") { // only some were asked for
		for _, row := range rows {
			t.Log(row)
			if !strings.Contains(string(have), row) {
				t.Errorf("%s is stale: run the whole test with -update", path)
			}
		}
		return
	}
	if !*update {
		if diff := cmp.Diff(string(have), table); diff != "" {
			t.Errorf("%s is stale; run this test with -update:\n%s", path, diff)
		}
		return
	}
	if err := os.WriteFile(path, slices.Concat(before, []byte(tableBegin+table+tableEnd), after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// silence: OLM has looked and done nothing, and says nothing of it.
func silence(s *stage, o *Outcome, since int64) string {
	s.awaitLook(since, looked)
	subscription := s.subscription(s.Context(), "buoy")
	if _, err := s.refusal(s.Context(), "buoy"); err == nil || subscription.Status.InstalledCSV != o.Installed {
		s.Fatalf("the Subscription says %+v", subscription.Status)
	}
	return fmt.Sprintf("OLM has looked, and the Subscription stays %s with %s, without condition ResolutionFailed", subscription.Status.State, subscription.Status.InstalledCSV)
}

// refused: OLM says in the Subscription's condition just what was foretold.
func refused(s *stage, o *Outcome, _ int64) string {
	return refusedBy(s, o, func(said string) bool { return clauses(said) == clauses(o.Message) })
}

func refusedBy(s *stage, o *Outcome, is func(said string) bool) (happened string) {
	s.Helper()
	cluster.Eventually(s, limit, "OLM to say that it cannot resolve", func(ctx context.Context) error {
		condition, err := s.refusal(ctx, "buoy")
		if err != nil {
			return err
		}
		if !is(condition.Message) {
			return fmt.Errorf("it says %q; foretold was %q", condition.Message, o.Message)
		}
		happened = fmt.Sprintf("ResolutionFailed, %s: %s", condition.Reason, clauses(condition.Message))
		return nil
	})
	return happened
}

// clauses returns the clauses of a refusal in order: the resolver has none.
func clauses(message string) string {
	head, rest, found := strings.Cut(message, ": ")
	if !found || strings.Contains(head, "catalogsource") {
		return message
	}
	all := strings.Split(rest, ", ")
	slices.Sort(all)
	return head + ": " + strings.Join(all, ", ")
}

// stuck: the InstallPlan is not carried out, for a reason.
func stuck(because string) func(*stage, *Outcome, int64) string {
	return func(s *stage, _ *Outcome, _ int64) (happened string) {
		s.Helper()
		cluster.Eventually(s, limit, "the InstallPlan to be stuck", func(ctx context.Context) error {
			plan, err := s.plan(ctx)
			if err != nil {
				return err
			}
			if !strings.Contains(plan.Status.Message, because) {
				return fmt.Errorf("it is %s: %s", plan.Status.Phase, plan.Status.Message)
			}
			happened = fmt.Sprintf("InstallPlan is %s: %s", plan.Status.Phase, plan.Status.Message)
			return nil
		})
		return happened
	}
}

// updated: OLM makes the update.
func updated(s *stage, o *Outcome, _ int64) string {
	s.awaitInstalled("buoy", o.Next.Name)
	return o.Next.Name + " is installed, and Succeeded"
}

// awaitPlan waits until the InstallPlan of Subscription buoy is in a phase.
func (s *stage) awaitPlan(phase v1alpha1.InstallPlanPhase) (plan *v1alpha1.InstallPlan) {
	s.Helper()
	cluster.Eventually(s, limit, "the InstallPlan to be "+string(phase), func(ctx context.Context) (err error) {
		if plan, err = s.plan(ctx); err != nil {
			return err
		}
		if plan.Status.Phase != phase {
			return fmt.Errorf("it is %s: %s", plan.Status.Phase, plan.Status.Message)
		}
		return nil
	})
	return plan
}

// awaitPhase waits until a ClusterServiceVersion is in a phase for a reason that it tells.
func (s *stage) awaitPhase(name string, phase v1alpha1.ClusterServiceVersionPhase) (status v1alpha1.ClusterServiceVersionStatus) {
	s.Helper()
	cluster.Eventually(s, limit, name+" to be "+string(phase), func(ctx context.Context) (err error) {
		var is v1alpha1.ClusterServiceVersionPhase
		if is, status, err = s.phase(ctx, name); err != nil {
			return err
		}
		if is != phase || status.Reason == v1alpha1.CSVReasonRequirementsUnknown {
			return fmt.Errorf("it is %s: %s", is, status.Message)
		}
		return nil
	})
	return status
}

// moorings is a CRD of the stage's own.
func (s *stage) moorings(versions ...string) *definition {
	return &definition{group: s.namespace + ".example.com", versions: versions}
}

// mooring is an object of that CRD.
func (s *stage) mooring(version string) client.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": s.namespace + ".example.com/" + version, "kind": "Mooring",
		"metadata": map[string]any{"name": "pier", "namespace": s.namespace}, "spec": map[string]any{"depth": "7 m"},
	}}
}

// nobody returns an address of this machine that nobody listens on.
func nobody(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
