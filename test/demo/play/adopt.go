package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/community"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/openshift45"
)

// adoptedPlatform is the platform of the driver that is handed over.
const adoptedPlatform = "aws"

// adoptionCloud returns the platform's cloud, which also knows the credentials of OpenShift 4.5's operator.
func adoptionCloud() (simulatedCloud, error) {
	cloud, err := onPlatform{adoptedPlatform}.cloud()
	cloud.olm = true
	cloud.start = func(t testing.TB, _ *demo) (testbed.Cloud, error) {
		request, err := openshift45.Request(ebs.Driver)
		if err != nil {
			return testbed.Cloud{}, err
		}
		region := testbed.StartAWS(t, ebs.Driver, aws.Options{})
		region.Former = []*unstructured.Unstructured{request.Object}
		return region.Options(), nil
	}
	return cloud, err
}

func runAdoptionCloud(ctx context.Context, s *demo) error {
	cloud, err := adoptionCloud()
	if err != nil {
		return err
	}
	return cloud.run(ctx, s)
}

// handOver is the hand-over of a driver from OLM to the cluster storage operator, while a pod writes to one of its
// volumes.
type handOver struct{ *demo }

// tenant is the pod that writes.
var tenant = client.ObjectKey{Namespace: team, Name: "writer"}

func runAdopt(ctx context.Context, s *demo) error {
	platform, err := testbed.PlatformOf(adoptedPlatform)
	if err != nil {
		return err
	}
	cloud, err := adoptionCloud()
	if err != nil {
		return err
	}
	s.driver = ebs.Driver
	if err := cloud.build(ctx, s); err != nil {
		return err
	}
	h := handOver{s}
	if err := h.setUp(ctx, platform, cloud); err != nil {
		return err
	}
	name := s.driver.Name
	if err := h.showPlan(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{{"apply", name}, {"status", name}, {"cleanup", name}, {"cleanup", name, "--confirm"}} {
		if err := h.show(ctx, append([]string{"berth", "adopt"}, args...)...); err != nil {
			return err
		}
	}
	if err := h.compare(ctx); err != nil {
		return err
	}
	h.farewell()
	return nil
}

// setUp starts the cluster with the former operator, its driver, and a pod that writes to a volume, unless an earlier run did.
func (h handOver) setUp(ctx context.Context, platform testbed.Platform, cloud simulatedCloud) error {
	if err := h.run(ctx, stage{"local cluster", cloud.startCluster(h.demo)}); err != nil {
		return err
	}
	if before, err := readRecord(ctx, h.cluster.Client()); err != nil || before != nil {
		return err
	}
	return h.run(ctx,
		stage{"OpenShift 4.5's catalog", h.buildCatalog(filepath.Join(h.root, "test", "openshift45", "bundle"), "catalog")},
		stage{"its catalog source", h.serveCatalog("redhat-operators", "catalog")},
		stage{"OpenShift 4.5's operator", h.install},
		stage{"the driver that it made", h.makeDriver},
		stage{"volume", h.useVolume},
		stage{"cluster storage operator", func(ctx context.Context) (string, error) {
			if err := h.manage(ctx, operatorv1.Unmanaged); err != nil {
				return "", err
			}
			return "does nothing yet: Storage cluster is Unmanaged", platform.Install(ctx, h.cluster.Client())
		}},
		stage{"record", h.record},
	)
}

// install makes OLM install the operator, as an administrator of OpenShift 4.5 did.
func (h handOver) install(ctx context.Context) (string, error) {
	at := h.driver.Predecessors()[0].Namespace
	if err := h.cluster.EnsureNamespace(ctx, at); err != nil {
		return "", err
	}
	if err := journey.Ensure(ctx, h.cluster.Client(), &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: at, Name: "all"}}); err != nil {
		return "", err
	}
	csv, err := journey.Subscribe(ctx, h.cluster.Client(), &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: at, Name: h.driver.Package.Name},
		Spec: &v1alpha1.SubscriptionSpec{CatalogSource: "redhat-operators", CatalogSourceNamespace: cluster.CatalogNamespace,
			Package: h.driver.Package.Name, Channel: openshift45.Channel},
	})
	return "OLM installed " + csv, err
}

// makeDriver creates the former operator's custom resource and the objects that the operator made for it, and waits until the driver runs.
func (h handOver) makeDriver(ctx context.Context) (string, error) {
	c := h.cluster.Client()
	of := h.driver.OldCustomResources()[0]
	custom := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"managementState": "Managed", "logLevel": "Debug"}}}
	custom.SetGroupVersionKind(of.Kind)
	custom.SetName(of.Name)
	custom.SetFinalizers([]string{of.Finalizer})
	infrastructure, cloud := &configv1.Infrastructure{}, &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Name: "cluster"}, infrastructure); err != nil {
		return "", err
	}
	if err := c.Get(ctx, client.ObjectKey{Namespace: drivers.CloudConfigNamespace, Name: drivers.CloudConfigName}, cloud); err != nil {
		return "", err
	}
	content, err := h.driver.CloudConfig.Content(cloud.Data, nil, nil)
	if err != nil {
		return "", err
	}
	objects, err := openshift45.Today(h.driver, drivers.Cluster{Infrastructure: infrastructure, ClusterCSIDriver: &operatorv1.ClusterCSIDriver{}, CloudConfig: content})
	if err != nil {
		return "", err
	}
	for _, object := range append([]*unstructured.Unstructured{custom}, objects...) {
		if err := journey.Ensure(ctx, c, object); err != nil {
			return "", err
		}
		if object.GetKind() == "Namespace" {
			if err := h.cluster.EnsureNamespace(ctx, object.GetName()); err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("runs in %s, with images of today, for %s", h.driver.Namespace, of), cluster.Until(ctx, "the driver to run", func(ctx context.Context) error {
		for _, kind := range h.kinds() {
			objects, err := kind.Objects(ctx, c)
			if err != nil {
				return err
			}
			for _, object := range objects {
				if err := kind.Trouble(object); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// useVolume starts a pod that keeps writing to a volume.
func (h handOver) useVolume(ctx context.Context) (string, error) {
	c := h.cluster.Client()
	const class = "gp2-csi"
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new(class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
	pod := journey.PodWithClaim(tenant.Namespace, tenant.Name, claim.Name)
	pod.Labels = community.UserLabels
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: testbed.Nodes[0]}
	pod.Spec.Containers[0].Args = []string{"keep-writing", journey.DataFolder + "/" + tenant.Name}
	for _, object := range []client.Object{claim, pod} {
		if err := journey.Ensure(ctx, c, object); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("claim %s of class %s is Bound, and a pod writes to it throughout", claim.Name, class), journey.AwaitPod(ctx, c, tenant)
}

// manage sets the management state of Storage cluster.
func (h handOver) manage(ctx context.Context, state operatorv1.ManagementState) error {
	storage := &operatorv1.Storage{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	return h.cluster.Client().Patch(ctx, storage, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"managementState":%q}}`, state)))
}

// showPlan shows the plan, and lets the cluster storage operator begin, unless an earlier run did. Until then, the plan is refused because of
// Unmanaged.
func (h handOver) showPlan(ctx context.Context) error {
	storage := &operatorv1.Storage{}
	if err := h.cluster.Client().Get(ctx, client.ObjectKey{Name: "cluster"}, storage); err != nil || storage.Spec.ManagementState != operatorv1.Unmanaged {
		return err
	}
	err := h.show(ctx, "berth", "adopt", "plan", h.driver.Name)
	if refused := (*exec.ExitError)(nil); !errors.As(err, &refused) || refused.ExitCode() != 1 {
		return fmt.Errorf("want a plan that is refused because of Unmanaged, got %v", err)
	}
	fmt.Println()
	return h.run(ctx, stage{"Storage cluster", func(ctx context.Context) (string, error) {
		if err := h.manage(ctx, operatorv1.Managed); err != nil {
			return "", err
		}
		return "is Managed: the cluster storage operator takes the driver over by itself, and berth works with it", h.awaitHold(ctx)
	}})
}

// awaitHold waits until the cluster storage operator reports that it waits for OLM's operator of the driver to go.
func (h handOver) awaitHold(ctx context.Context) error {
	return cluster.Until(ctx, "the cluster storage operator to wait", func(ctx context.Context) error {
		storage := &operatorv1.Storage{}
		if err := h.cluster.Client().Get(ctx, client.ObjectKey{Name: "cluster"}, storage); err != nil {
			return err
		}
		if found := v1helpers.FindOperatorCondition(storage.Status.Conditions, predecessor.Condition(h.driver)); found == nil || found.Reason != predecessor.Reason {
			return fmt.Errorf("the condition of Storage is %+v", found)
		}
		return nil
	})
}

// kinds returns the kinds of objects that must survive.
func (h handOver) kinds() []community.Kind {
	found := slices.DeleteFunc(community.Kinds(h.driver.Namespace), func(k community.Kind) bool { return k.Name == "SharedVolume" })
	return append(found,
		community.Kind{Name: "Deployment", List: &appsv1.DeploymentList{}, Options: []client.ListOption{client.InNamespace(h.driver.Namespace)}, Good: "Available",
			State: func(o client.Object) string {
				if status := o.(*appsv1.Deployment).Status; status.AvailableReplicas == 0 {
					return "not available"
				}
				return "Available"
			}},
		community.Kind{Name: "VolumeAttachment", List: &storagev1.VolumeAttachmentList{}, Good: "attached", State: func(o client.Object) string {
			if !o.(*storagev1.VolumeAttachment).Status.Attached {
				return "not attached"
			}
			return "attached"
		}},
	)
}

func (h handOver) record(ctx context.Context) (string, error) {
	mount, err := h.mountOf(ctx, tenant)
	if err != nil {
		return "", err
	}
	return "what must survive is noted", save(ctx, h.cluster.Client(), h.kinds(), map[string]string{tenant.Name: mount})
}

// compare checks that no object was lost.
func (h handOver) compare(ctx context.Context) error {
	before, err := readRecord(ctx, h.cluster.Client())
	if err != nil {
		return err
	}
	if before == nil {
		return errors.New("the record of what must survive is gone")
	}
	fmt.Println()
	for _, kind := range h.kinds() {
		if err := h.run(ctx, stage{kind.Name, func(ctx context.Context) (string, error) { return before.compare(ctx, h.cluster.Client(), kind) }}); err != nil {
			return err
		}
	}
	return h.run(ctx, stage{"writer", func(ctx context.Context) (string, error) {
		return h.compareWriters(ctx, before, []client.ObjectKey{tenant})
	}})
}

func (h handOver) farewell() {
	h.demo.farewell(staysUp, h.onPath(h.home),
		"kubectl berth adopt status "+h.driver.Name,
		"kubectl get clusteroperator storage -o yaml",
		"kubectl -n "+h.driver.Namespace+" get deployments,daemonsets,pods -o wide",
	)
}
