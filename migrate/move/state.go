package move

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/subscription"
)

// state is the observed state that the next step of a move is decided from. Missing objects are nil.
type state struct {
	now     time.Time
	plan    *Plan
	journal *migrate.Journal
	// OLM v0's objects in the operator's namespace, and the namespace's UID: the Subscriptions to the package or with the name of the
	// plan's Subscription, all InstallPlans, and the version. othersAsk says that another Subscription makes OLM v0 ask for approval.
	namespaceUID  types.UID
	subscriptions []v1alpha1.Subscription
	othersAsk     bool
	installPlans  []v1alpha1.InstallPlan
	version       *v1alpha1.ClusterServiceVersion
	// condition is the version's OperatorCondition, or nil.
	condition *metav1.PartialObjectMetadata
	// OLM v1's objects: the ClusterExtension, its ClusterObjectSets, the objects that OLM v1 makes itself, and the Secrets in which OLM v1
	// records the installation.
	extension  *unstructured.Unstructured
	objectSets []metav1.PartialObjectMetadata
	made       []metav1.PartialObjectMetadata
	remembered []metav1.PartialObjectMetadata
	// taken are the objects to take over, in the plan's order, and replaced are the objects that OLM v1 replaces and that still exist.
	taken       []taken
	replaced    []metav1.PartialObjectMetadata
	deployments []appsv1.Deployment
}

// taken is an object that is taken over, as it is now.
type taken struct {
	Object
	live *metav1.PartialObjectMetadata
}

// Observe reads the state that the next step is decided from.
func (p *Plan) Observe(ctx context.Context, cluster migrate.Cluster, j *migrate.Journal) (migrate.State, error) {
	s := &state{now: time.Now(), plan: p, journal: j}
	if err := s.readSubscriptions(ctx, cluster); err != nil {
		return nil, err
	}
	for _, read := range []func(context.Context, client.Client) error{s.readV0, s.readV1, s.readObjects, s.readDeployments} {
		if err := read(ctx, cluster.Client); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// readSubscriptions reads the Subscriptions of the namespace. Whoever may write there can create any number of them, so only the
// Subscription with the plan's name is read whole.
func (s *state) readSubscriptions(ctx context.Context, cluster migrate.Cluster) error {
	p := s.plan
	c, err := subscription.Client(cluster.Config)
	if err != nil {
		return err
	}
	err = subscription.Each(ctx, c, p.Namespace, func(n v1alpha1.Subscription) error {
		switch {
		case n.Spec == nil || n.Name == p.Subscription.Name:
			return nil
		case n.Spec.Package == p.Package:
			s.subscriptions = append(s.subscriptions, kept(n))
		}
		s.othersAsk = s.othersAsk || n.Spec.InstallPlanApproval == v1alpha1.ApprovalManual
		return nil
	})
	if apierrors.IsNotFound(err) { // OLM v0 is absent
		return nil
	} else if err != nil {
		return fmt.Errorf("in namespace %s: %w", p.Namespace, err)
	}
	own := v1alpha1.Subscription{}
	found, err := migrate.Find(ctx, cluster.Client, &own, p.Namespace, p.Subscription.Name)
	if err != nil {
		return fmt.Errorf("reading Subscription %s/%s: %w", p.Namespace, p.Subscription.Name, err)
	}
	if found && own.Spec != nil {
		s.subscriptions = append(s.subscriptions, own)
	}
	return nil
}

func (s *state) readV0(ctx context.Context, c client.Client) (err error) {
	p := s.plan
	if s.namespaceUID, err = migrate.NamespaceUID(ctx, c, p.Namespace); err != nil {
		return err
	}
	installPlans := &v1alpha1.InstallPlanList{}
	if err := c.List(ctx, installPlans, client.InNamespace(p.Namespace)); err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("listing InstallPlans in namespace %s: %w", p.Namespace, err)
	}
	s.installPlans = installPlans.Items
	version := &v1alpha1.ClusterServiceVersion{}
	found, err := migrate.Find(ctx, c, version, p.Namespace, p.Version.Name)
	if err != nil {
		return fmt.Errorf("reading ClusterServiceVersion %s/%s: %w", p.Namespace, p.Version.Name, err)
	}
	if !found {
		return nil
	}
	s.version = version
	s.condition, err = find(ctx, c, conditionKind, p.Namespace, p.Version.Name)
	return err
}

// rememberedLabels returns the labels that select, together with the type, the Secrets in which OLM v1 records an installation by Helm.
func rememberedLabels(extension string) client.MatchingLabels {
	return client.MatchingLabels{"owner": "operator-controller", "name": extension}
}

const (
	rememberedType = "operatorframework.io/index.v1"
	objectSetType  = "olm.operatorframework.io/object-data"
)

// homeOnOpenShift is the namespace of operator-controller on OpenShift. Elsewhere, it is the namespace of catalogd.
const homeOnOpenShift = "openshift-operator-controller"

// secretNamespaces returns the namespaces where OLM v1 may keep Secrets. It finds them in the addresses in the status of ClusterCatalogs,
// which no tenant can write. In other namespaces, anybody can label a Secret, and keep it with a finalizer.
func secretNamespaces(ctx context.Context, c client.Client) ([]string, error) {
	catalogs := &unstructured.UnstructuredList{}
	catalogs.SetGroupVersionKind(schema.GroupVersionKind{Group: objectSetKind.Group, Version: "v1", Kind: "ClusterCatalogList"})
	if err := c.List(ctx, catalogs); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("listing ClusterCatalogs: %w", err)
	}
	found := []string{homeOnOpenShift}
	for i := range catalogs.Items {
		at, err := url.Parse(text(&catalogs.Items[i], "status", "urls", "base"))
		if err != nil {
			continue
		}
		if parts := strings.Split(at.Hostname(), "."); len(parts) >= 3 && parts[2] == "svc" && !slices.Contains(found, parts[1]) {
			found = append(found, parts[1])
		}
	}
	return found, nil
}

func (s *state) readV1(ctx context.Context, c client.Client) (err error) {
	name := s.plan.Subject.Name
	if s.extension, err = readExtension(ctx, c, name); err != nil {
		return err
	}
	if s.objectSets, err = list(ctx, c, objectSetKind, labelsOf(name)); err != nil {
		return err
	}
	slices.SortFunc(s.objectSets, func(a, b metav1.PartialObjectMetadata) int { return revision(a) - revision(b) })
	namespaces, err := secretNamespaces(ctx, c)
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		for _, of := range []struct {
			labels client.MatchingLabels
			kind   string
		}{{rememberedLabels(name), rememberedType}, {labelsOf(name), objectSetType}} {
			found, err := list(ctx, c, secretKind, client.InNamespace(namespace), of.labels, client.MatchingFields{"type": of.kind})
			if err != nil {
				return err
			}
			s.remembered = append(s.remembered, found...)
		}
	}
	for _, kind := range madeKinds {
		options := []client.ListOption{labelsOf(name)}
		if hasNamespace(kind) {
			options = append(options, client.InNamespace(s.plan.Namespace))
		}
		found := first{rank: rankMade}
		add := func(o metav1.PartialObjectMetadata) {
			if !s.isTaken(o) {
				found.add(o)
			}
		}
		if err := each(ctx, c, kind, add, options...); err != nil {
			return err
		}
		s.made = append(s.made, found.objects...)
	}
	return nil
}

// rankMade puts first the objects that would be deleted with the ClusterExtension, and leaves out objects whose deletion may be blocked
// (isHeld). The move changes or deletes one object at a time, so it later comes to the objects that a list leaves out.
func rankMade(o metav1.PartialObjectMetadata) int {
	if isHeld(o) {
		return -1
	}
	return ranked(isOwnedByV1)(o)
}

// revision returns the number at the end of the name of a ClusterObjectSet.
func revision(set metav1.PartialObjectMetadata) int {
	number, _ := strconv.Atoi(set.Name[strings.LastIndex(set.Name, "-")+1:])
	return number
}

func (s *state) isTaken(o metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc(s.plan.TakenOver, func(t Object) bool { return t.Kind == o.Kind && t.Namespace == o.Namespace && t.Name == o.Name })
}

func (s *state) readObjects(ctx context.Context, c client.Client) error {
	for _, o := range s.plan.TakenOver {
		live, err := find(ctx, c, o.kind(), o.Namespace, o.Name)
		if err != nil {
			return err
		}
		s.taken = append(s.taken, taken{o, live})
	}
	for _, o := range s.plan.Replaced {
		live, err := find(ctx, c, o.kind(), o.Namespace, o.Name)
		if err != nil {
			return err
		}
		if live != nil && s.plan.replaces(o, live) {
			s.replaced = append(s.replaced, *live)
		}
	}
	return nil
}

// certificateSuffix ends the names of the Secrets that OLM v0 makes for webhooks.
const certificateSuffix = "-service-cert"

// replaces reports whether a live object is the object of OLM v0 that the plan names. A permission has the labels of the version, or the
// annotation that the move adds when it removes these labels. The plan alone proves nothing, as it comes from a journal.
func (p *Plan) replaces(o Object, live *metav1.PartialObjectMetadata) bool {
	switch {
	case live.UID != o.UID:
		return false
	case o.Kind == secretKind.Kind:
		return strings.HasSuffix(o.Name, certificateSuffix)
	}
	return labels.SelectorFromSet(labelsOfVersion(p.Namespace, p.Version.Name)).Matches(labels.Set(live.Labels)) ||
		isOfCluster(o.Kind) && live.Annotations[movedAnnotation] == string(p.Subscription.UID)
}

func (s *state) readDeployments(ctx context.Context, c client.Client) error {
	for _, o := range s.plan.TakenOver {
		if o.Kind != deploymentKind.Kind {
			continue
		}
		deployment := appsv1.Deployment{}
		found, err := migrate.Find(ctx, c, &deployment, o.Namespace, o.Name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", o, err)
		}
		if found {
			s.deployments = append(s.deployments, deployment)
		}
	}
	return nil
}

// before returns the Subscription as it was before the move to OLM v1, or nil.
func (s *state) before() *v1alpha1.Subscription {
	return s.subscriptionWith(func(n v1alpha1.Subscription) bool { return n.UID == s.plan.Subscription.UID })
}

// again returns the Subscription that a way back has created, or nil. It is always nil on the way to OLM v1, as whoever may write in the
// namespace can create a Subscription with that name and annotation.
func (s *state) again() *v1alpha1.Subscription {
	if !s.isWayBack() {
		return nil
	}
	return s.subscriptionWith(func(n v1alpha1.Subscription) bool {
		return n.Name == s.plan.Subscription.Name && n.Annotations[movedAnnotation] == string(s.plan.Subscription.UID)
	})
}

// isWayBack reports whether OLM v0 gets the operator back.
func (s *state) isWayBack() bool {
	return s.plan.To == ToV0 || s.journal.Phase == migrate.RollingBack || s.journal.Phase == migrate.RolledBack
}

func (s *state) subscriptionWith(is func(v1alpha1.Subscription) bool) *v1alpha1.Subscription {
	at := slices.IndexFunc(s.subscriptions, is)
	if at < 0 {
		return nil
	}
	return &s.subscriptions[at]
}

// plansOf returns the InstallPlans that belong to a Subscription and to no other.
func (s *state) plansOf(uid types.UID) (found []v1alpha1.InstallPlan) {
	for _, p := range s.installPlans {
		if isOf(p, uid) {
			found = append(found, p)
		}
	}
	return found
}
