package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/ports"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/journey"
)

// TestTheMainJob walks the whole way: Subscription, ClusterCSIDriver, SharedVolume, and back. "berth doctor" reports
// the progress.
func TestTheMainJob(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, efs(t), cluster.Options{})
	w.mustDiagnose("an empty cluster", 1, map[string]findings.Verdict{"subscription-missing": findings.Fault, "clustercsidriver-missing": findings.Fault})
	w.serveCatalog()

	csv := w.subscribe(nil)
	assert.Equal(t, w.driver.Package.Name+".v1.0.0", csv, "OLM installed")
	w.checkOperatorProcess()
	w.checkMonitoring()
	assert.Empty(t, w.uids(w.driverObjects()...), "without a ClusterCSIDriver these objects of the driver exist")

	w.step(func(ctx context.Context, c client.Client) error {
		return journey.InstallDriver(ctx, c, w.driver.CSIName)
	})
	installed := w.uids(w.driverObjects()...)
	assert.Equalf(t, len(w.driverObjects()), len(installed), "objects of the driver when it is available: %v", installed)

	kept, removed := sharedVolume("kept"), sharedVolume("removed")
	w.grant(kept.Namespace)
	w.share(kept)
	w.share(removed)
	w.register()
	w.mustDiagnose("a driver that works", 0, working)

	gone := claimAndVolume(w, removed)
	w.step(func(ctx context.Context, c client.Client) error {
		if err := c.Delete(ctx, removed); err != nil {
			return err
		}
		return journey.Gone(ctx, c, append(gone, removed)...)
	})

	w.checkPermissions()

	// The operator goes; the driver and the volumes stay as they are.
	stays := claimAndVolume(w, kept)
	before := versions(w, stays)
	w.step(func(ctx context.Context, c client.Client) error { return w.removeOperator(ctx, c, csv) })
	for _, object := range w.monitoringObjects() {
		w.step(func(ctx context.Context, c client.Client) error { return journey.Gone(ctx, c, object) })
	}
	assert.Empty(t, cmp.Diff(installed, w.uids(w.driverObjects()...)), "the driver's objects changed when the operator went (-before +after)")
	assert.Empty(t, cmp.Diff(before, versions(w, stays)), "the volume changed when the operator went (-before +after)")
}

// TestACatalogServedByOpm: OLM installs the same from opm's server.
func TestACatalogServedByOpm(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, efs(t), cluster.Options{})
	port := ports.Free(t) // opm knows no address, only a port, which it takes on all of them
	w.step(func(ctx context.Context, c client.Client) error {
		return journey.ServeCatalog(ctx, c, journey.Catalog{
			Name: catalogName, Folder: w.catalog, Port: port, Image: opmImage + ":test",
			Args: []string{"serve", journey.CatalogFolder, fmt.Sprintf("--port=%d", port),
				"--pprof-addr=", "--termination-log=" + os.DevNull},
		})
	})
	assert.Equal(t, w.driver.Package.Name+".v1.0.0", w.subscribe(nil), "OLM installed")
	w.checkOperatorProcess()
}

// TestAMissingImageReachesTheAdministrator: an image variable that the Subscription blanks out is
// named in the ClusterCSIDriver, and nothing is installed.
func TestAMissingImageReachesTheAdministrator(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, efs(t), cluster.Options{})
	w.serveCatalog()
	w.subscribe(&v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{{Name: "DRIVER_IMAGE", Value: ""}}})
	w.waitForOperatorWithout("DRIVER_IMAGE")

	custom := &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
	}
	require.NoError(t, w.Client().Create(t.Context(), custom))
	w.Await(t, limit, "Degraded to name the variable", custom, func() error {
		for _, condition := range custom.Status.Conditions {
			if condition.Type == operatorv1.OperatorStatusTypeDegraded && condition.Status == operatorv1.ConditionTrue &&
				strings.Contains(condition.Message, "DRIVER_IMAGE") {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", custom.Status.Conditions)
	})
	assert.Empty(t, w.uids(w.driverObjects()...), "objects of the driver exist")
}

// waitForOperatorWithout waits until every pod of the operator has a blank variable: OLM first creates the bundle's
// Deployment, and then applies the Subscription's variables.
func (w *environment) waitForOperatorWithout(variable string) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "the operator to run without "+variable, func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := w.Client().List(ctx, pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			for _, env := range pod.Spec.Containers[0].Env {
				if env.Name == variable && env.Value != "" {
					return fmt.Errorf("pod %s still has %s=%s", pod.Name, env.Name, env.Value)
				}
			}
		}
		if len(pods.Items) == 0 {
			return fmt.Errorf("there is no pod")
		}
		return nil
	})
}

func sharedVolume(name string) *sharedvolume.SharedVolume {
	return &sharedvolume.SharedVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       sharedvolume.SharedVolumeSpec{FileSystemID: "fs-0123456789abcdef0", AccessPointID: "fsap-0123456789abcdef0"},
	}
}

// claimAndVolume returns the claim of a SharedVolume and the volume that it is bound to.
func claimAndVolume(w *environment, shared *sharedvolume.SharedVolume) []client.Object {
	w.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	require.NoError(w.t, w.Client().Get(w.t.Context(), client.ObjectKey{Namespace: shared.Namespace, Name: "pvc-" + shared.Name}, claim))
	volume := &corev1.PersistentVolume{}
	require.NoError(w.t, w.Client().Get(w.t.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, volume))
	return []client.Object{claim, volume}
}

// versions returns the resource versions of objects as they are now.
func versions(w *environment, objects []client.Object) map[string]string {
	w.t.Helper()
	versions := map[string]string{}
	for _, object := range objects {
		require.NoError(w.t, w.Client().Get(w.t.Context(), client.ObjectKeyFromObject(object), object))
		versions[object.GetName()] = object.GetResourceVersion()
	}
	return versions
}

// checkOperatorProcess checks that the Deployment that OLM made has really started the operator: a
// pod of it is ready, and its service account has asked the API server for something.
func (w *environment) checkOperatorProcess() {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "the operator's pod to be ready and to hold the lock", func(ctx context.Context) error {
		pod, err := journey.LockHolder(ctx, w.Client(), namespace, w.driver.Operator.Lock)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(pod.Spec.Containers[0].Image, operatorImage) || len(pod.Status.ContainerStatuses) == 0 || !pod.Status.ContainerStatuses[0].Ready {
			return fmt.Errorf("pod %s: %v", pod.Name, pod.Status.ContainerStatuses)
		}
		return nil
	})
	if len(w.requests()) == 0 {
		w.t.Errorf("%s has asked the API server for nothing", w.account.User())
	}
}

// requests returns the operator's requests.
func (w *environment) requests() []cluster.AuditEvent {
	w.t.Helper()
	return w.account.Requests(w.t)
}

// atRest fails unless OLM's catalog operator has asked for nothing for a while. While it does something, it asks five
// times a second.
func (w *environment) atRest(context.Context) error {
	const while = 5 * time.Second
	for _, event := range slices.Backward(w.AuditOf(w.t, cluster.Requests{Agent: "catalog/"})) {
		if event.Verb != "watch" {
			if ago := time.Since(event.Answered); ago < while {
				return fmt.Errorf("%s ago, it asked to %s %s %s", ago.Round(time.Millisecond), event.Verb, event.Resource, event.Name)
			}
			break
		}
	}
	return nil
}

// removeOperator removes the Subscription and the ClusterServiceVersion, as an administrator does to
// remove an operator from OLM, and waits until no pod of the operator is left.
func (w *environment) removeOperator(ctx context.Context, c client.Client, csv string) error {
	// While it installs, OLM may carry out an InstallPlan twice, the second time from memory: removed objects then come
	// back.
	if err := cluster.Until(ctx, "OLM to have done what it was about", w.atRest); err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Namespace: namespace}
	subscription := &v1alpha1.Subscription{ObjectMeta: meta}
	subscription.Name = w.driver.Package.Name
	version := &v1alpha1.ClusterServiceVersion{ObjectMeta: meta}
	version.Name = csv
	if err := c.Delete(ctx, subscription); err != nil {
		return err
	}
	// OLM would take an old one for the next Subscription's, and install nothing.
	err := cluster.Until(ctx, "the Subscription's InstallPlans to be gone", func(ctx context.Context) error {
		plans := &v1alpha1.InstallPlanList{}
		if err := c.List(ctx, plans, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(plans.Items) > 0 {
			return fmt.Errorf("there are %d, such as %s", len(plans.Items), plans.Items[0].Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.Delete(ctx, version); err != nil {
		return err
	}
	if err := journey.Gone(ctx, c, subscription, version); err != nil {
		return err
	}
	monitoring, err := w.driver.OperatorMonitoring()
	if err != nil {
		return err
	}
	for _, m := range monitoring {
		object := m.Object.DeepCopy()
		object.SetNamespace(namespace)
		if err := journey.Gone(ctx, c, object); err != nil {
			return err
		}
	}
	return cluster.Until(ctx, "the operator's pods to be gone", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.Spec.ServiceAccountName == w.driver.Operator.Name {
				return fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return nil
	})
}
