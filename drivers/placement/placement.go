// Package placement decides which namespace a driver is in.
//
// Anybody who is signed in to a cluster may make namespaces, of nearly any name, and whatever they like in them.
// So nothing in a namespace says that a driver is there, nor does a namespace's name: what decides are
// cluster-scoped objects, which only administrators write, and a namespace is known by its UID.
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
)

const (
	// NamespaceAnnotation on a ClusterCSIDriver names the namespace that the driver is in. An administrator may set
	// it before there is a driver; the operator sets it before it makes anything.
	NamespaceAnnotation = "berth.dev/driver-namespace"
	// NamespaceUIDAnnotation tells which namespace of that name is meant: others may follow it. The operator
	// sets it together with NamespaceAnnotation.
	NamespaceUIDAnnotation = "berth.dev/driver-namespace-uid"
	// ProofLabel on a Namespace shows that the operator made it. Its value is the UID of the ClusterCSIDriver that
	// it was made for, or else its own; nobody who requests a namespace knows either.
	ProofLabel = "berth.dev/driver-namespace-proof"
)

// Observed is what a cluster shows of where a driver is.
type Observed struct {
	// Operator is the namespace that the driver's operator runs in.
	Operator string
	// Driver is the driver's ClusterCSIDriver, nil if there is none.
	Driver *ClusterCSIDriver
	// Namespaces are those that exist, by name, of all that are mentioned anywhere.
	Namespaces map[string]Namespace
	// Sightings are the namespaces that traces name.
	Sightings []Sighting
}

// ClusterCSIDriver is what a driver's ClusterCSIDriver says of its namespace.
type ClusterCSIDriver struct {
	UID types.UID
	// Namespace and NamespaceUID are its annotations, and NamedAt is when the first was last written.
	Namespace    string
	NamespaceUID types.UID
	NamedAt      time.Time
}

// Namespace is what is to be known of a namespace.
type Namespace struct {
	UID         types.UID
	Created     time.Time
	Terminating bool
	Proof       string // its ProofLabel
}

// Sighting is a namespace that a trace names.
type Sighting struct {
	Trace     drivers.Trace
	Created   time.Time // of the trace
	Namespace string
	Account   string
}

func (s Sighting) String() string {
	return fmt.Sprintf("%s %s names the service account %s/%s", s.Trace.Kind.Kind, s.Trace.Name, s.Namespace, s.Account)
}

// Decision is where a driver is, or why that is not known.
type Decision struct {
	// Namespace is where the driver is or shall be, and UID that namespace's. It is "" if there is a Refusal.
	Namespace string
	UID       types.UID
	// Create says that the namespace does not exist and is to be made.
	Create bool
	// Refusal says why nothing may be written. Nil is for none.
	Refusal *Refusal
	// Believed are the namespaces that administrators have given to operators of the driver: what is in them
	// tells the truth about those operators.
	Believed []string
	// Others are the sightings of other operators' drivers of the same volumes, which cannot be taken over, and
	// Elsewhere those of drivers like ours in other namespaces than the one that the ClusterCSIDriver names.
	Others, Elsewhere []Sighting
	// Ignored tells of each sighting that is not believed why.
	Ignored []string
}

// Reason is the reason of a condition.
type Reason string

const (
	// Missing: the namespace that the annotation names does not exist.
	Missing Reason = "NamespaceMissing"
	// Gone: the recorded namespace has been deleted.
	Gone Reason = "NamespaceGone"
	// Recreated: there is another namespace in the place of the recorded one.
	Recreated Reason = "NamespaceRecreated"
	// Terminating: the namespace is being deleted.
	Terminating Reason = "NamespaceTerminating"
	// Unproven: nothing shows that administrators gave the namespace to the driver.
	Unproven Reason = "NamespaceUnproven"
	// Several: the driver is in several namespaces.
	Several Reason = "SeveralNamespaces"
)

// Refusal is why it is not known where a driver is.
type Refusal struct {
	Reason Reason
	// Message says what was found and how an administrator settles it.
	Message string
	// Namespace is the one in question, "" if there are several.
	Namespace string
	// Lost says that the driver's namespace is on record and is not there any more. Whatever is granted to accounts
	// in a namespace of that name would be another's.
	Lost bool
}

// Decide returns where a driver is.
func Decide(driver drivers.Driver, o Observed) Decision {
	d := decider{driver: driver, Observed: o, named: map[string]bool{}}
	d.sift()
	d.place()
	believed := maps.Clone(d.named)
	if d.decision.Namespace != "" && !d.decision.Create {
		believed[d.decision.Namespace] = true
	}
	for _, other := range d.decision.Others {
		believed[other.Namespace] = true
	}
	d.decision.Believed = slices.Sorted(maps.Keys(believed))
	return d.decision
}

type decider struct {
	Observed
	driver   drivers.Driver
	named    map[string]bool // the namespaces that believed traces of the driver name
	decision Decision
}

// sift tells sightings that are believed from those that are not. A namespace that is newer than what names it
// is not the one that was meant: the former may have been deleted, and a tenant have taken its name.
func (d *decider) sift() {
	for _, s := range d.Sightings {
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

func (d *decider) place() {
	if d.Driver != nil && d.Driver.Namespace != "" {
		d.placeAsAnnotated()
		d.lookElsewhere()
		return
	}
	own := cmp.Or(d.driver.Namespace, d.Operator)
	switch named := slices.Sorted(maps.Keys(d.named)); {
	case len(named) > 1, len(named) == 1 && d.driver.Namespace != "" && named[0] != own:
		d.refuse(Several, "", fmt.Sprintf("the driver may be in any of the namespaces %s, and only an administrator can say which: %s. %s",
			strings.Join(d.candidates(), ", "), d.evidence(), d.settle("<namespace>", "")))
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
		d.refuse(Terminating, own, fmt.Sprintf("the namespace %s of the driver is being deleted: wait for its end", own))
	case !d.proven(own):
		d.refuse(Unproven, own, fmt.Sprintf("the namespace %[1]s exists, but no cluster-scoped object shows that it is the driver's: anybody may have made it, "+
			"and would get the driver's permissions and credentials. If it is trustworthy, say so: %[2]s Otherwise delete it, and the operator makes it anew",
			own, d.settle(own, namespace.UID)))
	default:
		d.decision.Namespace, d.decision.UID = own, namespace.UID
	}
}

// placeAsAnnotated goes by what the ClusterCSIDriver says.
func (d *decider) placeAsAnnotated() {
	defer func() {
		if r := d.decision.Refusal; r != nil {
			r.Lost = d.Driver.NamespaceUID != ""
		}
	}()
	name, uid := d.Driver.Namespace, d.Driver.NamespaceUID
	namespace, exists := d.Namespaces[name]
	anew := fmt.Sprintf("To have the driver made in another namespace, set the annotation %s to that and remove %s", NamespaceAnnotation, NamespaceUIDAnnotation)
	switch {
	case uid != "" && !exists:
		d.refuse(Gone, name, fmt.Sprintf("the namespace %s, UID %s, that the driver is in has been deleted. %s", name, uid, anew))
	case uid != "" && namespace.UID != uid:
		d.refuse(Recreated, name, fmt.Sprintf("the driver is in the namespace %[1]s with UID %[2]s, as the annotation %[3]s says, but the namespace of that name has UID %[4]s: "+
			"somebody has made another one, and what is in it is not trusted. If it is trustworthy, say so: %[5]s %[6]s",
			name, uid, NamespaceUIDAnnotation, namespace.UID, d.settle(name, namespace.UID), anew))
	case exists && namespace.Terminating:
		d.refuse(Terminating, name, fmt.Sprintf("the namespace %s that the driver is in is being deleted. %s", name, anew))
	case !exists && name == d.driver.Namespace:
		d.decision.Namespace, d.decision.Create = name, true
	case !exists:
		d.refuse(Missing, name, fmt.Sprintf("the annotation %s names the namespace %s, which does not exist. Create it and then %s",
			NamespaceAnnotation, name, lowerFirst(d.settle(name, ""))))
	case uid == "" && !d.proven(name) && namespace.Created.After(d.Driver.NamedAt):
		d.refuse(Unproven, name, fmt.Sprintf("the annotation %s names the namespace %s, which has been made since: anybody may have made it, "+
			"and would get the driver's permissions and credentials. If it is trustworthy, say so: %s",
			NamespaceAnnotation, name, d.settle(name, namespace.UID)))
	default:
		d.decision.Namespace, d.decision.UID = name, namespace.UID
	}
}

// proven tells whether a cluster-scoped object shows that a namespace was given to the driver.
func (d *decider) proven(name string) bool {
	namespace := d.Namespaces[name]
	made := namespace.Proof != "" &&
		(namespace.Proof == string(namespace.UID) || d.Driver != nil && namespace.Proof == string(d.Driver.UID))
	return made || name == d.Operator || d.named[name]
}

// lookElsewhere notes what traces name besides what the ClusterCSIDriver does.
func (d *decider) lookElsewhere() {
	for _, s := range d.Sightings {
		if d.named[s.Namespace] && !s.Trace.Foreign && s.Namespace != d.Driver.Namespace {
			d.decision.Elsewhere = append(d.decision.Elsewhere, s)
		}
	}
}

func (d *decider) refuse(reason Reason, namespace, message string) {
	d.decision.Refusal = &Refusal{Reason: reason, Namespace: namespace, Message: message}
}

// settle is the command with which an administrator says where the driver is.
func (d *decider) settle(namespace string, uid types.UID) string {
	if uid == "" {
		uid = "<its UID>"
	}
	return fmt.Sprintf("Run oc annotate --overwrite clustercsidriver %s %s=%s %s=%s.", d.driver.CSIName, NamespaceAnnotation, namespace, NamespaceUIDAnnotation, uid)
}

// candidates are the namespaces that the driver may be in: those that traces name, and its fixed one.
func (d *decider) candidates() []string {
	all := maps.Clone(d.named)
	if d.driver.Namespace != "" {
		all[d.driver.Namespace] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func (d *decider) evidence() string {
	var seen []string
	for _, s := range d.Sightings {
		if d.named[s.Namespace] && !s.Trace.Foreign {
			seen = append(seen, s.String())
		}
	}
	return strings.Join(seen, "; ")
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }
