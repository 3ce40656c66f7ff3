package adoption

import (
	"context"
	"fmt"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/subscription"
)

// state is the observed state that the next step of an adoption is decided from. Missing objects are nil.
type state struct {
	now     time.Time
	plan    *Plan
	driver  drivers.Driver
	journal *migrate.Journal
	// The operator that OLM runs: the UID of its namespace, and its objects there.
	namespaceUID types.UID
	// subscriptions subscribe to the driver's package, installPlans belong only to the plan's Subscription, and versions are the driver's
	// ClusterServiceVersions.
	subscriptions []v1alpha1.Subscription
	installPlans  []v1alpha1.InstallPlan
	versions      []v1alpha1.ClusterServiceVersion
	// An operator that OLM v1 runs: its ClusterExtension, or nil; the extension's ClusterObjectSets, the APIs that it
	// owns, and the objects that it has installed for the operator, in the order of deletion.
	extension  *extension
	objectSets []metav1.PartialObjectMetadata
	ownedAPIs  []metav1.PartialObjectMetadata
	installed  []metav1.PartialObjectMetadata
	// left is a remaining object of the operator, such as a pod, or "".
	left string
	// proven are the operators that have permissions from OLM, in any namespace.
	proven []predecessor.Operator
	// old are the settings of the operator that OLM runs.
	old *drivers.OldSettings
	// successor is the Deployment of the operator that the cluster storage operator has started, and custom is the ClusterCSIDriver.
	successor *appsv1.Deployment
	custom    *operatorv1.ClusterCSIDriver
	sets      []appsv1.DaemonSet // of the driver
	// conditions are the conditions that the cluster storage operator reports in Storage cluster.
	conditions []operatorv1.OperatorCondition
}

// Observe reads the state that the next step is decided from.
func (p *Plan) Observe(ctx context.Context, cluster migrate.Cluster, j *migrate.Journal) (migrate.State, error) {
	d, err := p.definition()
	if err != nil {
		return nil, err
	}
	s := &state{now: time.Now(), plan: p, driver: d, journal: j}
	reads := []func(context.Context, client.Client) error{s.readBindings, s.readSettings, s.readSuccessor, s.readDriver}
	switch {
	case isOfExtension(p):
		reads = append(reads, s.readExtension, s.readLeft)
	case isOfVersion(p):
		readSubscriptions := func(ctx context.Context, _ client.Client) error { return s.readSubscriptions(ctx, cluster.Config) }
		reads = append(reads, readSubscriptions, s.readOLM, s.readLeft)
	}
	for _, read := range reads {
		if err := read(ctx, cluster.Client); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *state) readBindings(ctx context.Context, c client.Client) (err error) {
	s.proven, _, err = readBindings(ctx, c, s.driver)
	return err
}

// readSubscriptions reads the Subscriptions to the package in the operator's namespace.
func (s *state) readSubscriptions(ctx context.Context, config *rest.Config) error {
	c, err := subscription.Client(config)
	if err != nil {
		return err
	}
	err = subscription.Each(ctx, c, s.plan.Operator.Namespace, func(n v1alpha1.Subscription) error {
		if n.Spec != nil && n.Spec.Package == s.driver.Package.Name {
			s.subscriptions = append(s.subscriptions, n)
		}
		return nil
	})
	if apierrors.IsNotFound(err) { // OLM is absent
		return nil
	}
	return err
}

func (s *state) readOLM(ctx context.Context, c client.Client) (err error) {
	o := s.plan.Operator
	if s.namespaceUID, err = migrate.NamespaceUID(ctx, c, o.Namespace); err != nil {
		return err
	}
	installPlans, versions := &v1alpha1.InstallPlanList{}, &v1alpha1.ClusterServiceVersionList{}
	for _, list := range []client.ObjectList{installPlans, versions} {
		if err := c.List(ctx, list, client.InNamespace(o.Namespace)); err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("listing the objects of OLM in namespace %s: %w", o.Namespace, err)
		}
	}
	s.installPlans = slices.DeleteFunc(installPlans.Items, func(p v1alpha1.InstallPlan) bool {
		return o.Subscription == nil || !isOnlyOf(p, o.Namespace, o.Subscription)
	})
	s.versions = slices.DeleteFunc(versions.Items, func(v v1alpha1.ClusterServiceVersion) bool { return v.IsCopied() || !isVersion(s.driver, v) })
	return nil
}

// readLeft reads the remaining objects of the operator that OLM ran: its Deployment, then ReplicaSets, then pods.
func (s *state) readLeft(ctx context.Context, c client.Client) error {
	o := s.plan.Operator
	deployment := &appsv1.Deployment{}
	found, err := migrate.Find(ctx, c, deployment, o.Namespace, o.Name)
	if err != nil {
		return fmt.Errorf("reading Deployment %s/%s: %w", o.Namespace, o.Name, err)
	}
	// The cluster storage operator may run its own operator here, under the same name.
	ours := o.Namespace == drivers.ClusterStorageNamespace && o.Name == s.driver.Operator.Name
	if found && (!ours || isOfOLM(deployment)) {
		s.left = fmt.Sprintf("Deployment %s/%s", o.Namespace, o.Name)
		return nil
	}
	if ours && found {
		return nil
	}
	sets, pods := &appsv1.ReplicaSetList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{sets, pods} {
		if err := c.List(ctx, list, client.InNamespace(o.Namespace)); err != nil {
			return fmt.Errorf("listing the rest of the operator: %w", err)
		}
	}
	for _, set := range sets.Items {
		if set.Spec.Template.Spec.ServiceAccountName == o.Name {
			s.left = fmt.Sprintf("ReplicaSet %s/%s", o.Namespace, set.Name)
		}
	}
	for _, pod := range pods.Items {
		if pod.Spec.ServiceAccountName == o.Name {
			s.left = fmt.Sprintf("pod %s/%s, on node %s,", o.Namespace, pod.Name, pod.Spec.NodeName)
		}
	}
	return nil
}

// isOfOLM reports whether OLM owns an object, or OLM v1 has installed it. OLM v1 no longer owns an object that was orphaned.
func isOfOLM(object client.Object) bool {
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == v1alpha1.ClusterServiceVersionKind {
			return true
		}
	}
	return predecessor.IsInstalled(object.GetLabels())
}

// isOwnedBy reports whether an object has an owner with this UID.
func isOwnedBy(object client.Object, uid types.UID) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == uid })
}

func (s *state) readSettings(ctx context.Context, c client.Client) error {
	for _, of := range s.driver.OldCustomResources() {
		if s.plan.Settings == nil || of.String() != s.plan.Settings.Resource {
			continue
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(of.Kind)
		found, err := migrate.Find(ctx, c, object, "", of.Name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", of, err)
		}
		if found {
			settings := drivers.ReadOldSettings(object)
			s.old = &settings
		}
	}
	return nil
}

func (s *state) readSuccessor(ctx context.Context, c client.Client) error {
	deployment, custom, storage := &appsv1.Deployment{}, &operatorv1.ClusterCSIDriver{}, &operatorv1.Storage{}
	if _, err := migrate.Find(ctx, c, storage, "", "cluster"); err != nil {
		return fmt.Errorf("reading Storage cluster: %w", err)
	}
	s.conditions = storage.Status.Conditions
	found, err := migrate.Find(ctx, c, deployment, drivers.ClusterStorageNamespace, s.driver.Operator.Name)
	if err != nil {
		return fmt.Errorf("reading the operator of the cluster storage operator: %w", err)
	}
	if found && !isOfOLM(deployment) {
		s.successor = deployment
	}
	if found, err = migrate.Find(ctx, c, custom, "", s.driver.CSIName); err != nil {
		return fmt.Errorf("reading ClusterCSIDriver %s: %w", s.driver.CSIName, err)
	} else if found {
		s.custom = custom
	}
	return nil
}

// readDriver reads the DaemonSets of the driver.
func (s *state) readDriver(ctx context.Context, c client.Client) error {
	if s.custom == nil {
		return nil
	}
	observed, err := placement.Observe(ctx, c, s.driver, drivers.ClusterStorageNamespace, &s.custom.ObjectMeta)
	if err != nil {
		return fmt.Errorf("locating driver %s: %w", s.driver.CSIName, err)
	}
	placed := placement.Decide(s.driver, observed)
	if placed.Refusal != nil { // the conditions of the ClusterCSIDriver report it
		return nil
	}
	manifests, err := s.driver.Operand(drivers.Values{Namespace: placed.Namespace, Image: func(env string) string { return env }})
	if err != nil {
		return err
	}
	for _, m := range drivers.OfKind(manifests, "DaemonSet") {
		set := appsv1.DaemonSet{}
		if found, err := migrate.Find(ctx, c, &set, placed.Namespace, m.Object.GetName()); err != nil {
			return fmt.Errorf("reading DaemonSet %s/%s: %w", placed.Namespace, m.Object.GetName(), err)
		} else if found {
			s.sets = append(s.sets, set)
		}
	}
	return nil
}

// Verify fails unless the live objects match the plan. Until the Subscription is deleted, all of them must match; after
// that, OLM may install the same ClusterServiceVersion again.
func (s *state) Verify() error {
	if err := s.verifySettings(); err != nil {
		return err
	}
	p, o := s.plan, s.plan.Operator
	if c := s.custom; c != nil && !s.isStarted() && (c.Spec.ManagementState == operatorv1.Unmanaged || c.Spec.ManagementState == operatorv1.Removed) {
		return fmt.Errorf("spec.managementState of ClusterCSIDriver %s is %s: set it to Managed, and continue with `%s`", c.Name, c.Spec.ManagementState, s.journal.Command(p, "resume"))
	}
	if p.Subject.UID != "" && (s.custom == nil || s.custom.UID != p.Subject.UID) && !s.isStarted() {
		return fmt.Errorf("somebody has deleted ClusterCSIDriver %s, whose UID was %s: %s", p.Subject.Name, p.Subject.UID, s.journal.Abandon())
	}
	if o == nil {
		return nil
	}
	if s.namespaceUID != "" && s.namespaceUID != o.NamespaceUID {
		return fmt.Errorf("namespace %s has UID %s, want %s: it was deleted, and recreated under the same name; %s", o.Namespace, s.namespaceUID, o.NamespaceUID, s.journal.Abandon())
	}
	if o.Extension != nil {
		return s.verifyExtension()
	}
	for _, n := range s.subscriptions {
		switch {
		case o.Subscription == nil || n.UID != o.Subscription.UID:
			return fmt.Errorf("somebody has subscribed to package %s again: Subscription %s/%s has UID %s, which is not in the plan; find out who has, such as a GitOps tool, delete it, and continue with `%s`",
				s.driver.Package.Name, n.Namespace, n.Name, n.UID, s.journal.Command(p, "resume"))
		case n.Status.CurrentCSV != o.Version.Name && n.Status.CurrentCSV != "":
			return fmt.Errorf("OLM updates the operator: Subscription %s/%s has current %s, want %s; wait until that is done; then %s",
				n.Namespace, n.Name, n.Status.CurrentCSV, o.Version.Name, s.journal.Abandon())
		}
	}
	for _, v := range s.versions {
		if v.Name != o.Version.Name || s.subscription() != nil && v.UID != o.Version.UID {
			return fmt.Errorf("OLM has installed ClusterServiceVersion %s/%s with UID %s, which is not in the plan: want %s with UID %s; %s",
				v.Namespace, v.Name, v.UID, o.Version.Name, o.Version.UID, s.journal.Abandon())
		}
	}
	if s.subscription() != nil && len(s.versions) == 0 {
		return fmt.Errorf("somebody has deleted ClusterServiceVersion %s/%s, but not its Subscription: OLM may install it again; wait until it has, then %s", o.Namespace, o.Version.Name, s.journal.Abandon())
	}
	return nil
}

// verifyExtension fails unless the ClusterExtension is the plan's, with the same operator installed.
func (s *state) verifyExtension() error {
	wanted, e := s.plan.Operator.Extension, s.extension
	switch {
	case e == nil:
		return nil
	case e.GetUID() != wanted.UID:
		return fmt.Errorf("somebody has created ClusterExtension %s again: its UID is %s, which is not in the plan; find out who has, such as a GitOps tool, and end that; do not delete it yourself, "+
			"as OLM may be applying it, and its APIs would go with it; %[3]s", wanted.Name, e.GetUID(), s.journal.Abandon())
	case e.GetDeletionTimestamp() == nil && e.bundle() != wanted.Bundle:
		return fmt.Errorf("OLM updates the operator: the status of ClusterExtension %s has %q installed, want %q; wait until that is done; then %s",
			wanted.Name, e.bundle(), wanted.Bundle, s.journal.Abandon())
	}
	return nil
}

// verifySettings fails if the operator's configuration shows a decision against the hand-over, as long as OLM's operator may see it.
func (s *state) verifySettings() error {
	wanted := s.plan.Settings
	if wanted == nil || s.isStarted() {
		return nil
	}
	switch {
	case s.old == nil:
		return fmt.Errorf("somebody has deleted %s: check whether the driver still runs; %s", wanted.Resource, s.journal.Abandon())
	case s.old.UID != wanted.UID:
		return fmt.Errorf("somebody has recreated %s: its UID is %s, want %s; %s", wanted.Resource, s.old.UID, wanted.UID, s.journal.Abandon())
	case s.old.Unsettled() != "" && s.custom == nil:
		return fmt.Errorf("%s configures the operator, and %s: settle that, and continue with `%s`", wanted.Resource, s.old.Unsettled(), s.journal.Command(s.plan, "resume"))
	}
	return nil
}

// isStarted reports whether the cluster storage operator runs its own operator, so that the earlier operator's configuration has no effect
// any more.
func (s *state) isStarted() bool { return s.successor != nil }
