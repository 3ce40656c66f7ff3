package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers/rollout"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/listing"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// maxOfTeam is the maximum number of faulty objects of a kind in a report.
const maxOfTeam = 20

// few keeps the first objects of a kind, and counts the others. A bad object takes the place of a merely suspicious one, so that many
// suspicious objects do not hide it.
type few[T any] struct {
	bad  func(T) bool
	kept []T
	more int
}

func (f *few[T]) add(of T) {
	if len(f.kept) == maxOfTeam {
		f.more++
		at := slices.IndexFunc(f.kept, func(kept T) bool { return !f.bad(kept) })
		if at < 0 || !f.bad(of) {
			return
		}
		f.kept = slices.Delete(f.kept, at, at+1)
	}
	f.kept = append(f.kept, of)
}

// rest returns a warning about the objects that are not kept, if there are any. what is a kind, and list the command that shows them all.
func (f *few[T]) rest(code, what, list string) []findings.Check {
	if f.more == 0 {
		return nil
	}
	return []findings.Check{findings.Warn(code, list, "%s like these", number(f.more, "more "+what))}
}

// ExamineNamespace examines a team's SharedVolumes, claims, and the pods that use them, in one namespace. It reads nothing else. It
// fails if the API server does not answer, or says that there is no such namespace.
func ExamineNamespace(ctx context.Context, cluster Cluster, namespace string) (*Report, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	// The API server also lists what is in a namespace that does not exist: nothing. Not being allowed to read it is no error.
	if exists, err := cluster.read(ctx, object, "", namespace); err == nil && !exists {
		return nil, fmt.Errorf("there is no namespace %s", namespace)
	}
	team := &team{namespace: namespace}
	report := &Report{Schema: Schema, Healthy: true, Cluster: []Section{}, Drivers: []DriverReport{}, Namespace: namespace}
	var err error
	report.Team, err = report.examine(ctx, []subject{
		{"SharedVolumes", team.examineSharedVolumes}, {"Claims", team.examineClaims}, {"Pods that use them", team.examinePods},
	}, &examinedDriver{Cluster: cluster})
	return report, err
}

// team holds the objects of a namespace.
type team struct {
	namespace string
}

func (t *team) examineSharedVolumes(ctx context.Context, p *examinedDriver) ([]findings.Check, error) {
	var all int
	bad := few[findings.Check]{bad: func(c findings.Check) bool { return c.Verdict == findings.Fault }}
	err := each(ctx, p.Cluster, v1alpha1.GroupVersion, listing.List{Resource: sharedVolumes, Namespace: t.namespace}, func(v sharedVolume) error {
		all++
		if result := judgeOne(v); result != nil {
			bad.add(*result)
		}
		return nil
	})
	if apierrors.IsNotFound(errors.Unwrap(err)) || err != nil && optional(err) == nil {
		return nil, nil // the cluster does not serve them
	}
	if err != nil {
		return bad.kept, err
	}
	if len(bad.kept) == 0 {
		return []findings.Check{findings.Pass(sharedVolumesFine, "%s", allReady(all))}, nil
	}
	return append(bad.kept, bad.rest(sharedVolumesNotReady, "SharedVolume", escape.Command("oc -n %s get sharedvolumes", t.namespace))...), nil
}

// judgeOne judges one SharedVolume. It returns nil if the SharedVolume has no fault.
func judgeOne(v sharedVolume) *findings.Check {
	var c count
	if err := c.add(v); err != nil {
		return nil // add never fails
	}
	if c.unseen > 0 {
		r := findings.Warn(sharedVolumesNotReady, "wait, or have a cluster administrator run berth doctor to see whether the operator runs; "+helpWithoutOperator,
			"SharedVolume %s is being deleted, and no operator has reported on that", v.Metadata.Name)
		return &r
	}
	describe := escape.Command("oc -n %s describe sharedvolume %s", v.Metadata.Namespace, v.Metadata.Name)
	for reason, text := range c.unready.first {
		r := findings.Fail(sharedVolumesNotReady, describe+"; the reasons: "+findings.Page("operate/troubleshooting.md#my-sharedvolume-is-not-ready"), "SharedVolume %s is not Ready, with reason %s: %s", v.Metadata.Name, reason, message(text))
		if v.Status.Phase == v1alpha1.Pending || v.Status.Phase == v1alpha1.Deleting {
			r.Verdict = findings.Warning
		}
		return &r
	}
	for reason, text := range c.absent.first {
		r := findings.Warn(fileSystemNotAvailable, describe+"; the reasons: "+findings.Page("operate/sharedvolume.md#status"), "SharedVolume %s is Ready, but AWS lacks something, with reason %s: %s", v.Metadata.Name, reason, message(text))
		return &r
	}
	return nil
}

// message returns a SharedVolume's message from the text in a tally.
func message(of string) string {
	_, text, _ := strings.Cut(of, ": ")
	return text
}

// claim holds the fields of a team's claim that are read.
type claim struct {
	Metadata struct {
		Name, DeletionTimestamp string
		Finalizers              []string
	}
	Status struct {
		Phase corev1.PersistentVolumeClaimPhase
	}
}

func (t *team) examineClaims(ctx context.Context, p *examinedDriver) ([]findings.Check, error) {
	all := 0
	waiting, deleted := few[string]{bad: func(string) bool { return false }}, few[claim]{bad: func(claim) bool { return false }}
	if err := each(ctx, p.Cluster, corev1.SchemeGroupVersion, listing.List{Resource: "persistentvolumeclaims", Namespace: t.namespace}, func(of claim) error {
		all++
		switch {
		case of.Metadata.DeletionTimestamp != "":
			deleted.add(of)
		case of.Status.Phase != corev1.ClaimBound:
			waiting.add(of.Metadata.Name)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	var results []findings.Check
	if len(waiting.kept) > 0 {
		said, err := t.events(ctx, p, "PersistentVolumeClaim", waiting.kept)
		if err != nil {
			return nil, err
		}
		for _, name := range waiting.kept {
			results = append(results, findings.Warn(claimNotBound, escape.Command("oc -n %s describe pvc %s", t.namespace, name)+"; "+findings.Page("operate/troubleshooting.md#my-claim-is-pending"),
				"claim %s is not bound%s", name, suffix(said[name])))
		}
	}
	list := escape.Command("oc -n %s get pvc", t.namespace)
	results = append(results, waiting.rest(claimNotBound, "claim", list)...)
	if len(deleted.kept) > 0 {
		users, err := t.users(ctx, p, deleted.kept)
		for _, of := range deleted.kept {
			results = append(results, t.judgeDeleted(of, users[of.Metadata.Name]))
		}
		return append(results, deleted.rest(claimDeleted, "claim", list)...), err
	}
	if len(results) == 0 {
		results = append(results, findings.Pass(claimsFine, "%s bound", number(all, "claim")+" "+are(all)))
	}
	return results, nil
}

// users returns the pods that keep these claims from being deleted, by the claim. Pods that have ended keep none.
func (t *team) users(ctx context.Context, p *examinedDriver, claims []claim) (map[string][]string, error) {
	of := map[string][]string{}
	for _, claim := range claims {
		of[claim.Metadata.Name] = nil
	}
	return of, each(ctx, p.Cluster, corev1.SchemeGroupVersion, listing.List{Resource: "pods", Namespace: t.namespace}, func(user teamPod) error {
		if user.Status.Phase == corev1.PodSucceeded || user.Status.Phase == corev1.PodFailed {
			return nil
		}
		used := user.claims()
		slices.Sort(used)
		for _, claim := range slices.Compact(used) {
			if users, asked := of[claim]; asked {
				of[claim] = append(users, user.Metadata.Name)
			}
		}
		return nil
	})
}

// judgeDeleted says what keeps a claim that is being deleted.
func (t *team) judgeDeleted(of claim, users []string) findings.Check {
	var keeps []string
	if len(users) > 0 {
		keeps = append(keeps, "pods that use it: "+names(users))
	}
	if len(of.Metadata.Finalizers) > 0 {
		keeps = append(keeps, "finalizers: "+names(of.Metadata.Finalizers))
	}
	return findings.Warn(claimDeleted, "nothing stops a deletion, so copy the files that are to stay; it ends with the last pod and the last finalizer: "+escape.Command("oc -n %s describe pvc %s", t.namespace, of.Metadata.Name),
		"claim %s is being deleted%s", of.Metadata.Name, suffix(strings.Join(keeps, "; ")))
}

// teamPod holds the fields of a team's pod that are read.
type teamPod struct {
	pod
	Spec struct {
		NodeName string          `json:"nodeName"`
		Volumes  []corev1.Volume `json:"volumes"`
	} `json:"spec"`
}

// claims returns the claims that a pod uses.
func (p teamPod) claims() (names []string) {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

func (t *team) examinePods(ctx context.Context, p *examinedDriver) ([]findings.Check, error) {
	all := 0
	stuck := few[teamPod]{bad: func(of teamPod) bool { return of.trouble() != "" }}
	if err := each(ctx, p.Cluster, corev1.SchemeGroupVersion, listing.List{Resource: "pods", Namespace: t.namespace}, func(of teamPod) error {
		if len(of.claims()) == 0 {
			return nil
		}
		all++
		if of.Status.Phase == corev1.PodPending {
			stuck.add(of)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if len(stuck.kept) == 0 {
		return []findings.Check{findings.Pass(podsStarted, "%s that %s claims, and none waits to start", number(all, "pod"), map[bool]string{true: "uses", false: "use"}[all == 1])}, nil
	}
	var named []string
	for _, of := range stuck.kept {
		named = append(named, of.Metadata.Name)
	}
	said, err := t.events(ctx, p, "Pod", named)
	if err != nil {
		return nil, err
	}
	var results []findings.Check
	for _, of := range stuck.kept {
		of.pod.Spec.NodeName = of.Spec.NodeName
		text := strings.Join(slices.DeleteFunc([]string{of.trouble(), said[of.Metadata.Name]}, func(s string) bool { return s == "" }), "; ")
		r := findings.Fail(podWaits, escape.Command("oc -n %s describe pod %s", t.namespace, of.Metadata.Name)+"; "+findings.Page("operate/troubleshooting.md#my-pod-hangs-in-containercreating"),
			"pod %s, which uses %s, waits to start%s", of.Metadata.Name, names(of.claims()), suffix(text))
		if text == "" {
			r.Verdict = findings.Warning // it may have been created a moment ago
		}
		results = append(results, r)
	}
	return append(results, stuck.rest(podWaits, "pod", escape.Command("oc -n %s get pods", t.namespace))...), nil
}

// events returns the last warning about each of the named objects of a kind in the namespace, by its name.
func (t *team) events(ctx context.Context, p *examinedDriver, kind string, named []string) (map[string]string, error) {
	last, at := map[string]string{}, map[string]time.Time{}
	return last, each(ctx, p.Cluster, corev1.SchemeGroupVersion, listing.List{Resource: "events", Namespace: t.namespace}, func(e corev1.Event) error {
		when := rollout.TimeOf(e)
		if e.Type == corev1.EventTypeWarning && e.InvolvedObject.Kind == kind && slices.Contains(named, e.InvolvedObject.Name) && (last[e.InvolvedObject.Name] == "" || !when.Before(at[e.InvolvedObject.Name])) {
			last[e.InvolvedObject.Name], at[e.InvolvedObject.Name] = ends(fmt.Sprintf("%s: %s", e.Reason, e.Message), 150, 350), when
		}
		return nil
	})
}

// ends returns the first and the last characters of a message, and the number of omitted ones. Messages about mounts name the volume first,
// then the command, and what it said last.
func ends(message string, first, last int) string {
	text := []rune(message)
	omitted := len(text) - first - last
	if omitted <= 0 {
		return message
	}
	return fmt.Sprintf("%s… (%d more characters) …%s", string(text[:first]), omitted, string(text[first+omitted:]))
}
