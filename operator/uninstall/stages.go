package uninstall

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-csi/berth/drivers"
)

// A stage is a group of a driver's objects that is removed completely before the next stage begins.
type stage struct {
	name  string
	kinds sets.Set[string] // empty: all kinds that are in no other stage
	pods  bool             // the stage ends when the pods of its objects have ended
}

// stages is the order of the removal. Dependencies go last: pods need their service accounts and permissions until they
// end, and volumes can be released only while there are credentials.
var stages = []stage{
	{name: "controller", kinds: sets.New("Deployment"), pods: true},
	{name: "node", kinds: sets.New(nodeKind), pods: true},
	{name: "objects"},
	{name: "credentials", kinds: sets.New("CredentialsRequest")},
}

// nodeKind is the kind of the workloads whose pods mount volumes.
const nodeKind = "DaemonSet"

// stageOf returns the index of the stage of a kind.
func stageOf(kind string) int {
	rest := -1
	for i, s := range stages {
		if s.kinds.Has(kind) {
			return i
		}
		if s.kinds.Len() == 0 {
			rest = i
		}
	}
	return rest
}

// maxUnknown is how many objects of other versions a message names.
const maxUnknown = 20

// observedState is the observed state of a driver that is to be removed. The controller decides from it alone, so an
// interrupted removal continues where it stopped.
type observedState struct {
	// users are descriptions of the pods that use a volume of the driver, at most maxUsers of them.
	users []string
	// tasks are the remaining tasks of the driver's controller. They are read only if asksController.
	tasks []task
	// forced says that an administrator wants the driver removed even while its volumes are in use.
	forced bool
	// refused has the API server's reason for each object that it has refused to delete, by kind and name.
	refused map[string]error
	// objects are the existing objects of the driver, without foreign ones. Only the stages up to the first one with
	// remaining objects are observed, and the stage of the DaemonSets.
	objects []drivers.Manifest
	// pods describes, for each stage, the remaining pods of its deleted workloads.
	pods map[int][]string
	// left describes pods that the removal does not wait for: they are lost, or overdue in a forced removal.
	left []string
	// foreign are objects with names of the driver's objects that its operators did not create. kept are objects that
	// outlive the driver.
	foreign, kept []string
	// unknown are objects that other versions of the operator created and that this one does not know.
	unknown []string
	// lostNamespace is the driver's namespace if it was deleted or replaced, so that nothing in it was observed.
	lostNamespace string
}

// An action is the controller's next action.
type action struct {
	reason  string // of the condition that reports it
	message string
	delete  []drivers.Manifest
	done    bool
}

// reasonRefused is the reason when only objects remain that the API server refuses to delete, and objects that must
// outlive them.
const reasonRefused = "DeletionRefused"

// reasonInUse is the reason while volumes of the driver block the removal.
const reasonInUse = "VolumesInUse"

// reasonControllerTasks is the reason while the driver's controller has tasks to finish before its removal.
const reasonControllerTasks = "ControllerNeeded"

// deletesMore reports whether an action deletes objects that are not being deleted yet.
func (a action) deletesMore() bool {
	return slices.ContainsFunc(a.delete, func(m drivers.Manifest) bool { return m.Object.GetDeletionTimestamp() == nil })
}

// waits reports whether an action is to wait for pods to end, or for the driver's controller to finish its tasks.
func (a action) waits() bool { return len(a.delete) == 0 && !a.done }

// nextAction decides how the removal of a driver continues.
func nextAction(observed observedState) action {
	if len(observed.users) > 0 && !observed.forced && servesVolumes(observed) {
		named := abbreviate(observed.users)
		note := ""
		if strings.Contains(named, notReadyNote) {
			note = "A pod on a node that is NotReady does not count once it is deleted. "
		}
		return action{reason: reasonInUse, message: fmt.Sprintf(
			"volumes of the driver are in use by %s: %s. %sThe driver is removed when they are gone; to remove it at once, "+
				"at the price of pods that can neither read nor unmount their volumes, set the annotation %s=true on the ClusterCSIDriver",
			countUsers(observed.users), named, note, forceAnnotation)}
	}
	if len(observed.tasks) > 0 && !observed.forced {
		return action{reason: reasonControllerTasks, message: fmt.Sprintf(
			"the driver's controller still has to %s. The driver is removed when that is done; if it takes long, the events of these "+
				"objects and the log of the controller say why. To remove the driver at once, at the price of volumes that stay attached, "+
				"and objects and storage that nobody deletes, set the annotation %s=true on the ClusterCSIDriver",
			describeTasks(observed.tasks), forceAnnotation)}
	}
	var refused []drivers.Manifest
	for i, s := range stages {
		objects := slices.DeleteFunc(slices.Clone(observed.objects), func(m drivers.Manifest) bool {
			return stageOf(m.Object.GetKind()) != i
		})
		pending := slices.DeleteFunc(slices.Clone(objects), func(m drivers.Manifest) bool { return observed.refused[nameOf(m)] != nil })
		if len(pending) > 0 {
			return action{reason: "Removing", message: fmt.Sprintf("removing the driver's %s: %s%s",
				s.name, count(len(pending), "object"), leftBehind(observed)), delete: slices.Concat(objects, refused)}
		}
		refused = append(refused, objects...)
		if s.pods && len(objects) > 0 {
			break // the pods need the objects of later stages
		}
		if pods := observed.pods[i]; len(pods) > 0 {
			return action{reason: "Removing", message: fmt.Sprintf(
				"waiting for the driver's %s to end: %s: %s; to wait for none that should have ended by now, set the annotation %s=true on the ClusterCSIDriver%s",
				s.name, count(len(pods), "pod"), abbreviate(pods), forceAnnotation, leftBehind(observed))}
		}
	}
	if len(refused) > 0 {
		var reasons []string
		for _, m := range refused {
			reasons = append(reasons, observed.refused[nameOf(m)].Error())
		}
		return action{reason: reasonRefused, delete: refused, message: fmt.Sprintf("the driver is removed when %s can be deleted, which the API server refuses: %s",
			count(len(refused), "more object"), abbreviate(reasons))}
	}
	message := "the driver is removed" + leftBehind(observed)
	if len(observed.foreign) > 0 {
		message += fmt.Sprintf("; left alone, because the operator did not create them: %s", strings.Join(observed.foreign, ", "))
	}
	if len(observed.kept) > 0 {
		message += fmt.Sprintf("; kept, because volumes may refer to them: %s", strings.Join(observed.kept, ", "))
	}
	if len(observed.unknown) > 0 {
		message += fmt.Sprintf("; not looked for, because another version of the operator created them: %s", strings.Join(observed.unknown[:min(len(observed.unknown), maxUnknown)], ", "))
	}
	if observed.lostNamespace != "" {
		message += fmt.Sprintf("; not checked: the namespace %s, because the driver's namespace of that name has been deleted", observed.lostNamespace)
	}
	return action{reason: "Removed", message: message, done: true}
}

// nameOf returns an object's kind and name.
func nameOf(m drivers.Manifest) string { return m.Object.GetKind() + " " + m.Object.GetName() }

// asksController reports whether the next action depends on the tasks of the driver's controller: the controller
// exists, and no pods block the removal.
func asksController(observed observedState) bool {
	return (len(observed.users) == 0 || observed.forced) &&
		slices.ContainsFunc(observed.objects, func(m drivers.Manifest) bool { return m.Object.GetKind() == "Deployment" })
}

// leftBehind says which pods the removal does not wait for.
func leftBehind(observed observedState) string {
	if len(observed.left) == 0 {
		return ""
	}
	return fmt.Sprintf("; not waiting for %s: %s", count(len(observed.left), "deleted pod"), abbreviate(observed.left))
}

// servesVolumes reports whether the driver still serves its volumes. Once its node pods are being deleted, the removal cannot be stopped,
// and waiting would only harm pods that still use a volume.
func servesVolumes(observed observedState) bool {
	return slices.ContainsFunc(observed.objects, func(m drivers.Manifest) bool { return isNodePlugin(m.Object) })
}

func isNodePlugin(object *unstructured.Unstructured) bool { return object.GetKind() == nodeKind }

// countUsers says how many pods use volumes. The search stops at maxUsers.
func countUsers(users []string) string {
	if len(users) >= maxUsers {
		return count(len(users), "pod") + " or more"
	}
	return count(len(users), "pod")
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// maxNamed is how many objects a message names, so that it fits a condition.
const maxNamed = 10

// abbreviate lists the first names.
func abbreviate(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}
