package adoption

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
)

// Cleanup lists the objects that operators run by OLM have left, and says which of them can be deleted once the driver has been handed
// over. The names come from the driver's definition. A cleanup has no journal: each deletion is decided from the observed state, so it can
// be interrupted anywhere, and another run deletes the rest.
type Cleanup struct {
	migrate.Outline
	// Driver is the name of the driver's definition.
	Driver string `json:"driver"`
	// Namespace is the driver's namespace, which stays.
	Namespace string `json:"namespace"`
	// Remains are the objects to delete, in this order.
	Remains []Remain `json:"remains,omitempty"`
}

// Remain is an object that can be deleted, and the proof that nothing needs it.
type Remain struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Proof     string    `json:"proof"`

	object    client.Object
	finalizer string // to remove before the deletion
}

func (r Remain) String() string { return named(r.Kind, r.Namespace, r.Name) }

// CleanupSchema is the name and version of the JSON of a Cleanup. It changes when a field changes.
const CleanupSchema = "berth.adopt-cleanup.v1"

// The steps of a cleanup.
const (
	RemoveFinalizer migrate.StepName = "remove-finalizer" // remove a finalizer, so that no controller reacts to the deletion
	Delete          migrate.StepName = "delete"           // delete an object that nothing needs
)

// The codes of a cleanup's checks, in addition to an adoption's.
const (
	handOverComplete = "hand-over"          // the hand-over is complete
	formerOperator   = "former-operator"    // no former operator is left or can be started again
	unusedObject     = "unused"             // nothing uses the objects that are to be deleted
	sharedObject     = "shared"             // an object that others use, too, stays
	ownNamespaceOnly = "operator-namespace" // the operator's namespace, which somebody chose, stays
)

// Describe writes the driver, and what the cleanup keeps.
func (c *Cleanup) Describe(lines *escape.Lines) {
	lines.Add("Driver %s", c.Subject.Name)
	lines.Add("  cleans up after the operators that OLM ran")
	lines.Add("  keeps volumes, all Secrets, and namespace %s with the driver", c.Namespace)
}

// Text describes the cleanup for people.
func (c *Cleanup) Text(colour findings.Palette) string { return migrate.Text(c, colour) }

// Cleanup returns the objects of a driver's former operators that can be deleted. Nothing is written.
func (r Request) Cleanup(ctx context.Context, cluster migrate.Cluster) (*Cleanup, error) {
	m, err := r.survey(ctx, cluster, true)
	if err != nil {
		return nil, err
	}
	return m.cleanup(), nil
}

// CleanUp deletes the objects of a cleanup. It fails as soon as something needs one of these objects, or has changed.
func (r Request) CleanUp(ctx context.Context, cluster migrate.Cluster, c *Cleanup, o migrate.Options) error {
	return migrate.Repeat(ctx, o, func(ctx context.Context, report func(migrate.Event)) (migrate.Outcome, error) {
		m, err := r.survey(ctx, cluster, false)
		if err != nil {
			return migrate.Waiting, err
		}
		next, err := c.next(m.cleanup())
		switch {
		case err != nil:
			return migrate.Waiting, err
		case next == nil:
			return migrate.Done, nil
		}
		return next.delete(ctx, cluster.Writer(), o, report)
	})
}

// next returns the first object that is left, according to a later observation. It fails if a check refuses, or c lacks the object.
func (c *Cleanup) next(now *Cleanup) (*Remain, error) {
	for _, check := range now.Checks {
		if check.Verdict == findings.Refused {
			return nil, fmt.Errorf("%s; do: %s", check.What, check.Do)
		}
	}
	if len(now.Remains) == 0 {
		return nil, nil
	}
	next := now.Remains[0]
	if !slices.ContainsFunc(c.Remains, func(r Remain) bool { return r.String() == next.String() && r.UID == next.UID }) {
		return nil, fmt.Errorf("%s, with UID %s, was not on the list: somebody has created it since, or has changed an object that needs it; look at the list again", next, next.UID)
	}
	return &next, nil
}

// delete makes the next write for an object, with the observed state as its precondition.
func (r *Remain) delete(ctx context.Context, c client.Client, o migrate.Options, report func(migrate.Event)) (migrate.Outcome, error) {
	step, does := Delete, "delete "+r.String()
	var err error
	switch removes := slices.Contains(r.object.GetFinalizers(), r.finalizer); {
	case removes:
		step, does = RemoveFinalizer, fmt.Sprintf("remove finalizer %s of %s, so that nothing is done because of it", r.finalizer, r)
		report(migrate.Event{Step: step, Does: does})
		changed := r.object.DeepCopyObject().(client.Object)
		changed.SetFinalizers(slices.DeleteFunc(slices.Clone(r.object.GetFinalizers()), func(f string) bool { return f == r.finalizer }))
		// The resource version identifies this object, so an object that replaced it is safe.
		err = c.Patch(ctx, changed, client.MergeFromWithOptions(r.object, client.MergeFromWithOptimisticLock{}))
	case r.object.GetDeletionTimestamp() != nil:
		wait, err := migrate.WaitGone(step, r.String(), r.object)
		report(migrate.Event{Step: step, Does: does, Waits: wait.Waits})
		if o.NoWait {
			err = fmt.Errorf("%w for %s", migrate.ErrWaiting, wait.Waits)
		}
		return migrate.Waiting, err
	default:
		report(migrate.Event{Step: step, Does: does})
		err = deleteUnchanged(ctx, c, r.object)
	}
	switch {
	case migrate.IsConflict(err):
		return migrate.Waiting, nil
	case err != nil:
		return migrate.Waiting, fmt.Errorf("step %s: %w", step, err)
	}
	return migrate.Executed, nil
}

// cleanup decides which objects can be deleted.
func (m *remains) cleanup() *Cleanup {
	c := &Cleanup{Driver: m.driver.Name, Namespace: m.placed.Namespace, Outline: migrate.Outline{Schema: CleanupSchema, Subject: migrate.Subject{Name: m.driver.CSIName}}}
	if m.custom != nil {
		c.Subject.UID = m.custom.UID
	}
	c.Checks = slices.Concat(m.checkComplete(), m.checkFormer(), m.checkPlace(nil), m.checkManagementState(nil))
	for _, f := range m.found() {
		r := f.Remain
		switch j := f.judgement; {
		case j.use != "":
			c.Checks = append(c.Checks, migrate.Refuse(unusedObject, j.do, "%s is in use: %s", r, j.use)...)
		case j.stays != "":
			c.Checks = append(c.Checks, migrate.Warn(sharedObject, "look at it, and delete it yourself if nobody needs it", "%s stays: %s", r, j.stays)...)
		default:
			r.Proof = j.proof
			c.Remains = append(c.Remains, r)
		}
	}
	c.Checks = append(c.Checks, m.checkNamespace()...)
	c.Safe = c.Checks.Safe()
	if !c.Safe {
		c.Remains = nil
	}
	for _, r := range c.Remains {
		c.Objects = append(c.Objects, migrate.Object{By: "berth", Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, How: "deleted: " + r.Proof})
	}
	return c
}

// judgedObject is an object that operators left, with its judgement.
type judgedObject struct {
	Remain
	judgement
}

// found returns the objects that exist, in the order of deletion.
func (m *remains) found() []judgedObject {
	all := m.others()
	for _, n := range m.namespaces {
		if n.object != nil {
			all = append(all, judgedObject{Remain{Kind: "Namespace", Name: n.name, UID: n.object.UID, object: n.object}, m.judgeNamespace(n)})
		}
	}
	return all
}

// stages are the kinds in the order of deletion: first the permissions, then their subjects.
var stages = []string{"ClusterRoleBinding", "RoleBinding", "ClusterRole", "Role", drivers.SecurityContextConstraintsKind.Kind, "ServiceAccount", "ConfigMap", drivers.CredentialsRequestKind.Kind}

// others returns the objects that are not namespaces.
func (m *remains) others() (all []judgedObject) {
	for _, kind := range stages {
		for _, l := range m.leftovers {
			if l.object != nil && l.Kind.Kind == kind && !m.isHeld(l) {
				all = append(all, judgedObject{Remain{Kind: kind, Namespace: l.Namespace, Name: l.Name, UID: l.object.GetUID(), object: l.object}, m.judge(l)})
			}
		}
	}
	for _, c := range m.customs {
		if c.object != nil {
			all = append(all, judgedObject{Remain{Kind: c.Kind.Kind, Name: c.Name, UID: c.object.GetUID(), object: c.object, finalizer: c.Finalizer}, judgeCustom(c)})
		}
	}
	for _, d := range m.definitions {
		all = append(all, judgedObject{Remain{Kind: definitionKind.Kind, Name: d.Definition, UID: d.object.GetUID(), object: d.object}, m.judgeDefinition(d)})
	}
	return all
}

// isHeld reports whether an object in the driver's namespace is being deleted. Anybody who may write there can block the deletion, so
// nothing waits for it.
func (m *remains) isHeld(l leftover) bool {
	return l.Namespace == m.placed.Namespace && l.object.GetDeletionTimestamp() != nil
}

// checkComplete refuses while the driver is not handed over completely.
func (m *remains) checkComplete() migrate.Checks {
	switch {
	case m.journal != nil && m.journal.IsOpen():
		return migrate.Refuse(handOverComplete, "finish it: see `"+m.command+"`", "the hand-over is in progress")
	case m.unfinished != "":
		return migrate.Refuse(handOverComplete, "hand the driver over first, or wait until the cluster storage operator reports that all is well", "the hand-over is not complete: it waits for %s", m.unfinished)
	}
	return migrate.Pass(handOverComplete, "the hand-over is complete: the cluster storage operator's operator runs the driver, and all the driver's pods are up to date")
}

// checkFormer refuses while an operator that OLM ran exists, or can be started again: it would react to the deletions.
func (m *remains) checkFormer() (checks migrate.Checks) {
	const do = "remove it from OLM first, with `berth adopt apply`"
	refuse := func(what string, args ...any) {
		checks = append(checks, migrate.Refuse(formerOperator, do, what, args...)...)
	}
	for _, p := range m.proven {
		refuse("%s has an operator of the driver that OLM gives permissions, by ClusterRoleBinding %s", p, p.Binding)
	}
	for _, e := range m.extensions {
		refuse("ClusterExtension %s installs an operator of the driver", e.GetName())
	}
	if len(checks) == 0 {
		for _, b := range m.bindings {
			for _, s := range b.subjects {
				if b.kind == "ClusterRoleBinding" && s.Kind == rbacv1.ServiceAccountKind && isOperator(m.driver, s.Namespace, s.Name) {
					checks = append(checks, migrate.Refuse(formerOperator, "find out who has it, and delete that: for a Subscription in the namespace, OLM gives such permissions even if it then does not run the operator", "%s gives permissions to service account %s/%s, which is named like an operator of the driver", b, s.Namespace, s.Name)...)
				}
			}
		}
	}
	if m.left != "" {
		checks = append(checks, migrate.Refuse(formerOperator, "wait until it is gone; if its node is lost, delete its Node object", "%s of a former operator is left", m.left)...)
	}
	for _, v := range m.installed {
		refuse("ClusterServiceVersion %s/%s has an operator of the driver", v.Namespace, v.Name)
	}
	for _, p := range m.installing {
		if p.Status.Phase != v1alpha1.InstallPlanPhaseComplete && p.Status.Phase != v1alpha1.InstallPlanPhaseFailed {
			checks = append(checks, migrate.Refuse(formerOperator, "delete it", "OLM would install an operator of the driver, by InstallPlan %s/%s", p.Namespace, p.Name)...)
		}
	}
	if len(checks) == 0 {
		checks = migrate.Pass(formerOperator, "no former operator of the driver is left, nor a pod of one")
	}
	return append(checks, m.checkSubscriptions(nil)...)
}

// checkNamespace reports that a namespace that an administrator has chosen stays.
func (m *remains) checkNamespace() migrate.Checks {
	o := m.journaled()
	if o == nil || o.Namespace == drivers.ClusterStorageNamespace || slices.Contains(suggested(m.driver), o.Namespace) || !m.namespaceExists {
		return nil
	}
	return migrate.Warn(ownNamespaceOnly, "delete it yourself if nothing else is in it",
		"namespace %s, where OLM ran the operator, stays with its OperatorGroup and CatalogSource: somebody chose it, and only %s would be the operator's alone", o.Namespace, strings.Join(suggested(m.driver), ", "))
}
