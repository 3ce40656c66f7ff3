// Package placement decides which namespace a driver is in.
//
// Any signed-in user may create namespaces, with nearly any name, and any objects in them. So neither a namespace's
// name nor its content proves that a driver is there. The decision is based on cluster-scoped objects, which only
// administrators write, and a namespace is identified by its UID.
//
// # How it decides
//
// drivers/placement reads only cluster-scoped objects: the annotations of the ClusterCSIDriver, and the service accounts that the
// driver's SecurityContextConstraints and ClusterRoleBindings name (drivers.Trace). Decide is a pure function of these. It returns the
// driver's namespace and its UID, or the reason why the namespace is unknown and what an administrator can do about it. If the recorded
// namespace is gone, the record is ignored, because the driver was deleted with the namespace; its permissions are revoked first. A trace
// that is older than the namespace that it names means an earlier namespace of that name. Traces of another operator's driver, which has
// other names and cannot be adopted, are also a reason to return no namespace: the operator then writes only conditions.
//
// A cluster-scoped object also shows whether the cluster storage operator owns the driver (Trace.Owner). If so, an operator that OLM runs
// changes nothing, and reports that in its OperatorCondition (operator/owner.go). It does not write to the ClusterCSIDriver: the
// conditions would reach the ClusterOperator storage, and stay there when this operator is removed.
//
// operator/drivernamespace/guard.go checks all writes to the cluster except writes to the ClusterCSIDriver. It permits them only while
// the namespace has the expected UID. Otherwise the cycle ends, and the operator deletes the objects that give that namespace permissions
// or credentials.
//
// The operator creates every object by server-side apply, including the Deployments and DaemonSets that library-go
// creates (operator/transport/createbyname.go). The URL of such a request has the object's name, so the operator needs
// no permission to create objects of any name.
package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings/escape"
)

const (
	// NamespaceAnnotation on a ClusterCSIDriver names the driver's namespace. An administrator may set it before the
	// driver is installed. The operator sets it before it creates any object.
	NamespaceAnnotation = "berth.dev/driver-namespace"
	// NamespaceUIDAnnotation is the UID of that namespace: another namespace may take its name later. The operator
	// sets it together with NamespaceAnnotation.
	NamespaceUIDAnnotation = "berth.dev/driver-namespace-uid"
	// ProofLabel on a Namespace proves that the operator created it. Its value is the UID of the ClusterCSIDriver
	// that it was created for, or the namespace's own UID. Nobody who requests a namespace can know either.
	ProofLabel = "berth.dev/driver-namespace-proof"
)

// Observed is the state of the cluster that shows where a driver is.
type Observed struct {
	// Operator is the namespace of the driver's operator.
	Operator string
	// Driver is the driver's ClusterCSIDriver, nil if there is none.
	Driver *ClusterCSIDriver
	// Namespaces holds, by name, the namespaces that the driver may be in, if they exist.
	Namespaces map[string]Namespace
	// References are the namespaces that traces name.
	References []Reference
	// Removing says that the driver is being removed.
	Removing bool
}

// ClusterCSIDriver holds the information about the namespace in a driver's ClusterCSIDriver.
type ClusterCSIDriver struct {
	UID types.UID
	// Created is when it was created. The API server records when each field manager last changed any of its fields, which does not show
	// when Namespace was written.
	Created time.Time
	// Namespace and NamespaceUID are its annotations.
	Namespace    string
	NamespaceUID types.UID
}

// Namespace is the state of a namespace.
type Namespace struct {
	UID         types.UID
	Created     time.Time
	Terminating bool
	Proof       string // its ProofLabel
}

// Reference is a namespace that a trace names.
type Reference struct {
	Trace     drivers.Trace
	Created   time.Time // of the trace
	Namespace string
	Account   string
}

func (s Reference) String() string {
	return fmt.Sprintf("%s %s names the service account %s/%s", s.Trace.Kind.Kind, s.Trace.Name, s.Namespace, s.Account)
}

// Decision says where a driver is, or why that is unknown.
type Decision struct {
	// Namespace is where the driver is or will be, and UID is its UID. Both are empty if there is a Refusal.
	Namespace string
	UID       types.UID
	// Create says that the namespace does not exist and must be created.
	Create bool
	// Left is the recorded namespace if it was deleted or replaced, and the decision ignores the record. Everything in it was deleted
	// with it. Permissions for accounts in a new namespace of that name would go to somebody else, unless the decision is for the new
	// namespace.
	Left string
	// Refusal says why nothing may be written. It is nil if the decision was made.
	Refusal *Refusal
	// Believed are the namespaces that administrators gave to operators of the driver. Objects in these namespaces can be trusted about
	// these operators.
	Believed []string
	// Others are references to other operators' drivers of the same volumes, which cannot be adopted. Elsewhere are
	// references to drivers like ours in namespaces that the ClusterCSIDriver does not name.
	Others, Elsewhere []Reference
	// Owner is a reference that shows that the driver belongs to another operator; nil if it does not.
	Owner *Reference
	// Ignored has a sentence for each reference that is not believed.
	Ignored []string
}

// Reason is the reason of a condition.
type Reason string

const (
	// Missing: the namespace that the annotation names does not exist.
	Missing Reason = "NamespaceMissing"
	// Gone: the recorded namespace has been deleted, and the driver is being removed.
	Gone Reason = "NamespaceGone"
	// Recreated: a new namespace has the recorded name, and the driver is being removed, or may be in it.
	Recreated Reason = "NamespaceRecreated"
	// Terminating: the namespace is being deleted.
	Terminating Reason = "NamespaceTerminating"
	// Unproven: nothing shows that administrators gave the namespace to the driver.
	Unproven Reason = "NamespaceUnproven"
	// Several: the driver is in several namespaces.
	Several Reason = "SeveralNamespaces"
	// OtherDriver: the cluster has another operator's driver of the same volumes, which cannot be adopted.
	OtherDriver Reason = "OtherDriver"
)

// Refusal says why a driver's namespace is unknown.
type Refusal struct {
	Reason Reason
	// Message says what was found and what an administrator can do.
	Message string
	// Namespace is the namespace in question, "" if there are several.
	Namespace string
	// Lost says that the driver's namespace is recorded but no longer exists. Permissions for accounts in a namespace
	// of that name would go to somebody else.
	Lost bool
}

// Decide determines where a driver is.
func Decide(driver drivers.Driver, o Observed) Decision {
	d := decider{driver: driver, Observed: o, named: map[string]bool{}}
	d.classify()
	d.place()
	believed := maps.Clone(d.named)
	if d.decision.Namespace != "" && !d.decision.Create {
		believed[d.decision.Namespace] = true
	}
	for _, other := range d.decision.Others {
		believed[other.Namespace] = true
	}
	d.decision.Believed = slices.Sorted(maps.Keys(believed))
	d.standBack()
	return d.decision
}

type decider struct {
	Observed
	driver   drivers.Driver
	named    map[string]bool // namespaces that believed traces of the driver name
	decision Decision
}

// classify separates the references to believe from the references to ignore. If a namespace is newer than a trace with
// its name, the trace means an earlier namespace, which was deleted. A tenant may have taken its name.
func (d *decider) classify() {
	for _, s := range d.References {
		if d.showsOwner(s) {
			d.decision.Owner = &s
		}
		if s.Trace.Owner != "" {
			continue // it names the operator, not the driver
		}
		namespace, exists := d.Namespaces[s.Namespace]
		ignore := ""
		switch {
		case !exists:
			ignore = "which does not exist"
		case namespace.Terminating:
			ignore = "which is being deleted"
		case namespace.Created.After(s.Created):
			ignore = "which is newer than that"
		}
		if ignore != "" {
			d.decision.Ignored = append(d.decision.Ignored, fmt.Sprintf("%s in a namespace %s", s, ignore))
			continue
		}
		if s.Trace.Foreign {
			d.decision.Others = append(d.decision.Others, s)
			continue
		}
		d.named[s.Namespace] = true
	}
}

// showsOwner reports whether a reference shows that the driver belongs to another operator. Such a reference is believed even if its
// namespace is gone: an operator that stays inactive by mistake reports that, and does no harm.
func (d *decider) showsOwner(s Reference) bool {
	return s.Trace.Owner != "" || d.driver.ClusterStorage != nil && s.Namespace == drivers.ClusterStorageNamespace
}

func (d *decider) place() {
	switch {
	case d.Driver == nil || d.Driver.Namespace == "": // nothing is recorded
	case d.hasLeft():
		d.decision.Left = d.Driver.Namespace
	default:
		d.placeAsAnnotated()
		d.noteElsewhere()
		return
	}
	own := cmp.Or(d.driver.Namespace, d.Operator)
	switch named := slices.Sorted(maps.Keys(d.named)); {
	case len(named) > 1, len(named) == 1 && d.driver.Namespace != "" && named[0] != own:
		d.refuse(Several, "", fmt.Sprintf("the driver may be in any of the namespaces %s, and only an administrator can decide which: %s. %s",
			strings.Join(d.candidates(), ", "), d.evidence(), d.annotate("<namespace>", "")))
		return
	case len(named) == 1:
		own = named[0]
	}
	namespace, exists := d.Namespaces[own]
	switch {
	case !exists && own == d.driver.Namespace:
		d.decision.Namespace, d.decision.Create = own, true
	case !exists:
		d.refuse(Missing, own, fmt.Sprintf("the namespace %s of the driver does not exist", own))
	case namespace.Terminating:
		d.refuse(Terminating, own, fmt.Sprintf("the namespace %s of the driver is being deleted: wait until it is gone", own))
	case !d.proven(own):
		d.refuse(Unproven, own, fmt.Sprintf("the namespace %[1]s exists, but no cluster-scoped object shows that it is the driver's: anybody may have created it, "+
			"and would get the driver's permissions and credentials. If you trust it, confirm that: %[2]s Otherwise delete it, and the operator recreates it",
			own, d.annotate(own, namespace.UID)))
	default:
		d.decision.Namespace, d.decision.UID = own, namespace.UID
	}
}

// hasLeft reports whether the recorded namespace has been deleted, even if a new namespace has its name. The driver was deleted with the
// namespace, so it is installed as if nothing were recorded. hasLeft still returns false in two cases: a removal needs no other namespace;
// and if a trace is newer than the present namespace of that name, the driver may be there, and only an administrator can decide.
func (d *decider) hasLeft() bool {
	name, uid := d.Driver.Namespace, d.Driver.NamespaceUID
	return uid != "" && d.Namespaces[name].UID != uid && !d.Removing && !d.named[name]
}

// placeAsAnnotated follows the annotations of the ClusterCSIDriver.
func (d *decider) placeAsAnnotated() {
	defer func() {
		if r := d.decision.Refusal; r != nil {
			r.Lost = d.Driver.NamespaceUID != ""
		}
	}()
	name, uid := d.Driver.Namespace, d.Driver.NamespaceUID
	namespace, exists := d.Namespaces[name]
	elsewhere := "To install the driver in another namespace, name that one: " + lowerFirst(d.annotate("<namespace>", ""))
	switch {
	case uid != "" && !exists:
		d.refuse(Gone, name, fmt.Sprintf("the namespace %s, UID %s, that the driver is in has been deleted. %s", name, uid, elsewhere))
	case uid != "" && namespace.UID != uid:
		d.refuse(Recreated, name, fmt.Sprintf("the driver is in the namespace %[1]s with UID %[2]s, as the annotation %[3]s says, but the namespace of that name has UID %[4]s: "+
			"somebody has recreated it, and its content is not trusted. If you trust it, confirm that: %[5]s %[6]s",
			name, uid, NamespaceUIDAnnotation, namespace.UID, d.annotate(name, namespace.UID), elsewhere))
	case exists && namespace.Terminating:
		d.refuse(Terminating, name, fmt.Sprintf("the namespace %s that the driver is in is being deleted. When it is gone, the driver is installed again, "+
			"in the namespace of its operator unless it has one of its own. %s", name, elsewhere))
	case !exists && name == d.driver.Namespace:
		d.decision.Namespace, d.decision.Create = name, true
	case !exists:
		d.refuse(Missing, name, fmt.Sprintf("the annotation %s names the namespace %s, which does not exist. Create it and then %s",
			NamespaceAnnotation, name, lowerFirst(d.annotate(name, ""))))
	case uid == "" && !d.proven(name) && namespace.Created.After(d.Driver.Created):
		d.refuse(Unproven, name, fmt.Sprintf("the annotation %s names the namespace %s, which is newer than the ClusterCSIDriver: anybody may have created the namespace, "+
			"and would get the driver's permissions and credentials. If you trust it, confirm that: %s",
			NamespaceAnnotation, name, d.annotate(name, namespace.UID)))
	default:
		d.decision.Namespace, d.decision.UID = name, namespace.UID
	}
}

// proven reports whether a cluster-scoped object shows that a namespace was given to the driver.
func (d *decider) proven(name string) bool {
	namespace := d.Namespaces[name]
	made := namespace.Proof != "" &&
		(namespace.Proof == string(namespace.UID) || d.Driver != nil && namespace.Proof == string(d.Driver.UID))
	return made || name == d.Operator || d.named[name]
}

// standBack refuses while there are traces of another operator's driver. Two node plugins cannot serve the same volumes
// on a node, and two operators would revert each other's writes.
func (d *decider) standBack() {
	if len(d.decision.Others) == 0 || d.decision.Refusal != nil {
		return
	}
	var traces []string
	for _, other := range d.decision.Others {
		traces = append(traces, other.String())
	}
	d.decision.Namespace, d.decision.UID, d.decision.Create = "", "", false
	d.refuse(OtherDriver, "", strings.TrimSpace(fmt.Sprintf("another operator's driver for the same volumes is in the cluster: %s. "+
		"Only one driver can serve volumes on a node, so this operator changes nothing until these objects are gone. %s",
		strings.Join(traces, "; "), d.driver.History.Foreign)))
}

// noteElsewhere records references to namespaces that the ClusterCSIDriver does not name.
func (d *decider) noteElsewhere() {
	for _, s := range d.References {
		if d.named[s.Namespace] && !s.Trace.Foreign && s.Namespace != d.Driver.Namespace {
			d.decision.Elsewhere = append(d.decision.Elsewhere, s)
		}
	}
}

func (d *decider) refuse(reason Reason, namespace, message string) {
	d.decision.Refusal = &Refusal{Reason: reason, Namespace: namespace, Message: message}
}

// annotate returns the command with which an administrator decides where the driver is.
func (d *decider) annotate(namespace string, uid types.UID) string {
	if uid == "" {
		uid = "UID"
	}
	return "Run " + escape.Command("oc annotate --overwrite clustercsidriver %s %s %s.", d.driver.CSIName, NamespaceAnnotation+"="+namespace, NamespaceUIDAnnotation+"="+string(uid))
}

// candidates returns the namespaces that the driver may be in: the namespaces that traces name, and the driver's fixed namespace.
func (d *decider) candidates() []string {
	all := maps.Clone(d.named)
	if d.driver.Namespace != "" {
		all[d.driver.Namespace] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func (d *decider) evidence() string {
	var seen []string
	for _, s := range d.References {
		if d.named[s.Namespace] && !s.Trace.Foreign {
			seen = append(seen, s.String())
		}
	}
	return strings.Join(seen, "; ")
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }
