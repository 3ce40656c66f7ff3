package clustercsidriver

import (
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/berth-csi/berth/drivers"
)

// A subject is one condition that replaces the conditions of several controllers, its members. There is one for each
// question that an administrator has. The members have the subject's polarity: the subject is healthy if all of them
// are.
type subject struct {
	conditionType string   // without the driver's prefix, like the members
	members       []string // the applied conditions. A member of the subject's own type needs no label in the message
}

// subjects lists all subjects. Every other condition is written as it is applied. That includes the types that
// OpenShift's operators also write, because commands and runbooks wait for these.
var subjects = []subject{
	{"OperatorDegraded", []string{ // what the operator cannot do
		"ManifestsDegraded", "DriverObjectsControllerDegraded", "DriverAdoptionControllerDegraded", "DriverRetirementControllerDegraded",
		"DriverSettingsControllerDegraded", "DriverConfigurationControllerDegraded", "DriverCloudConfigControllerDegraded",
		storageClassControllerDegraded, "DriverSnapshotClassControllerDegraded",
		"ControllerCredentialsRequestControllerDegraded", "TagsCredentialsRequestControllerDegraded", "TagsDegraded",
		"ControllerCredentialsRequestControllerWaitingDegraded", "TagsCredentialsRequestControllerWaitingDegraded",
	}},
	{"NodeCredentialsRequestControllerDegraded", []string{"NodeCredentialsRequestControllerDegraded", "NodeCredentialsRequestControllerWaitingDegraded"}},
	{"DriverPodsDegraded", []string{"DriverPodsDegraded", "DriverPodsControllerDegraded"}},
	{"DriverSettingsApplied", []string{"DriverSettingsApplied", "TagsAccepted", "BackendClassesMade"}}, // what is left out
	{"TagsSet", []string{"TagsSet", "TagsCredentialsRequestControllerAvailable"}},
	{"BackendAnswers", []string{"BackendAnswers", "BackendAvailable"}},
	// If a driver has a second DaemonSet, the conditions with OpenShift's names for the node service cover both.
	{"DriverNodeServiceControllerAvailable", []string{"DriverNodeServiceControllerAvailable", "DriverNodeServiceController2Available"}},
	{"DriverNodeServiceControllerProgressing", []string{"DriverNodeServiceControllerProgressing", "DriverNodeServiceController2Progressing"}},
	{"DriverNodeServiceControllerDegraded", []string{"DriverNodeServiceControllerDegraded", "DriverNodeServiceController2Degraded"}},
}

// implied lists conditions that are not written, because another condition says the opposite with the same reason and
// message.
var implied = map[string]string{
	"ControllerCredentialsRequestControllerProgressing": "ControllerCredentialsRequestControllerAvailable",
	"TagsCredentialsRequestControllerProgressing":       "TagsCredentialsRequestControllerAvailable",
	"BackendProgressing":                                "BackendAvailable",
}

const storageClassControllerDegraded = "DriverStorageClassControllerDegraded"

// separator separates the reasons of several members, as in library-go's summaries.
const separator = "::"

// also precedes the message of a healthy member if another member is not healthy.
const also = "also "

// Subjects are the subjects of a driver's conditions.
type Subjects struct {
	prefix string
	all    []subject
	member map[string]bool
}

// NewSubjects returns the subjects of a driver. If clusters are installed with the driver, OpenShift's operator for it has a StorageClass
// controller. Then the condition about classes is written separately, under that controller's name.
func NewSubjects(driver drivers.Driver) *Subjects {
	s := &Subjects{prefix: driver.ConditionPrefix, member: map[string]bool{}}
	for _, of := range subjects {
		own := subject{conditionType: s.prefix + of.conditionType}
		for _, member := range of.members {
			if member == storageClassControllerDegraded && driver.ClusterStorage != nil && driver.Backend == nil {
				continue
			}
			own.members = append(own.members, s.prefix+member)
			s.member[s.prefix+member] = true
		}
		s.all = append(s.all, own)
	}
	return s
}

// fold returns the conditions to write, given the applied ones. It sets no transition times, because they depend on the
// conditions that were written before.
func (s *Subjects) fold(applied []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	if s == nil {
		return applied
	}
	var written []operatorv1.OperatorCondition
	for _, c := range applied {
		if _, isImplied := implied[strings.TrimPrefix(c.Type, s.prefix)]; !isImplied && !s.member[c.Type] {
			written = append(written, c)
		}
	}
	for _, of := range s.all {
		if folded, any := of.fold(applied, s.prefix); any {
			written = append(written, folded)
		}
	}
	return written
}

// fold returns the subject's condition, if any member was applied. It joins the reasons and messages of the faulty
// members. If none is faulty, it uses the member of the subject's own type, or else the members that have a message.
func (of subject) fold(applied []operatorv1.OperatorCondition, prefix string) (folded operatorv1.OperatorCondition, any bool) {
	var present, faulty, telling []operatorv1.OperatorCondition
	healthy := healthyStatus(of.conditionType)
	folded = operatorv1.OperatorCondition{Type: of.conditionType, Status: healthy}
	for _, member := range of.members {
		c := v1helpers.FindOperatorCondition(applied, member)
		if c == nil {
			continue
		}
		present = append(present, *c)
		switch {
		case c.Status != healthy:
			faulty = append(faulty, *c)
			if folded.Status == healthy || c.Status != operatorv1.ConditionUnknown {
				folded.Status = c.Status
			}
		case c.Message != "":
			telling = append(telling, *c)
		}
	}
	if len(present) == 0 {
		return folded, false
	}
	if len(faulty) == 0 && present[0].Type == of.conditionType { // only the subject's own member gives the reason
		faulty = present[:1]
	} else if len(faulty) == 0 {
		faulty, telling = telling, nil
	}
	if len(faulty) == 0 {
		folded.Reason = present[0].Reason
		return folded, true
	}
	var reasons, messages []string
	for _, c := range faulty {
		reasons, messages = append(reasons, c.Reason), append(messages, of.label(c.Type, prefix)+c.Message)
	}
	for _, c := range telling {
		if label := of.label(c.Type, prefix); label != "" {
			messages = append(messages, also+label+c.Message)
		}
	}
	if len(slices.Compact(slices.Clone(reasons))) == 1 {
		reasons = reasons[:1]
	}
	folded.Reason, folded.Message = strings.Join(reasons, separator), strings.TrimPrefix(strings.Join(messages, "\n"), "\n")
	return folded, true
}

// awaited returns the conditions of components that have not reported yet, if the status shows these conditions only as part of a
// subject. Without them, a starting operator would regard such a component as healthy.
func (s *Subjects) awaited(pending []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(pending), func(c operatorv1.OperatorCondition) bool {
		return !s.member[c.Type] || slices.ContainsFunc(s.all, func(of subject) bool { return of.conditionType == c.Type })
	})
}

// unfold restores the applied conditions from the written ones, as far as possible. A starting operator needs them
// until its controllers have reported. Otherwise each fault would seem to end whenever the operator restarts.
func (s *Subjects) unfold(written []operatorv1.OperatorCondition) []operatorv1.OperatorCondition {
	if s == nil {
		return written
	}
	var applied, unfolded []operatorv1.OperatorCondition
	for _, c := range written {
		i := slices.IndexFunc(s.all, func(of subject) bool { return of.conditionType == c.Type })
		if i < 0 {
			applied = append(applied, c)
			continue
		}
		unfolded = append(unfolded, s.all[i].unfold(c, s.prefix)...)
	}
	for _, c := range unfolded { // earlier versions of the operator wrote each member as a condition
		if v1helpers.FindOperatorCondition(applied, c.Type) == nil {
			applied = append(applied, c)
		}
	}
	for twin, of := range implied {
		c := v1helpers.FindOperatorCondition(applied, s.prefix+of)
		if c == nil || v1helpers.FindOperatorCondition(applied, s.prefix+twin) != nil {
			continue
		}
		opposite := *c
		opposite.Type, opposite.Status = s.prefix+twin, operatorv1.ConditionTrue
		if c.Status == operatorv1.ConditionTrue {
			opposite.Status = operatorv1.ConditionFalse
		}
		applied = append(applied, opposite)
	}
	return applied
}

func (of subject) unfold(written operatorv1.OperatorCondition, prefix string) []operatorv1.OperatorCondition {
	healthy := healthyStatus(of.conditionType)
	messages, faulty := map[string]string{}, []string{} // faulty have a reason each, in this order
	current := of.members[0]
	if written.Message != "" || written.Status != healthy {
		for _, line := range strings.Split(written.Message, "\n") {
			rest, isAlso := line, false
			begins := slices.ContainsFunc(of.members, func(member string) bool {
				label := of.label(member, prefix)
				if label == "" {
					return false
				}
				if rest, isAlso = strings.CutPrefix(line, also+label); isAlso {
					current = member
					return true
				}
				var found bool
				if rest, found = strings.CutPrefix(line, label); found {
					current = member
				}
				return found
			})
			switch before, known := messages[current]; {
			case begins, !known:
				messages[current] = rest
				if !isAlso {
					faulty = append(faulty, current)
				}
			default:
				messages[current] = before + "\n" + line
			}
		}
	}
	reasons := strings.Split(written.Reason, separator)
	var members []operatorv1.OperatorCondition
	for _, member := range of.members {
		c := written
		c.Type, c.Status, c.Message = member, healthy, messages[member]
		if i := slices.Index(faulty, member); i >= 0 {
			c.Status, c.Reason = written.Status, reasons[min(i, len(reasons)-1)]
		} else if len(faulty) > 0 {
			c.Reason = "AsExpected"
		}
		members = append(members, c)
	}
	return members
}

// label returns the beginning of a member's part of the message.
func (of subject) label(member, prefix string) string {
	if member == of.conditionType {
		return ""
	}
	name := strings.TrimPrefix(member, prefix)
	for _, summary := range summaries {
		name = strings.TrimSuffix(name, summary.conditionType)
	}
	return name + ": "
}

// healthyStatus returns the status of a healthy subject.
func healthyStatus(conditionType string) operatorv1.ConditionStatus {
	for _, summary := range summaries {
		if strings.HasSuffix(conditionType, summary.conditionType) {
			return summary.healthy
		}
	}
	return operatorv1.ConditionTrue
}
