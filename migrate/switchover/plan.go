// Package switchover moves an operator that the Operator Lifecycle Manager (OLM) runs from the catalog that
// it came from to another one, such as from the community's to the certified one. The operator's
// Subscription is turned to the other catalog; OLM then updates the operator from there, and what it
// manages is never touched.
//
// Look reads the cluster and the catalogs, Make is a pure function from what was seen to a Plan, and Apply
// carries a plan out: it looks, decides by a pure function what comes next, makes that one write, and looks
// again. What is done is known from what the cluster shows, and not from memory. A journal in the cluster
// holds the plan, so that whoever comes next goes on where another was killed, or goes back.
package switchover

import (
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-csi/berth/olm/prediction"
)

// Schema is the value of Plan.Schema.
const Schema = "berth.switch-plan.v2"

// Plan is how an operator gets from one catalog to another. The names of fields in JSON stay as they are.
type Plan struct {
	Schema       string       `json:"schema"`
	Subscription Subscription `json:"subscription"`
	From         Choice       `json:"from"`
	To           Choice       `json:"to"`
	// Installed is the ClusterServiceVersion that is installed, and Target the one that OLM will install.
	// They are the same if there is nothing to install, and Target is empty if OLM will not install any.
	Installed string `json:"installed"`
	Target    string `json:"target,omitempty"`
	// Along are the other ClusterServiceVersions that OLM installs in the same go: dependencies, and what
	// other Subscriptions of the namespace get.
	Along []string `json:"along,omitempty"`
	// Contents are what OLM installs of each of these, and where from.
	Contents []Content `json:"contents,omitempty"`
	Way      Way       `json:"way"`
	// Driver is the CSI driver that the operator is for, if it is a known one.
	Driver *Driver `json:"driver,omitempty"`
	// Safe tells whether no check is refused.
	Safe   bool    `json:"safe"`
	Checks []Check `json:"checks"`
	Steps  []Step  `json:"steps,omitempty"`
	// Touched are the objects that will be changed, and by whom.
	Touched []Touched `json:"touched,omitempty"`
	// Outcomes are what OLM will do with all Subscriptions of the namespace.
	Outcomes []*prediction.Prediction `json:"outcomes"`
}

// Subscription is the one that is switched, as it was when the plan was made.
type Subscription struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// NamespaceUID is that of the namespace, of whose name there may be another one later.
	NamespaceUID types.UID `json:"namespaceUID"`
	// Generation counts the changes of its spec.
	Generation int64 `json:"generation"`
	// Approval is its spec.installPlanApproval, which is Manual for as long as the switch takes.
	Approval string `json:"approval,omitempty"`
	// Config is its spec.config, such as environment variables of the operator.
	Config *v1alpha1.SubscriptionConfig `json:"config,omitempty"`
}

func (s Subscription) String() string { return s.Namespace + "/" + s.Name }

// Way is how OLM gets from one version to the other.
type Way string

// The ways.
const (
	// Update: OLM updates from one to the other, as it updates within a catalog.
	Update Way = "update"
	// Replace: nothing in the other catalog updates what is installed, under the package's new name. So the
	// operator is removed, and installed anew. What it manages stays, and so do its APIs and their objects.
	Replace Way = "replace"
	// Stay: what is installed is what the other catalog has.
	Stay Way = "stay"
)

// Driver is the CSI driver of an operator.
type Driver struct {
	// Name is that of the CSIDriver and the ClusterCSIDriver.
	Name string `json:"name"`
	// Operator is the Deployment of an operator that takes the lock.
	Operator string `json:"operator"`
	// Lock is the ConfigMap by which only one operator of the driver is active.
	Lock string `json:"lock"`
	// DaemonSets are the names of those that the driver runs by on nodes.
	DaemonSets []string `json:"daemonSets"`
	// Create tells whether the ClusterCSIDriver will be created if there is none.
	Create bool `json:"create"`
}

// Verdict is what a check has come to.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Warning Verdict = "warning"
	Refused Verdict = "refused"
)

// Check is something that was checked before anything is done.
type Check struct {
	// Code says what was checked; those of package plan are used.
	Code    string  `json:"code"`
	Verdict Verdict `json:"verdict"`
	What    string  `json:"what"`
	// Do says what helps.
	Do string `json:"do,omitempty"`
}

// Touched is an object that will be changed.
type Touched struct {
	// By is berth, OLM or the operator.
	By        string `json:"by"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	How       string `json:"how"`
}

// moved says what is not as it was when the plan was made, given the plan that would be made now.
func (p *Plan) moved(now *Plan) []string {
	var moved []string
	differ := func(what string, was, is any) {
		if was != is {
			moved = append(moved, fmt.Sprintf("%s was %v and is %v", what, was, is))
		}
	}
	differ("the Subscription's UID", p.Subscription.UID, now.Subscription.UID)
	differ("its namespace's UID", p.Subscription.NamespaceUID, now.Subscription.NamespaceUID)
	differ("the Subscription's generation", p.Subscription.Generation, now.Subscription.Generation)
	differ("what the Subscription chooses", p.From, now.From)
	differ("what it shall choose", p.To, now.To)
	differ("the installed ClusterServiceVersion", p.Installed, now.Installed)
	differ("the one that OLM will install", p.Target, now.Target)
	differ("the way", p.Way, now.Way)
	if !slices.Equal(p.Along, now.Along) {
		moved = append(moved, fmt.Sprintf("what OLM installs along was %q and is %q", p.Along, now.Along))
	}
	if !slices.Equal(p.Contents, now.Contents) {
		moved = append(moved, "the content of what OLM will install is another one")
	}
	return moved
}
