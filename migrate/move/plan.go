// Package move moves an operator from OLM v0, the Operator Lifecycle Manager with Subscriptions, to OLM v1, with
// ClusterExtensions, and back. It is a migration of package migrate, and the command "berth move". It works for any
// operator.
//
// OLM v0 leaves the operator first: its Subscription, its InstallPlans and its ClusterServiceVersion go, and the
// objects that they own stay. Then a ClusterExtension of exactly the installed version takes these over. They keep
// their UIDs throughout: the APIs with all their objects, the Deployments with their pods, and the bundle's other
// objects.
//
// When an owner is deleted, its OLM deletes all that it has installed for the owner, APIs included. So every owner is deleted with
// propagation policy Orphan, and a finalizer of the move keeps the owner until the OLM has removed its own finalizers and the owner owns
// nothing any more: the OLM may still be applying an object at that time, and so make the owner own the object again.
//
// # How it goes
//
// migrate/move moves any operator, so the installed objects determine the plan. The plan's subject is the ClusterExtension, which need not
// exist: so both directions, and a rollback, share one journal.
//
//   - Plan (input.go, checks.go): the ClusterServiceVersion, its APIs and the InstallPlans list the bundle's objects. olm/prediction
//     predicts whether OLM v1 takes exactly that version, from a cluster where the objects have the marks that the move gives them
//     (bundle.go).
//   - Leaving (decide.go): the owners are deleted as described above. Before that, the move removes from the cluster roles the labels by
//     which OLM v0 would delete them, so the operator keeps its permissions: the other OLM creates its own roles first, and the old ones
//     are deleted last.
//   - Marks (marks.go): Helm takes over objects with its label and annotations. Boxcutter, which prevents collisions,
//     takes over objects that its own ClusterObjectSet controls: OLM v1 creates the set, finds the collisions, and
//     tries again every ten seconds.
//   - Back (decide.go): OLM v0 does not resume a version that has left it, but it installs the same version over the existing objects. A
//     rollback from any step and a move with --to olm-v0 use the same function.
package move

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/clusterextension"
)

// Move runs the migrations of this package. The subject is the ClusterExtension, which need not exist yet. It has the
// package's name.
var Move = migrate.Engine[*Plan]{
	Name:          "move",
	Noun:          "a move",
	Kind:          clusterextension.Kind.Kind,
	ClusterScoped: true,
	Schema:        "berth.move-plan.v1",
	StatusSchema:  "berth.move-status.v1",
	New:           func() *Plan { return &Plan{} },
	Changes:       changes,
}

// Target is an OLM.
type Target string

// The targets of a move.
const (
	ToV0 Target = "olm-v0" // back to a Subscription
	ToV1 Target = "olm-v1" // to a ClusterExtension
)

// Plan is how an operator gets from one OLM to the other.
type Plan struct {
	migrate.Outline
	To      Target `json:"to"`
	Package string `json:"package"`
	// Namespace is the operator's namespace, with both OLMs.
	Namespace    string    `json:"namespace"`
	NamespaceUID types.UID `json:"namespaceUID"`
	// Version is the installed version, which stays installed.
	Version Version `json:"version"`
	// Subscription is OLM v0's Subscription, before the move or after it.
	Subscription Subscription `json:"subscription"`
	// Extension is the ClusterExtension without its name, before the move or after it.
	Extension Extension `json:"extension"`
	// TakenOver are the objects that belong to the other OLM after the move.
	TakenOver []Object `json:"takenOver,omitempty"`
	// Replaced are permissions and Secrets that the other OLM makes again, under other names. The move deletes them at the end.
	Replaced []Object `json:"replaced,omitempty"`
	// Needs are the packages of the namespace that the version needs, sorted. OLM v0 would install them for it.
	Needs []string `json:"needs,omitempty"`
	// Accepted are the codes of checks that the administrator has accepted.
	Accepted []string `json:"accepted,omitempty"`

	// rewritten counts, by UID, this run's changes to an object and, for the Subscription, the InstallPlans that it has deleted.
	rewritten map[types.UID]int
}

// Version is a version of the operator.
type Version struct {
	// Name is the name of the ClusterServiceVersion and of the bundle.
	Name string `json:"name"`
	// UID is the ClusterServiceVersion's, or "".
	UID    types.UID `json:"uid,omitempty"`
	Number string    `json:"number"`
}

// Subscription is a Subscription of the operator's namespace.
type Subscription struct {
	Name string `json:"name"`
	// UID is the Subscription's UID before the move to OLM v1.
	UID  types.UID                 `json:"uid"`
	Spec v1alpha1.SubscriptionSpec `json:"spec"`
}

// Extension holds the fields of a ClusterExtension.
type Extension struct {
	// Catalog is the only ClusterCatalog that the ClusterExtension takes versions from; "" is any.
	Catalog string `json:"catalog,omitempty"`
	// Channels are the channels that OLM v1 updates the operator from once the move is complete.
	Channels []string `json:"channels,omitempty"`
	// Pinned says that the ClusterExtension stays at the version, because the Subscription asked for approval of other versions.
	Pinned bool `json:"pinned"`
	// WatchNamespace is the only namespace that the operator watches; "" is all.
	WatchNamespace string `json:"watchNamespace,omitempty"`
	// DeploymentConfig holds the Subscription's settings for the operator's Deployment, if OLM v1 accepts them.
	DeploymentConfig *v1alpha1.SubscriptionConfig `json:"deploymentConfig,omitempty"`
	// ServiceAccount is in the operator's namespace; OLM v1 needs none from operator-controller 1.11 on.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Boxcutter says that OLM v1 applies bundles by Boxcutter, and not by Helm.
	Boxcutter bool `json:"boxcutter"`
}

// Object is an object of the cluster.
type Object struct {
	Group     string    `json:"group,omitempty"`
	Version   string    `json:"version"`
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

func (o Object) kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: o.Group, Version: o.Version, Kind: o.Kind}
}

func (o Object) String() string { return named(o.Kind, o.Namespace, o.Name) }

// named returns the name of an object with its kind.
func named(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

// changes returns the differences between two plans.
func changes(was, now *Plan) (found []string) {
	compare := func(what string, was, is any) {
		if was, is := fmt.Sprint(was), fmt.Sprint(is); was != is {
			found = append(found, fmt.Sprintf("%s was %s and is %s", what, was, is))
		}
	}
	spec := func(p *Plan) string {
		text, err := json.Marshal(p.Subscription.Spec)
		return fmt.Sprint(string(text), err)
	}
	compare("the target", was.To, now.To)
	compare("the ClusterExtension", was.Subject, now.Subject)
	compare("the package", was.Package, now.Package)
	compare("the namespace", was.Namespace+" with UID "+string(was.NamespaceUID), now.Namespace+" with UID "+string(now.NamespaceUID))
	compare("the version", fmt.Sprintf("%s with UID %s", was.Version.Name, was.Version.UID), fmt.Sprintf("%s with UID %s", now.Version.Name, now.Version.UID))
	compare("the Subscription", fmt.Sprintf("%s with UID %s", was.Subscription.Name, was.Subscription.UID), fmt.Sprintf("%s with UID %s", now.Subscription.Name, now.Subscription.UID))
	compare("spec of the Subscription", spec(was), spec(now))
	compare("the ClusterExtension's fields", was.Extension.describe(), now.Extension.describe())
	compare("the objects to take over", was.TakenOver, now.TakenOver)
	compare("the packages that the operator needs", was.Needs, now.Needs)
	compare("the accepted checks", was.Accepted, now.Accepted)
	return found
}

func (e Extension) describe() string {
	return fmt.Sprintf("catalog %q, channels %q, pinned %t, watchNamespace %q, deploymentConfig %v, serviceAccount %q, Boxcutter %t",
		e.Catalog, e.Channels, e.Pinned, e.WatchNamespace, fieldsOf(e.DeploymentConfig), e.ServiceAccount, e.Boxcutter)
}

// fieldsOf returns the fields that a SubscriptionConfig sets.
func fieldsOf(config *v1alpha1.SubscriptionConfig) map[string]any {
	if config == nil {
		return nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil { // impossible: config was read from JSON
		return nil
	}
	return fields
}

// Arguments returns the command line arguments that select this move.
func (p *Plan) Arguments(verb string) string {
	line := escape.Command(" %s", p.Package)
	if verb == "plan" || verb == "apply" {
		if p.To == ToV0 {
			line += escape.Command(" --to %s", string(ToV0))
		}
		if p.Extension.Catalog != "" && p.To == ToV1 {
			line += escape.Command(" --catalog %s", p.Extension.Catalog)
		}
		if p.Extension.ServiceAccount != "" && p.To == ToV1 {
			line += escape.Command(" --service-account %s", p.Extension.ServiceAccount)
		}
		for _, code := range p.Accepted {
			line += escape.Command(" --accept %s", code)
		}
	}
	return line + escape.Command(" -n %s", p.Namespace)
}

// Text describes the plan for people.
func (p *Plan) Text(colour findings.Palette) string { return migrate.Text(p, colour) }

// Describe writes the operator and the direction.
func (p *Plan) Describe(lines *escape.Lines) {
	subscription, extension := "OLM v0: Subscription "+p.Namespace+"/"+p.Subscription.Name, "OLM v1: ClusterExtension "+p.Subject.Name
	from, to := subscription, extension
	if p.To == ToV0 {
		from, to = extension, subscription
	}
	lines.Add("Operator %s, %s in %s", p.Package, p.Version.Name, p.Namespace)
	lines.Add("  from  %s", from)
	lines.Add("  to    %s", to)
	if kept := p.count(); kept != "" {
		lines.Add("  keeps %s", kept)
	}
	if p.To == ToV1 && p.Subject.Name != "" {
		lines.Add("  then  %s", p.Extension.follows(p.Version))
	}
}

// follows describes the versions that the ClusterExtension allows after the move.
func (e Extension) follows(v Version) string {
	from := ""
	if len(e.Channels) > 0 {
		from = " of channel " + strings.Join(e.Channels, ", ")
	}
	if e.Pinned {
		return fmt.Sprintf("stays at %s%s, as the Subscription asks for approval", v.Number, from)
	}
	return "updates to later versions" + from
}

// count says how many objects of each kind are taken over.
func (p *Plan) count() string {
	var kinds []string
	number := map[string]int{}
	for _, o := range p.TakenOver {
		if number[o.Kind]++; number[o.Kind] == 1 {
			kinds = append(kinds, o.Kind)
		}
	}
	slices.Sort(kinds)
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", number[kind], kind)
	}
	return strings.Join(kinds, ", ")
}
