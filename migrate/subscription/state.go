package subscription

import (
	"context"
	"fmt"
	"slices"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/lock"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/installplan"
)

// state is the observed state that the next step of a switch is decided from. Missing objects are nil.
type state struct {
	now          time.Time
	plan         *Plan
	journal      *migrate.Journal
	subscription *v1alpha1.Subscription
	// installPlans are the InstallPlans of the namespace for the target, and leftovers are the InstallPlans that belong to a Subscription
	// of this name and to no other.
	installPlans, leftovers []*v1alpha1.InstallPlan
	// current is the InstallPlan that the Subscription refers to, which is the latest.
	current *v1alpha1.InstallPlan
	// missing reports whether the Subscription refers to an InstallPlan that is gone, and stalled whether OLM will
	// not notice that.
	missing, stalled bool
	// asks reports whether OLM asks for approval in the namespace.
	asks bool
	// csvs are the ClusterServiceVersions of the namespace, without copies from other namespaces.
	csvs []v1alpha1.ClusterServiceVersion
	// arrived is the version that the switch has installed: the target, or a later version that OLM has updated it to.
	arrived *v1alpha1.ClusterServiceVersion
	// deployments are the existing Deployments of the arrived version.
	deployments []appsv1.Deployment
	// lockHolder is the pod that holds the lock of the driver's operator.
	lockHolder *corev1.Pod
	driver     *operatorv1.ClusterCSIDriver
	daemonSets []appsv1.DaemonSet // of the driver
}

// Observe reads the state that the next step is decided from.
func (p *Plan) Observe(ctx context.Context, cluster migrate.Cluster, j *migrate.Journal) (migrate.State, error) {
	s := &state{now: time.Now(), plan: p, journal: j}
	readApproval := func(ctx context.Context, _ client.Client) error { return s.readApproval(ctx, cluster.Config) }
	readArrived := func(ctx context.Context, _ client.Client) error { return s.readArrived(ctx, cluster) }
	for _, read := range []func(context.Context, client.Client) error{
		s.readSubscription, readApproval, s.readInstallPlans, s.readCSVs, readArrived, s.readOperator, s.readDriver,
	} {
		if err := read(ctx, cluster.Client); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *state) readSubscription(ctx context.Context, c client.Client) error {
	subscription := &v1alpha1.Subscription{}
	found, err := migrate.Find(ctx, c, subscription, s.plan.Subject.Namespace, s.plan.Subject.Name)
	if !found {
		return err
	}
	if subscription.Spec == nil { // the API server does not accept that
		return fmt.Errorf("no spec in Subscription %s", s.plan.Subject)
	}
	s.subscription = subscription
	return nil
}

func (s *state) readInstallPlans(ctx context.Context, c client.Client) error {
	list := &v1alpha1.InstallPlanList{}
	if err := c.List(ctx, list, client.InNamespace(s.plan.Subject.Namespace)); err != nil {
		return fmt.Errorf("listing InstallPlans: %w", err)
	}
	all := make([]*v1alpha1.InstallPlan, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	var current types.UID
	if s.subscription != nil {
		s.missing, s.stalled = installplan.Missing(s.subscription, all)
		if ref := s.subscription.Status.InstallPlanRef; ref != nil {
			current = ref.UID
		}
	}
	for _, installPlan := range all {
		if installPlan.UID == current {
			s.current = installPlan
		}
		if slices.Contains(installPlan.Spec.ClusterServiceVersionNames, s.plan.Target) {
			s.installPlans = append(s.installPlans, installPlan)
		}
		if owners := installPlan.OwnerReferences; len(owners) == 1 && owners[0].Kind == v1alpha1.SubscriptionKind && owners[0].Name == s.plan.Subject.Name {
			s.leftovers = append(s.leftovers, installPlan)
		}
	}
	return nil
}

// targetInstallPlan returns the InstallPlan that the Subscription refers to, if it is for the target, or nil.
func (s *state) targetInstallPlan() *v1alpha1.InstallPlan {
	if s.current == nil || !slices.Contains(s.current.Spec.ClusterServiceVersionNames, s.plan.Target) {
		return nil
	}
	return s.current
}

func (s *state) readCSVs(ctx context.Context, c client.Client) error {
	list := &v1alpha1.ClusterServiceVersionList{}
	if err := c.List(ctx, list, client.InNamespace(s.plan.Subject.Namespace)); err != nil {
		return fmt.Errorf("listing ClusterServiceVersions: %w", err)
	}
	s.csvs = slices.DeleteFunc(list.Items, func(csv v1alpha1.ClusterServiceVersion) bool { return csv.IsCopied() })
	return nil
}

// csv returns the ClusterServiceVersion with a name, or nil.
func (s *state) csv(name string) *v1alpha1.ClusterServiceVersion {
	for i := range s.csvs {
		if s.csvs[i].Name == name {
			return &s.csvs[i]
		}
	}
	return nil
}

// readOperator reads the objects that show whether the arrived operator runs.
func (s *state) readOperator(ctx context.Context, c client.Client) error {
	if s.arrived == nil {
		return nil
	}
	for _, spec := range s.arrived.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		deployment := appsv1.Deployment{}
		found, err := migrate.Find(ctx, c, &deployment, s.arrived.Namespace, spec.Name)
		if err != nil {
			return err
		}
		if found {
			s.deployments = append(s.deployments, deployment)
		}
	}
	if s.plan.Driver == nil {
		return nil
	}
	var err error
	s.lockHolder, err = lock.Holder(ctx, c, client.ObjectKey{Namespace: s.plan.Subject.Namespace, Name: s.plan.Driver.Lock})
	return err
}

// readDriver reads the objects that show whether the driver runs.
func (s *state) readDriver(ctx context.Context, c client.Client) error {
	if !s.plan.createsDriver() {
		return nil
	}
	driver := &operatorv1.ClusterCSIDriver{}
	found, err := migrate.Find(ctx, c, driver, "", s.plan.Driver.Name)
	if !found {
		return err
	}
	s.driver = driver
	defined, found := driverOf(s.plan.From.Package, s.plan.To.Package)
	if !found {
		return fmt.Errorf("no known driver has an operator in package %s or %s", s.plan.From.Package, s.plan.To.Package)
	}
	placed, err := place(ctx, c, defined, s.plan.Subject.Namespace, driver)
	if err != nil || placed.Refusal != nil { // the conditions of the ClusterCSIDriver report it
		return err
	}
	for _, name := range s.plan.Driver.DaemonSets {
		set := appsv1.DaemonSet{}
		if found, err := migrate.Find(ctx, c, &set, placed.Namespace, name); err != nil {
			return fmt.Errorf("reading DaemonSet %s/%s: %w", placed.Namespace, name, err)
		} else if found {
			s.daemonSets = append(s.daemonSets, set)
		}
	}
	return nil
}
