package placement_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
)

// at returns a fixed time plus some minutes.
func at(minutes int) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(minutes) * time.Minute)
}

// there returns a namespace that was created at a time. Its UID consists of its name and that time.
func there(name string, minutes int) placement.Namespace {
	return placement.Namespace{UID: uidOf(name, minutes), Created: at(minutes)}
}

func uidOf(name string, minutes int) types.UID {
	return types.UID(name + "-" + at(minutes).UTC().Format("0405"))
}

func named(namespace string, minutes int) placement.Reference {
	return placement.Reference{Trace: drivers.Trace{Kind: drivers.SecurityContextConstraintsKind, Name: "scc"},
		Created: at(minutes), Namespace: namespace, Account: "node"}
}

func foreign(namespace string, minutes int) placement.Reference {
	s := named(namespace, minutes)
	s.Trace.Foreign = true
	return s
}

func TestDecide(t *testing.T) {
	annotated := func(namespace string, uid types.UID) *placement.ClusterCSIDriver {
		return &placement.ClusterCSIDriver{UID: "driver", Namespace: namespace, NamespaceUID: uid, Created: at(10)}
	}
	fresh := annotated("", "")
	terminating := func(n placement.Namespace) placement.Namespace { n.Terminating = true; return n }
	with := func(n placement.Namespace, proof string) placement.Namespace { n.Proof = proof; return n }
	type namespaces = map[string]placement.Namespace
	type references = []placement.Reference
	for _, tc := range []struct {
		name       string
		fixed      string
		driver     *placement.ClusterCSIDriver
		namespaces namespaces
		references references
		removing   bool
		want       string // the namespace, or "create" and that, or the reason
		left       string // the recorded namespace that is gone
		says       string // in the refusal's message
		believed   string
	}{
		{name: "nothing is there: the operator's own", driver: fresh, namespaces: namespaces{"own": there("own", 0)}, want: "own", believed: "own"},
		{name: "an earlier driver", driver: fresh, namespaces: namespaces{"own": there("own", 0), "old": there("old", 0)},
			references: references{named("old", 1), named("old", 2)}, want: "old", believed: "old"},
		{name: "made in the same second as the trace", driver: fresh, namespaces: namespaces{"own": there("own", 0), "old": there("old", 1)},
			references: references{named("old", 1)}, want: "old", believed: "old"},
		{name: "an earlier driver whose namespace is gone", driver: fresh, namespaces: namespaces{"own": there("own", 0)},
			references: references{named("old", 1)}, want: "own", believed: "own"},
		{name: "an earlier driver whose namespace was recreated", driver: fresh, namespaces: namespaces{"own": there("own", 0), "old": there("old", 2)},
			references: references{named("old", 1)}, want: "own", believed: "own"},
		{name: "an earlier driver whose namespace is being deleted", driver: fresh,
			namespaces: namespaces{"own": there("own", 0), "old": terminating(there("old", 0))}, references: references{named("old", 1)}, want: "own", believed: "own"},
		{name: "another operator's driver, which cannot be taken over", driver: fresh, namespaces: namespaces{"own": there("own", 0), "old": there("old", 0)},
			references: references{foreign("old", 1)}, want: "OtherDriver", says: "SecurityContextConstraints scc names the service account old/node", believed: "old own"},
		{name: "another operator's driver, beside ours", driver: annotated("own", uidOf("own", 0)), namespaces: namespaces{"own": there("own", 0), "old": there("old", 0)},
			references: references{named("own", 1), foreign("old", 2)}, want: "OtherDriver", says: "what to do about it", believed: "old own"},
		{name: "another operator's driver, whose namespace was recreated", driver: fresh, namespaces: namespaces{"own": there("own", 0), "old": there("old", 2)},
			references: references{foreign("old", 1)}, want: "own", believed: "own"},
		{name: "another operator's driver, and a lost namespace of ours", driver: annotated("named", uidOf("named", 0)),
			namespaces: namespaces{"own": there("own", 0), "old": there("old", 0)}, references: references{foreign("old", 1)}, want: "OtherDriver", left: "named", believed: "old own"},
		{name: "two earlier drivers", driver: fresh, namespaces: namespaces{"own": there("own", 0), "a": there("a", 0), "b": there("b", 0)},
			references: references{named("a", 1), named("b", 1)}, want: "SeveralNamespaces", says: "namespaces a, b,", believed: "a b"},
		{name: "an earlier driver, and one of our own", driver: fresh, namespaces: namespaces{"own": there("own", 0), "old": there("old", 0)},
			references: references{named("own", 1), named("old", 1)}, want: "SeveralNamespaces", says: "namespaces old, own,", believed: "old own"},
		{name: "two earlier drivers, one of them gone", driver: fresh, namespaces: namespaces{"own": there("own", 0), "a": there("a", 2), "b": there("b", 0)},
			references: references{named("a", 1), named("b", 1)}, want: "b", believed: "b"},
		{name: "nobody asks for the driver", namespaces: namespaces{"own": there("own", 0), "old": there("old", 0)},
			references: references{named("old", 1)}, want: "old", believed: "old"},

		{name: "named by an administrator", driver: annotated("named", ""), namespaces: namespaces{"own": there("own", 0), "named": there("named", 0)}, want: "named", believed: "named"},
		{name: "named by an administrator against traces", driver: annotated("named", ""),
			namespaces: namespaces{"own": there("own", 0), "named": there("named", 0), "old": there("old", 0)}, references: references{named("old", 1)}, want: "named", believed: "named old"},
		{name: "named, and not there", driver: annotated("named", ""), namespaces: namespaces{"own": there("own", 0)}, want: "NamespaceMissing", says: "named, which does not exist"},
		{name: "named, created later", driver: annotated("named", ""), namespaces: namespaces{"own": there("own", 0), "named": there("named", 11)},
			want: "NamespaceUnproven", says: "berth.dev/driver-namespace-uid=" + string(uidOf("named", 11))},
		{name: "named, created later, and shown by a trace", driver: annotated("named", ""), namespaces: namespaces{"own": there("own", 0), "named": there("named", 11)},
			references: references{named("named", 12)}, want: "named", believed: "named"},
		{name: "named, created later, and the operator's own", driver: annotated("own", ""), namespaces: namespaces{"own": there("own", 11)}, want: "own", believed: "own"},
		{name: "named, created later, and the UID says so", driver: annotated("named", uidOf("named", 11)),
			namespaces: namespaces{"own": there("own", 0), "named": there("named", 11)}, want: "named", believed: "named"},
		{name: "recorded, and deleted", driver: annotated("named", uidOf("named", 0)), namespaces: namespaces{"own": there("own", 0)}, want: "own", left: "named", believed: "own"},
		{name: "recorded, and deleted, and still named by its traces", driver: annotated("named", uidOf("named", 0)), namespaces: namespaces{"own": there("own", 0)},
			references: references{named("named", 1)}, want: "own", left: "named", believed: "own"},
		{name: "recorded, and deleted, and another driver is elsewhere", driver: annotated("named", uidOf("named", 0)),
			namespaces: namespaces{"own": there("own", 0), "old": there("old", 0)}, references: references{named("old", 1)}, want: "old", left: "named", believed: "old"},
		{name: "recorded, and deleted, and other drivers are elsewhere", driver: annotated("named", uidOf("named", 0)),
			namespaces: namespaces{"own": there("own", 0), "a": there("a", 0), "b": there("b", 0)}, references: references{named("a", 1), named("b", 1)},
			want: "SeveralNamespaces", left: "named", says: "namespaces a, b,", believed: "a b"},
		{name: "recorded, and deleted, and the operator's own is being deleted, too", driver: annotated("named", uidOf("named", 0)),
			namespaces: namespaces{"own": terminating(there("own", 0))}, want: "NamespaceTerminating", left: "named"},
		{name: "recorded, and deleted, and the driver is being removed", driver: annotated("named", uidOf("named", 0)), namespaces: namespaces{"own": there("own", 0)},
			removing: true, want: "NamespaceGone", says: "UID named-1320"},
		{name: "recorded, and recreated", driver: annotated("named", uidOf("named", 0)), namespaces: namespaces{"own": there("own", 0), "named": there("named", 11)},
			want: "own", left: "named", believed: "own"},
		{name: "recorded, and recreated, and named by older traces", driver: annotated("named", uidOf("named", 0)), namespaces: namespaces{"own": there("own", 0), "named": there("named", 11)},
			references: references{named("named", 1)}, want: "own", left: "named", believed: "own"},
		{name: "recorded, recreated, and being deleted again", driver: annotated("named", uidOf("named", 0)),
			namespaces: namespaces{"own": there("own", 0), "named": terminating(there("named", 11))}, want: "own", left: "named", believed: "own"},
		{name: "recorded, and recreated, and the driver is being removed", driver: annotated("named", uidOf("named", 0)),
			namespaces: namespaces{"own": there("own", 0), "named": there("named", 11)}, removing: true, want: "NamespaceRecreated", says: "has UID named-2420"},
		{name: "recorded, recreated, and shown by a trace", driver: annotated("named", uidOf("named", 0)),
			namespaces: namespaces{"own": there("own", 0), "named": there("named", 11)}, references: references{named("named", 12)},
			want: "NamespaceRecreated", says: "has UID named-2420", believed: "named"},
		{name: "recorded, and being deleted", driver: annotated("named", uidOf("named", 0)),
			namespaces: namespaces{"own": there("own", 0), "named": terminating(there("named", 0))}, want: "NamespaceTerminating"},
		{name: "the operator's own was recreated", driver: annotated("own", uidOf("own", 0)), namespaces: namespaces{"own": there("own", 11)}, want: "own", left: "own", believed: "own"},

		{name: "the fixed one is not there", fixed: "fixed", driver: fresh, namespaces: namespaces{"own": there("own", 0)}, want: "create fixed"},
		{name: "the fixed one is anybody's", fixed: "fixed", driver: fresh, namespaces: namespaces{"own": there("own", 0), "fixed": there("fixed", 0)},
			want: "NamespaceUnproven", says: "berth.dev/driver-namespace=fixed berth.dev/driver-namespace-uid=" + string(uidOf("fixed", 0))},
		{name: "the fixed one is shown by a trace", fixed: "fixed", driver: fresh, namespaces: namespaces{"own": there("own", 0), "fixed": there("fixed", 0)},
			references: references{named("fixed", 1)}, want: "fixed", believed: "fixed"},
		{name: "the fixed one was recreated", fixed: "fixed", driver: fresh, namespaces: namespaces{"own": there("own", 0), "fixed": there("fixed", 2)},
			references: references{named("fixed", 1)}, want: "NamespaceUnproven"},
		{name: "the fixed one was made by an operator that crashed", fixed: "fixed", driver: fresh,
			namespaces: namespaces{"own": there("own", 0), "fixed": with(there("fixed", 0), "driver")}, want: "fixed", believed: "fixed"},
		{name: "the fixed one was made for a ClusterCSIDriver of long ago", fixed: "fixed", driver: fresh,
			namespaces: namespaces{"own": there("own", 0), "fixed": with(there("fixed", 0), string(uidOf("fixed", 0)))}, want: "fixed", believed: "fixed"},
		{name: "the fixed one has a guessed proof", fixed: "fixed", driver: fresh,
			namespaces: namespaces{"own": there("own", 0), "fixed": with(there("fixed", 0), "guess")}, want: "NamespaceUnproven"},
		{name: "the fixed one is the operator's own", fixed: "own", driver: fresh, namespaces: namespaces{"own": there("own", 0)}, want: "own", believed: "own"},
		{name: "an earlier driver elsewhere", fixed: "fixed", driver: fresh, namespaces: namespaces{"own": there("own", 0), "old": there("old", 0)},
			references: references{named("old", 1)}, want: "SeveralNamespaces", says: "namespaces fixed, old,", believed: "old"},
		{name: "the fixed one is named, and not there", fixed: "fixed", driver: annotated("fixed", ""), namespaces: namespaces{"own": there("own", 0)}, want: "create fixed"},
		{name: "the fixed one is named, and the operator made it", fixed: "fixed", driver: annotated("fixed", ""),
			namespaces: namespaces{"own": there("own", 0), "fixed": with(there("fixed", 11), "driver")}, want: "fixed", believed: "fixed"},
		{name: "the fixed one was recorded, and deleted", fixed: "fixed", driver: annotated("fixed", "uid"), namespaces: namespaces{"own": there("own", 0)}, want: "create fixed", left: "fixed"},
		{name: "the fixed one was recorded, and recreated by anybody", fixed: "fixed", driver: annotated("fixed", "uid"),
			namespaces: namespaces{"own": there("own", 0), "fixed": there("fixed", 11)}, want: "NamespaceUnproven", left: "fixed"},
		{name: "another one than the fixed one was recorded, and deleted", fixed: "fixed", driver: annotated("named", "uid"), namespaces: namespaces{"own": there("own", 0)}, want: "create fixed", left: "named"},
		{name: "the fixed one is being deleted", fixed: "fixed", driver: fresh,
			namespaces: namespaces{"own": there("own", 0), "fixed": terminating(there("fixed", 0))}, want: "NamespaceTerminating"},
		{name: "nobody asks for the driver of a fixed one", fixed: "fixed", namespaces: namespaces{"own": there("own", 0), "fixed": there("fixed", 0)}, want: "NamespaceUnproven"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			decision := placement.Decide(drivers.Driver{CSIName: "x.csi.example.com", Namespace: tc.fixed, History: drivers.History{Foreign: "what to do about it"}},
				placement.Observed{Operator: "own", Driver: tc.driver, Namespaces: tc.namespaces, References: tc.references, Removing: tc.removing})
			got := decision.Namespace
			switch {
			case decision.Refusal != nil:
				if got != "" || decision.UID != "" || decision.Create {
					t.Errorf("it is refused and decided: %+v", decision)
				}
				got = string(decision.Refusal.Reason)
				if lost := tc.driver != nil && tc.driver.NamespaceUID != "" && tc.left == "" && tc.want != "OtherDriver"; decision.Refusal.Lost != lost {
					t.Errorf("the namespace is lost: %v, want %v", decision.Refusal.Lost, lost)
				}
				assert.Contains(t, decision.Refusal.Message, tc.says, "the refusal says")
			case decision.Create:
				got = "create " + got
			case decision.UID != tc.namespaces[got].UID:
				t.Errorf("the UID is %q, want %q", decision.UID, tc.namespaces[got].UID)
			}
			assert.Equalf(t, tc.want, got, "decision %+v", decision)
			assert.EqualValues(t, tc.left, decision.Left, "the namespace that the driver has left")
			if diff := cmp.Diff(strings.Fields(tc.believed), decision.Believed); diff != "" && len(tc.believed)+len(decision.Believed) > 0 {
				t.Errorf("believed namespaces (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecideReportsIgnoredReferences(t *testing.T) {
	decision := placement.Decide(drivers.Driver{}, placement.Observed{Operator: "own", Driver: &placement.ClusterCSIDriver{},
		Namespaces: map[string]placement.Namespace{"own": there("own", 0), "recreated": there("recreated", 5), "other": there("other", 0)},
		References: []placement.Reference{named("gone", 1), named("recreated", 1), foreign("other", 1)}})
	want := []string{
		"SecurityContextConstraints scc names the service account gone/node in a namespace which does not exist",
		"SecurityContextConstraints scc names the service account recreated/node in a namespace which is newer than that",
	}
	assert.Empty(t, cmp.Diff(want, decision.Ignored), "ignored (-want +got)")
	if len(decision.Others) != 1 || decision.Others[0].Namespace != "other" {
		t.Errorf("other drivers are %v, want the one in namespace other", decision.Others)
	}
}

func TestDecideReportsDriversElsewhere(t *testing.T) {
	decision := placement.Decide(drivers.Driver{}, placement.Observed{Operator: "own", Driver: &placement.ClusterCSIDriver{Namespace: "named"},
		Namespaces: map[string]placement.Namespace{"own": there("own", 0), "named": there("named", 0), "elsewhere": there("elsewhere", 0)},
		References: []placement.Reference{named("named", 1), named("elsewhere", 1)}})
	if len(decision.Elsewhere) != 1 || decision.Elsewhere[0].Namespace != "elsewhere" {
		t.Errorf("drivers elsewhere are %v, want the one in namespace elsewhere", decision.Elsewhere)
	}
}

// TestOwner: the binding of the cluster storage operator's own operator shows that the driver belongs to it, whatever has
// become of the namespace, and so does a driver in its namespace. Neither shows where ours is.
func TestOwner(t *testing.T) {
	driver := drivers.Driver{CSIName: "x.csi.example.com", Namespace: "fixed", ClusterStorage: &drivers.ClusterStorage{}, Operator: drivers.Operator{Name: "x-operator"}}
	bound := drivers.Trace{Kind: drivers.ClusterRoleBindingKind, Name: "x-operator-clusterrolebinding", Accounts: []string{"x-operator"}, Owner: "the cluster storage operator"}
	node := drivers.Trace{Kind: drivers.ClusterRoleBindingKind, Name: "x-node", Accounts: []string{"node"}}
	for name, test := range map[string]struct {
		reference placement.Reference
		driver    drivers.Driver
		owned     bool
	}{
		"its operator": {placement.Reference{Trace: bound, Namespace: drivers.ClusterStorageNamespace, Account: "x-operator"}, driver, true},
		"its driver":   {placement.Reference{Trace: node, Namespace: drivers.ClusterStorageNamespace, Account: "node"}, driver, true},
		"ours":         {placement.Reference{Trace: node, Namespace: "fixed", Account: "node"}, driver, false},
		"ours there":   {placement.Reference{Trace: node, Namespace: drivers.ClusterStorageNamespace, Account: "node"}, drivers.Driver{CSIName: "x.csi.example.com"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			decision := placement.Decide(test.driver, placement.Observed{Operator: "own", References: []placement.Reference{test.reference}})
			assert.Equal(t, test.owned, decision.Owner != nil, "it belongs to another operator")
			assert.NotEqual(t, drivers.ClusterStorageNamespace, decision.Namespace, "the driver's namespace")
		})
	}
}
