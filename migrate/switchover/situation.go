package switchover

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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/olm/installplan"
)

// situation is what a cluster shows of a switch. What there is not is nil.
type situation struct {
	now     time.Time
	plan    *Plan
	journal *Journal
	// namespaceUID is that of the Subscription's namespace, empty if there is none.
	namespaceUID types.UID
	subscription *v1alpha1.Subscription
	// requests are the InstallPlans of the namespace for the target, and relics those that only a Subscription of
	// this name has asked for.
	requests, relics []*v1alpha1.InstallPlan
	// named is the InstallPlan that the Subscription names, which is the last one.
	named *v1alpha1.InstallPlan
	// missing tells whether the Subscription waits for an InstallPlan that is gone, and stalled whether it does so
	// without end, because OLM is not going to notice.
	missing, stalled bool
	// versions are the ClusterServiceVersions of the namespace that were not copied there.
	versions []v1alpha1.ClusterServiceVersion
	// deployments are those of the target that there are.
	deployments []appsv1.Deployment
	// holder is the pod that holds the lock of the driver's operator.
	holder *corev1.Pod
	driver *operatorv1.ClusterCSIDriver
	nodes  []appsv1.DaemonSet // of the driver
}

// look reads what a cluster shows of a switch.
func look(ctx context.Context, cluster Cluster, p *Plan) (*situation, error) {
	s := &situation{now: time.Now(), plan: p}
	var err error
	if s.journal, err = cluster.journalOf(ctx, p.Subscription); err != nil {
		return nil, err
	}
	if s.namespaceUID, err = readNamespaceUID(ctx, cluster.Client, p.Subscription.Namespace); err != nil {
		return nil, err
	}
	for _, read := range []func(context.Context, client.Client) error{
		s.readSubscription, s.readRequests, s.readVersions, s.readOperator, s.readDriver,
	} {
		if err := read(ctx, cluster.Client); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// find reads an object, and tells whether there is one. An API that there is not has no objects.
func find(ctx context.Context, c client.Client, object client.Object, namespace, name string) (bool, error) {
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

func (s *situation) readSubscription(ctx context.Context, c client.Client) error {
	subscription := &v1alpha1.Subscription{}
	found, err := find(ctx, c, subscription, s.plan.Subscription.Namespace, s.plan.Subscription.Name)
	if !found {
		return err
	}
	if subscription.Spec == nil { // the API server lets nobody write such a one
		return fmt.Errorf("Subscription %s has no spec", s.plan.Subscription)
	}
	s.subscription = subscription
	return nil
}

func (s *situation) readRequests(ctx context.Context, c client.Client) error {
	list := &v1alpha1.InstallPlanList{}
	if err := c.List(ctx, list, client.InNamespace(s.plan.Subscription.Namespace)); err != nil {
		return fmt.Errorf("listing InstallPlans: %w", err)
	}
	there := make([]*v1alpha1.InstallPlan, len(list.Items))
	for i := range list.Items {
		there[i] = &list.Items[i]
	}
	var named types.UID
	if s.subscription != nil {
		s.missing, s.stalled = installplan.Missing(s.subscription, there)
		if ref := s.subscription.Status.InstallPlanRef; ref != nil {
			named = ref.UID
		}
	}
	for _, request := range there {
		if request.UID == named {
			s.named = request
		}
		if slices.Contains(request.Spec.ClusterServiceVersionNames, s.plan.Target) {
			s.requests = append(s.requests, request)
		}
		if owners := request.OwnerReferences; len(owners) == 1 && owners[0].Kind == v1alpha1.SubscriptionKind && owners[0].Name == s.plan.Subscription.Name {
			s.relics = append(s.relics, request)
		}
	}
	return nil
}

// request returns the InstallPlan for the target that the Subscription names, or nil.
func (s *situation) request() *v1alpha1.InstallPlan {
	if s.named == nil || !slices.Contains(s.named.Spec.ClusterServiceVersionNames, s.plan.Target) {
		return nil
	}
	return s.named
}

func (s *situation) readVersions(ctx context.Context, c client.Client) error {
	list := &v1alpha1.ClusterServiceVersionList{}
	if err := c.List(ctx, list, client.InNamespace(s.plan.Subscription.Namespace)); err != nil {
		return fmt.Errorf("listing ClusterServiceVersions: %w", err)
	}
	s.versions = slices.DeleteFunc(list.Items, func(csv v1alpha1.ClusterServiceVersion) bool { return csv.IsCopied() })
	return nil
}

// version returns the ClusterServiceVersion of a name, or nil.
func (s *situation) version(name string) *v1alpha1.ClusterServiceVersion {
	for i := range s.versions {
		if s.versions[i].Name == name {
			return &s.versions[i]
		}
	}
	return nil
}

// readOperator reads what shows whether the target's operator runs.
func (s *situation) readOperator(ctx context.Context, c client.Client) error {
	target := s.version(s.plan.Target)
	if target == nil {
		return nil
	}
	for _, wanted := range target.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		deployment := appsv1.Deployment{}
		found, err := find(ctx, c, &deployment, target.Namespace, wanted.Name)
		if err != nil {
			return err
		}
		if found {
			s.deployments = append(s.deployments, deployment)
		}
	}
	return s.readLock(ctx, c)
}

func (s *situation) readLock(ctx context.Context, c client.Client) error {
	if s.plan.Driver == nil {
		return nil
	}
	lock := &corev1.ConfigMap{}
	if found, err := find(ctx, c, lock, s.plan.Subscription.Namespace, s.plan.Driver.Lock); !found {
		return err
	}
	for _, owner := range lock.OwnerReferences {
		if owner.Kind != "Pod" {
			continue
		}
		holder := &corev1.Pod{}
		if found, err := find(ctx, c, holder, lock.Namespace, owner.Name); err != nil {
			return err
		} else if found && holder.UID == owner.UID {
			s.holder = holder
		}
	}
	return nil
}

// readDriver reads what shows whether the driver runs.
func (s *situation) readDriver(ctx context.Context, c client.Client) error {
	if !s.plan.createsDriver() {
		return nil
	}
	driver := &operatorv1.ClusterCSIDriver{}
	found, err := find(ctx, c, driver, "", s.plan.Driver.Name)
	if !found {
		return err
	}
	s.driver = driver
	defined, found := driverOf(s.plan.From.Package, s.plan.To.Package)
	if !found {
		return fmt.Errorf("no driver is known whose operator is package %s or %s", s.plan.From.Package, s.plan.To.Package)
	}
	placed, err := place(ctx, c, defined, s.plan.Subscription.Namespace, driver)
	if err != nil || placed.Refusal != nil { // of which the ClusterCSIDriver tells
		return err
	}
	for _, name := range s.plan.Driver.DaemonSets {
		set := appsv1.DaemonSet{}
		if found, err := find(ctx, c, &set, placed.Namespace, name); err != nil {
			return fmt.Errorf("reading DaemonSet %s/%s: %w", placed.Namespace, name, err)
		} else if found {
			s.nodes = append(s.nodes, set)
		}
	}
	return nil
}
