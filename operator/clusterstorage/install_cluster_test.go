package clusterstorage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	configclient "github.com/openshift/client-go/config/clientset/versioned"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/clusterstorage"
)

// TestInstall: a cluster on AWS gets the operator of its driver, with the images of the release, and the summary says
// when all of it runs.
func TestInstall(t *testing.T) {
	e := newTestEnv(t, configv1.AWSPlatformType)
	e.start("1.0.0")
	d := e.driver("ebs")
	e.awaitSummary(summaryStarting)
	assert.Empty(t, e.versions(), "versions before the driver runs")

	container := e.operatorOf(d).Spec.Template.Spec.Containers[0]
	assert.Equal(t, image("OPERATOR_IMAGE", "1.0.0"), container.Image, "the operator's image")
	environment := map[string]string{}
	for _, v := range container.Env {
		environment[v.Name] = v.Value
	}
	for name, want := range map[string]string{
		"DRIVER_IMAGE": image("EBS_DRIVER_IMAGE", "1.0.0"), "ATTACHER_IMAGE": image("ATTACHER_IMAGE", "1.0.0"), "RELEASE_VERSION": "1.0.0",
	} {
		assert.EqualValuesf(t, want, environment[name], "the operator's variable %s", name)
	}

	e.report(d, "1.0.0", settled...)
	e.awaitSummary(summarySettled)
	assert.Empty(t, cmp.Diff(map[string]string{"operator": "1.0.0", "AWSEBSCSIDriverOperator": "1.0.0"}, e.versions()), "versions (-want +got)")
}

// settle starts the operator, waits until it reports that its driver on AWS runs, and returns that driver.
func (e *testEnv) settle(version string) drivers.Driver {
	e.t.Helper()
	d := e.driver("ebs")
	e.start(version)
	e.report(d, version, settled...)
	e.awaitSummary(summarySettled)
	return d
}

// operatorOf waits for the Deployment of a driver's operator.
func (e *testEnv) operatorOf(d drivers.Driver) *appsv1.Deployment {
	e.t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.ClusterStorageNamespace, Name: d.Operator.Name}}
	cluster.Eventually(e.t, limit, "Deployment "+deployment.Name, func(ctx context.Context) error {
		return e.Client().Get(ctx, client.ObjectKeyFromObject(deployment), deployment)
	})
	return deployment
}

// TestPlatformWithoutDrivers: where there is nothing to do, the operator is available and says so.
func TestPlatformWithoutDrivers(t *testing.T) {
	e := newTestEnv(t, configv1.NonePlatformType)
	e.start("1.0.0")
	e.awaitSummary(summarySettled)
	assert.Empty(t, e.made(), "objects on a platform without drivers")
	assert.Empty(t, cmp.Diff(map[string]string{"operator": "1.0.0"}, e.versions()), "versions (-want +got)")
}

// TestUpdate: the next version is reported once the driver runs at it, and the last one until then.
func TestUpdate(t *testing.T) {
	e := newTestEnv(t, configv1.AWSPlatformType)
	d := e.settle("1.0.0")
	e.end()
	before := e.operatorOf(d)

	e.start("1.1.0")
	e.awaitSummary("Available=True Progressing=True Degraded=False Upgradeable=True")
	assert.EqualValues(t, "1.0.0", e.versions()["operator"], "during the update the version")
	if after := e.operatorOf(d); after.UID != before.UID || after.Spec.Template.Spec.Containers[0].Image != image("OPERATOR_IMAGE", "1.1.0") {
		t.Errorf("after the update Deployment %s has UID %s and the image %s, want UID %s and version 1.1.0", after.Name, after.UID, after.Spec.Template.Spec.Containers[0].Image, before.UID)
	}
	e.report(d, "1.1.0", settled...)
	e.awaitSummary(summarySettled)
	assert.EqualValues(t, "1.1.0", e.versions()["operator"], "after the update the version")
}

// TestProxy: the operators of a platform's drivers have the cluster's proxy from the beginning, and follow it when it changes and
// when there is none any more.
func TestProxy(t *testing.T) {
	e := newTestEnv(t, configv1.OpenStackPlatformType)
	t.Cleanup(func() { e.setProxy(configv1.ProxyStatus{}) })
	e.setProxy(configv1.ProxyStatus{HTTPProxy: "http://proxy.example.com:3128", HTTPSProxy: "http://proxy.example.com:3129", NoProxy: ".svc,.cluster.local"})
	e.start("1.0.0")
	e.awaitProxy(1, []string{"HTTP_PROXY=http://proxy.example.com:3128", "HTTPS_PROXY=http://proxy.example.com:3129", "NO_PROXY=.svc,.cluster.local"})

	e.setProxy(configv1.ProxyStatus{HTTPProxy: "http://proxy.example.com:3130", NoProxy: ".svc"})
	e.awaitProxy(2, []string{"HTTP_PROXY=http://proxy.example.com:3130", "NO_PROXY=.svc"})

	e.setProxy(configv1.ProxyStatus{})
	e.awaitProxy(3, nil)
}

// setProxy sets the status that the cluster network operator reports in Proxy cluster.
func (e *testEnv) setProxy(status configv1.ProxyStatus) {
	e.t.Helper()
	cluster.Eventually(e.t, limit, "Proxy cluster to be set", func(ctx context.Context) error {
		proxy := &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		if err := client.IgnoreAlreadyExists(e.Client().Create(ctx, proxy.DeepCopy())); err != nil {
			return err
		}
		if err := e.Client().Get(ctx, client.ObjectKeyFromObject(proxy), proxy); err != nil {
			return err
		}
		proxy.Status = status
		return e.Client().Status().Update(ctx, proxy)
	})
}

// awaitProxy waits until the operators of OpenStack's drivers have these variables of a proxy, each in a Deployment that was
// rolled out as many times as generation says.
func (e *testEnv) awaitProxy(generation int64, want []string) {
	e.t.Helper()
	for _, name := range []string{"cinder", "manila"} {
		cluster.Eventually(e.t, limit, "the proxy of the operator of "+name, func(context.Context) error {
			deployment := e.operatorOf(e.driver(name))
			var got []string
			for _, v := range deployment.Spec.Template.Spec.Containers[0].Env {
				if strings.HasSuffix(v.Name, "_PROXY") {
					got = append(got, v.Name+"="+v.Value)
				}
			}
			if !slices.Equal(got, want) || deployment.Generation != generation {
				return fmt.Errorf("generation %d of Deployment %s has %q, want generation %d with %q", deployment.Generation, deployment.Name, got, generation, want)
			}
			return nil
		})
	}
}

// TestEviction: while the pod of a driver's operator moves to another node, as in each update of nodes, the driver serves volumes, and
// the ClusterOperator stays as it is. What Storage shows counts once it lasts.
func TestEviction(t *testing.T) {
	e := newTestEnv(t, configv1.AWSPlatformType)
	d := e.settle("1.0.0")
	deployment := e.operatorOf(d)
	checkSettled := e.recordSummary()
	e.cordon(true)
	t.Cleanup(func() { e.cordon(false) })
	e.must(e.Client().DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(deployment.Namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels)))
	e.awaitCondition(d.ConditionPrefix+"CSIDriverOperatorDeploymentDegraded", operatorv1.ConditionTrue, "no pod of Deployment")
	e.cordon(false)
	e.awaitCondition(d.ConditionPrefix+"CSIDriverOperatorDeploymentDegraded", operatorv1.ConditionFalse, "")
	checkSettled()
}

// cordon has no pods scheduled on any node, or permits them again.
func (e *testEnv) cordon(is bool) {
	e.t.Helper()
	nodes := &corev1.NodeList{}
	e.must(e.Client().List(context.Background(), nodes))
	for _, node := range nodes.Items {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, is))
		e.must(e.Client().Patch(context.Background(), &node, patch))
	}
}

// recordSummary watches the ClusterOperator. The returned function ends that, and fails the test if the summary was ever another one
// than summarySettled.
func (e *testEnv) recordSummary() (check func()) {
	e.t.Helper()
	operators, err := configclient.NewForConfig(e.Config())
	e.must(err)
	watched, err := operators.ConfigV1().ClusterOperators().Watch(e.t.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: clusterstorage.ClusterOperatorName}))
	e.must(err)
	e.t.Cleanup(watched.Stop)
	return func() {
		e.t.Helper()
		last := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: clusterstorage.ClusterOperatorName}}
		e.get(last)
		for event := range watched.ResultChan() {
			operator, ok := event.Object.(*configv1.ClusterOperator)
			require.Truef(e.t, ok, "the watch of the ClusterOperator ended: %+v", event.Object)
			assert.Equalf(e.t, summarySettled, summaryOf(operator), "the summary of %+v", operator.Status.Conditions)
			if operator.ResourceVersion == last.ResourceVersion {
				return
			}
		}
	}
}

// TestEveryObjectComesBack: whatever the operator has made comes back when it is deleted, and nothing of a user's is
// touched.
func TestEveryObjectComesBack(t *testing.T) {
	e := newTestEnv(t, configv1.AWSPlatformType)
	d := e.settle("1.0.0")
	users := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.ClusterStorageNamespace, Name: "of-a-user"}}
	e.must(e.Client().Create(t.Context(), users))
	t.Cleanup(func() { e.must(e.Client().Delete(context.Background(), users)) })

	made := e.made()
	require.GreaterOrEqual(t, len(made), 8, "objects that the operator has made")
	for _, object := range made {
		e.get(object)
		gone := object.GetUID()
		e.must(e.Client().Delete(t.Context(), object))
		cluster.Eventually(t, limit, object.GetKind()+" "+object.GetName()+" to come back", func(ctx context.Context) error {
			back := object.DeepCopy()
			if err := e.Client().Get(ctx, client.ObjectKeyFromObject(object), back); err != nil {
				return err
			}
			if back.GetUID() == gone {
				return errors.New("it is still the one that was deleted")
			}
			return nil
		})
	}
	e.report(d, "1.0.0", settled...) // the ClusterCSIDriver was among them
	e.awaitSummary(summarySettled)
	version := users.ResourceVersion
	if e.get(users); users.ResourceVersion != version {
		t.Errorf("the user's ConfigMap was written: %+v", users)
	}
}

// TestAdministratorsChoices: an administrator's changes of a ClusterCSIDriver stay.
func TestAdministratorsChoices(t *testing.T) {
	e := newTestEnv(t, configv1.AWSPlatformType)
	d := e.settle("1.0.0")
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d.CSIName}}
	e.get(custom)
	custom.Spec.ManagementState, custom.Spec.OperatorLogLevel, custom.Spec.LogLevel = operatorv1.Unmanaged, operatorv1.Trace, operatorv1.Debug
	e.must(e.Client().Update(t.Context(), custom))
	e.report(d, "1.0.0", "Available=Unknown Unmanaged")
	e.awaitSummary(summarySettled)
	e.end()
	e.start("1.0.1")
	cluster.Eventually(t, limit, "the operator of 1.0.1", func(ctx context.Context) error {
		if got := e.operatorOf(d).Spec.Template.Spec.Containers[0].Image; got != image("OPERATOR_IMAGE", "1.0.1") {
			return fmt.Errorf("the image is %s", got)
		}
		return nil
	})
	e.get(custom)
	if got := custom.Spec.OperatorSpec; got.ManagementState != operatorv1.Unmanaged || got.OperatorLogLevel != operatorv1.Trace || got.LogLevel != operatorv1.Debug {
		t.Errorf("the administrator's settings became %+v", got)
	}
}

// TestForeignCSIDriver: a driver that an administrator brought is left alone, and the summary says what to do.
func TestForeignCSIDriver(t *testing.T) {
	e := newTestEnv(t, configv1.AWSPlatformType)
	d := e.driver("ebs")
	foreign := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d.CSIName}}
	e.must(e.Client().Create(t.Context(), foreign))
	t.Cleanup(func() { e.must(client.IgnoreNotFound(e.Client().Delete(context.Background(), foreign))) })
	e.start("1.0.0")
	e.awaitCondition(d.ConditionPrefix+"CSIDriverOperatorDegraded", operatorv1.ConditionTrue, d.CSIName)
	err := e.Client().Get(t.Context(), client.ObjectKey{Namespace: drivers.ClusterStorageNamespace, Name: d.Operator.Name}, &appsv1.Deployment{})
	assert.Truef(t, apierrors.IsNotFound(err), "reading the operator's Deployment: %v, want that there is none", err)

	e.must(e.Client().Delete(t.Context(), foreign))
	e.operatorOf(d)
}

// TestUnmanaged: while Storage is Unmanaged, the operator does nothing, and says so.
func TestUnmanaged(t *testing.T) {
	e := newTestEnv(t, configv1.AWSPlatformType)
	e.setManagementState(operatorv1.Unmanaged)
	e.start("1.0.0")
	e.awaitSummary("Available=Unknown Progressing=Unknown Degraded=Unknown Upgradeable=Unknown")
	assert.Empty(t, e.made(), "objects that the operator made")
	e.setManagementState(operatorv1.Managed)
	e.awaitSummary(summaryStarting)
}

func (e *testEnv) setManagementState(state operatorv1.ManagementState) {
	e.t.Helper()
	set := func(ctx context.Context, state operatorv1.ManagementState) error {
		storage := &operatorv1.Storage{}
		if err := e.Client().Get(ctx, client.ObjectKey{Name: "cluster"}, storage); err != nil {
			return err
		}
		storage.Spec.ManagementState = state
		return e.Client().Update(ctx, storage)
	}
	cluster.Eventually(e.t, limit, "spec.managementState to be set", func(ctx context.Context) error { return set(ctx, state) })
	e.t.Cleanup(func() {
		cluster.Eventually(e.t, limit, "spec.managementState to be set back", func(ctx context.Context) error { return set(ctx, operatorv1.Managed) })
	})
}

// TestQuiet: a settled operator writes nothing, whatever it observes.
func TestQuiet(t *testing.T) {
	e := newTestEnv(t, configv1.AWSPlatformType)
	d := e.settle("1.0.0")
	began := len(e.requests())
	// Something that it observes changes, without a difference.
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d.CSIName}}
	e.get(custom)
	custom.Annotations = map[string]string{"note": "of an administrator"}
	e.must(e.Client().Update(t.Context(), custom))
	e.report(d, "1.0.0", append(settled, "XAvailable=False")...)
	e.awaitSummary("Available=False Progressing=False Degraded=False Upgradeable=True")
	for _, request := range e.requests()[began:] {
		if request.Verb != "watch" && request.Subresource != "status" {
			t.Errorf("the settled operator requested: %s %s", request.Verb, request.URI)
		}
	}
}
