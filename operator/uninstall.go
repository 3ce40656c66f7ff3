package operator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-csi/berth/drivers"
)

// A stage is one part of a driver that goes as a whole, before the next one does.
type stage struct {
	name  string
	kinds sets.Set[string] // empty: all kinds that no other stage names
}

// stages is the order in which a driver is taken apart. What others depend on goes last: pods need
// their accounts and permissions to the end, and volumes can be released only while credentials last.
var stages = []stage{
	{name: "controller", kinds: sets.New("Deployment")},
	{name: "node", kinds: sets.New("DaemonSet")},
	{name: "objects"},
	{name: "credentials", kinds: sets.New("CredentialsRequest")},
}

// stageOf returns the index of the stage that a kind of object belongs to.
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

// remains is what the cluster shows of a driver that is to be removed. Everything is decided from
// it: an operator that was interrupted looks again and goes on.
type remains struct {
	// users are the pods, as namespace/name, that use a volume of the driver, and not more than maxUsers of
	// them. They are looked for again after a time.
	users []string
	again time.Duration
	// forced says that an administrator wants the driver gone even so.
	forced bool
	// objects are those of the driver's objects that exist, foreign ones left out.
	objects []drivers.Manifest
	// pods counts, for each stage, the pods that its objects have left behind so far.
	pods map[int]int
	// foreign names the objects that have the name of one of ours and are not, and kept those that outlive
	// the driver.
	foreign, kept []string
	// lost is the driver's namespace if that is not the driver's any more, so that nothing in it was looked at.
	lost string
}

// step is the next thing to do to remove a driver.
type step struct {
	reason  string // of the condition that reports it
	message string
	delete  []drivers.Manifest
	done    bool
}

// reasonInUse is why a removal waits for others.
const reasonInUse = "VolumesInUse"

// nextStep decides how the removal of a driver goes on.
func nextStep(r remains) step {
	if len(r.users) > 0 && !r.forced && atBeginning(r) {
		return step{reason: reasonInUse, message: fmt.Sprintf(
			"volumes of the driver are in use by %s: %s. The driver is removed when they are gone; to remove it at once, "+
				"at the price of pods that can neither read nor unmount their volumes, set the annotation %s=true on the ClusterCSIDriver",
			countUsers(r.users), abbreviate(r.users), forceAnnotation)}
	}
	for i, s := range stages {
		objects := slices.DeleteFunc(slices.Clone(r.objects), func(m drivers.Manifest) bool {
			return stageOf(m.Object.GetKind()) != i
		})
		if len(objects) > 0 {
			return step{reason: "Removing", message: fmt.Sprintf("removing the driver's %s: %s", s.name, count(len(objects), "object")), delete: objects}
		}
		if r.pods[i] > 0 {
			return step{reason: "Removing", message: fmt.Sprintf("waiting for the driver's %s to end: %s", s.name, count(r.pods[i], "pod"))}
		}
	}
	message := "the driver is removed"
	if len(r.foreign) > 0 {
		message += fmt.Sprintf("; left alone, because the operator did not make them: %s", strings.Join(r.foreign, ", "))
	}
	if len(r.kept) > 0 {
		message += fmt.Sprintf("; kept, because volumes may refer to them: %s", strings.Join(r.kept, ", "))
	}
	if r.lost != "" {
		message += fmt.Sprintf("; not looked at: the namespace %s, as the one that the driver was in has been deleted", r.lost)
	}
	return step{reason: "Removed", message: message, done: true}
}

// atBeginning tells whether the driver still serves its volumes. Once its node pods are on their way
// out there is no way back, and whoever still uses a volume can only be hurt by waiting.
func atBeginning(r remains) bool {
	return slices.ContainsFunc(r.objects, func(m drivers.Manifest) bool { return m.Object.GetKind() == "DaemonSet" })
}

// countUsers tells how many pods there are, as far as they were looked for.
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

// abbreviate lists names up to a length that a condition can hold and a person will read.
func abbreviate(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
