package continuity

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/lab/aws"
	efscloud "github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/cloudcredential"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/release"
)

// TestLife plays the ordinary long life of a cluster, from the first version of the operator to its removal, while a
// pod on each node writes to the same volume.
func TestLife(t *testing.T) {
	needAll(t)
	region := testbed.StartAWS(t, efs.Driver, aws.Options{Region: "sea-west-1"})
	files := testbed.AddFileSystems(t, region, efscloud.FileSystem{ID: fileSystem})
	cloud := region.Options()
	files.Serve(&cloud)
	l := &life{watch: &watch{accounts: ofOLM(efs.Driver)}, region: region}
	l.journal.begin("1.0.0 is installed")
	l.Testbed = testbed.Start(t, testbed.Options{Driver: efs.Driver, Cloud: cloud})
	l.journal.end()

	first := release.Build(t, l.Driver).Update(t)
	third := first.Update(t).Update(t)
	broken := third.UpdateTo(t, journey.UserImage) // its program rejects the operator's arguments
	mended := broken.Update(t)
	latest := mended.Update(t)

	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Provisioner: l.Driver.CSIName,
		Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": fileSystem, "directoryPerms": "700"},
	}
	require.NoError(t, l.Client().Create(t.Context(), class))
	l.namespace = l.Namespace(t)
	l.claim = l.newClaim(t, "files")
	for i, node := range testbed.Nodes {
		l.startWriter(t, fmt.Sprintf("writer-%d", i), node, l.claim)
	}
	l.run(t, []step{
		{"the operator is updated to 1.0.1", func(t *testing.T) { l.update(t, first) }, l.runs("1.0.1")},
		{"the operator skips 1.0.2", func(t *testing.T) { l.update(t, third) }, l.runs("1.0.3")},
		{"an update fails, and is repaired", func(t *testing.T) { l.fail(t, broken); l.repair(t, mended) }, l.runs("1.0.5")},
		{"OpenShift is updated, and then the operator", func(t *testing.T) { l.updateOpenShift(t, latest) }, l.runs("1.0.6")},
		{"the operator is down while much changes", l.stayDown, l.works("down")},
		{"certificates and cloud credentials are renewed", l.renewCertificates, l.works("renewed")},
		{"the keys of tokens are rotated", l.rotateKeys, l.works("rotated")},
		{"a node is replaced", l.replaceNode, l.works("replaced")},
		{"etcd is restored", l.restore, l.works("restored")},
		{"GitOps applies the ClusterCSIDriver every minute", l.applyOften, l.works("applied")},
		{"the removal waits for pods", l.beginRemoval, l.stays},
		{"the driver is removed", l.remove, l.isGone},
		{"the driver is back", l.comeBack, l.works("back")},
		{"the operator is removed, and installed again", l.reinstall, l.works("again")},
	})
}

// life is the life of a driver in a cluster.
type life struct {
	*watch
	region    *testbed.AWS
	namespace string
	claim     *corev1.PersistentVolumeClaim
}

// newClaim claims a volume for the driver to provision.
func (l *life) newClaim(t *testing.T, name string) *corev1.PersistentVolumeClaim {
	return l.Claim(t, testbed.Claim{Namespace: l.namespace, Name: name, Class: "shared"})
}

// stays checks that the driver is ready on all nodes.
func (l *life) stays(t *testing.T) { l.AwaitReady(t) }

// runs checks that OLM has installed a version, which reports that all is well.
func (l *life) runs(version string) func(*testing.T) {
	return func(t *testing.T) {
		l.awaitInstalled(t, version)
		l.AwaitReady(t)
		l.awaitSettled(t)
		plans := &v1alpha1.InstallPlanList{}
		require.NoError(t, l.Client().List(t.Context(), plans, client.InNamespace(cluster.OperatorNamespace)))
		for _, plan := range plans.Items {
			if slices.Contains(plan.Spec.ClusterServiceVersionNames, l.csvOf("1.0.2").Name) {
				t.Errorf("InstallPlan %s installs 1.0.2, want that skipped", plan.Name)
			}
		}
	}
}

// awaitSettled waits until the operator has reported that it has seen the ClusterCSIDriver, that the driver is
// available, and that it does not progress.
func (l *life) awaitSettled(t *testing.T) {
	t.Helper()
	want := map[string]operatorv1.ConditionStatus{
		operatorv1.OperatorStatusTypeAvailable: operatorv1.ConditionTrue, operatorv1.OperatorStatusTypeProgressing: operatorv1.ConditionFalse,
		operatorv1.OperatorStatusTypeDegraded: operatorv1.ConditionFalse,
	}
	cluster.Eventually(t, testbed.Limit, "the operator to be settled", func(ctx context.Context) error {
		custom, err := l.custom(ctx)
		if err != nil {
			return err
		}
		if custom.Status.ObservedGeneration != custom.Generation {
			return fmt.Errorf("status.observedGeneration is %d, want %d", custom.Status.ObservedGeneration, custom.Generation)
		}
		met := 0
		for _, condition := range custom.Status.Conditions {
			if status, asked := want[condition.Type]; asked {
				if condition.Status != status {
					return fmt.Errorf("%s is %s: %s", condition.Type, condition.Status, condition.Message)
				}
				met++
			}
		}
		if met != len(want) {
			return fmt.Errorf("it has %d of the conditions %v", met, want)
		}
		return nil
	})
}

func (l *life) custom(ctx context.Context) (*operatorv1.ClusterCSIDriver, error) {
	custom := &operatorv1.ClusterCSIDriver{}
	return custom, l.Client().Get(ctx, client.ObjectKey{Name: l.Driver.CSIName}, custom)
}

// works checks that the driver is ready, and that it provisions and deletes a volume.
func (l *life) works(name string) func(*testing.T) {
	return func(t *testing.T) {
		l.AwaitReady(t)
		l.awaitSettled(t)
		claim := l.newClaim(t, name)
		volume := l.Bound(t, claim)
		l.Delete(t, claim)
		cluster.Eventually(t, testbed.Limit, "the volume to be deleted", l.Gone(volume))
	}
}

// patch merges JSON into an object.
func (l *life) patch(t *testing.T, object client.Object, format string, args ...any) {
	t.Helper()
	require.NoError(t, l.Client().Patch(t.Context(), object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))))
}

func (l *life) patchCustom(t *testing.T, format string, args ...any) {
	t.Helper()
	l.patch(t, &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: l.Driver.CSIName}}, format, args...)
}

// operatorPod returns the operator's pod, when there is one.
func (l *life) operatorPod(t *testing.T) (pod *corev1.Pod) {
	t.Helper()
	cluster.Eventually(t, testbed.Limit, "the operator to have a pod", func(ctx context.Context) (err error) {
		pod, err = journey.OperatorPod(ctx, l.Client(), cluster.OperatorNamespace, l.Driver.Operator.Name)
		return err
	})
	return pod
}

// fail updates the operator to a version that crashes, and waits until that shows. The pod of the version before runs on.
func (l *life) fail(t *testing.T, broken release.Release) {
	l.update(t, broken)
	l.awaitVersion(t, "1.0.4", func(csv *v1alpha1.ClusterServiceVersion) bool { return csv.Status.Phase == v1alpha1.CSVPhaseInstalling })
	cluster.Eventually(t, testbed.Limit, "the operator to crash", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := l.Client().List(ctx, pods, client.InNamespace(cluster.OperatorNamespace), client.MatchingLabels{"name": l.Driver.Operator.Name}); err != nil {
			return err
		}
		crashed, running := "", ""
		for _, pod := range pods.Items {
			for _, status := range pod.Status.ContainerStatuses {
				switch broken := strings.HasPrefix(status.Image, journey.UserImage); {
				case broken && status.RestartCount > 0:
					crashed = fmt.Sprintf("pod %s has ended %d times", pod.Name, status.RestartCount)
				case !broken && status.Ready:
					running = fmt.Sprintf("pod %s of the version before is ready", pod.Name)
				}
			}
		}
		if crashed == "" || running == "" {
			return fmt.Errorf("of %d pods, %q and %q, want one that has ended and one that is ready", len(pods.Items), crashed, running)
		}
		l.journal.note("%s; %s", crashed, running)
		return nil
	})
}

// repair follows docs/start/install.md about a failed update. OLM has the mended version in its catalog, and installs it only
// then.
func (l *life) repair(t *testing.T, mended release.Release) {
	l.update(t, mended)
	subscription := release.Subscription(l.Driver, "", "")
	cluster.Eventually(t, testbed.Limit, "OLM to see the new catalog", func(ctx context.Context) error {
		if err := l.Client().Get(ctx, client.ObjectKeyFromObject(subscription), subscription); err != nil {
			return err
		}
		for _, health := range subscription.Status.CatalogHealth {
			if health.CatalogSourceRef.Name == subscription.Spec.CatalogSource && health.Healthy {
				return nil
			}
		}
		return fmt.Errorf("its status has the catalogs %v", subscription.Status.CatalogHealth)
	})
	all := &v1alpha1.ClusterServiceVersionList{}
	require.NoError(t, l.Client().List(t.Context(), all, client.InNamespace(cluster.OperatorNamespace)))
	for _, csv := range all.Items {
		l.journal.note("with the mended version in the catalog, %s is %s: %s", csv.Name, csv.Status.Phase, csv.Status.Message)
	}
	l.reinstall(t)
}

// updateOpenShift updates OpenShift, with the operator held back until that is complete. A new catalog comes with it.
func (l *life) updateOpenShift(t *testing.T, latest release.Release) {
	const later = "4.23.0"
	condition := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.OperatorNamespace, Name: l.csvOf("1.0.5").Name}}
	l.patch(t, condition, `{"spec":{"overrides":[{"type":"Upgradeable","status":"False","reason":"OpenShiftUpdate","message":"until OpenShift is updated"}]}}`)
	l.setClusterVersion(t, later, configv1.PartialUpdate)
	l.update(t, latest)
	held := l.awaitVersion(t, "1.0.6", func(csv *v1alpha1.ClusterServiceVersion) bool {
		return csv.Status.Phase == v1alpha1.CSVPhasePending && csv.Status.Reason == v1alpha1.CSVReasonOperatorConditionNotUpgradeable
	})
	l.journal.note("%s is %s: %s", held.Name, held.Status.Phase, held.Status.Message)
	l.setClusterVersion(t, later, configv1.CompletedUpdate)
	l.patch(t, condition, `{"spec":{"overrides":null}}`)
}

// setClusterVersion changes the cluster version operator's own object as in an update.
func (l *life) setClusterVersion(t *testing.T, version string, state configv1.UpdateState) {
	t.Helper()
	object := &configv1.ClusterVersion{}
	require.NoError(t, l.Client().Get(t.Context(), client.ObjectKey{Name: "version"}, object))
	object.Status.Desired.Version = version
	update := configv1.UpdateHistory{State: state, Version: version, Image: object.Status.Desired.Image, StartedTime: metav1.Now()}
	if state == configv1.CompletedUpdate {
		update.CompletionTime = &update.StartedTime
		object.Status.History = object.Status.History[1:] // the entry of the update that now is complete
	}
	object.Status.History = append([]configv1.UpdateHistory{update}, object.Status.History...)
	require.NoError(t, l.Client().Status().Update(t.Context(), object))
}

// stayDown changes much while no node takes the operator's pod.
func (l *life) stayDown(t *testing.T) {
	for _, name := range testbed.Nodes {
		l.patch(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"spec":{"unschedulable":true}}`)
	}
	l.Delete(t, l.operatorPod(t))
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	require.NoError(t, l.Client().Get(t.Context(), client.ObjectKeyFromObject(infrastructure), infrastructure))
	infrastructure.Status.PlatformStatus.AWS.ResourceTags = []configv1.AWSResourceTag{{Key: "team", Value: "harbour"}}
	require.NoError(t, l.Client().Status().Update(t.Context(), infrastructure))
	before := l.DriverPods(t)
	l.patchCustom(t, `{"spec":{"logLevel":"Debug"}}`)
	l.Delete(t, l.controller(t), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "efs-sc"}})
	waiting := l.newClaim(t, "waiting")

	for _, name := range testbed.Nodes {
		l.patch(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"spec":{"unschedulable":null}}`)
	}
	l.AwaitReplaced(t, before) // by pods with the log level
	l.Bound(t, waiting)
	cluster.Eventually(t, testbed.Limit, "StorageClass efs-sc", func(ctx context.Context) error {
		return l.Client().Get(ctx, client.ObjectKey{Name: "efs-sc"}, &storagev1.StorageClass{})
	})
	cluster.Eventually(t, testbed.Limit, "all access points to have the cluster's tags", func(context.Context) error {
		points := l.region.EFS.AccessPoints()
		if untagged := slices.IndexFunc(points, func(p efscloud.AccessPoint) bool { return p.Tags["team"] != "harbour" }); untagged >= 0 {
			return fmt.Errorf("%s has the tags %v", points[untagged].ID, points[untagged].Tags)
		}
		return nil
	})
}

// controller returns the Deployment of the driver.
func (l *life) controller(t *testing.T) *appsv1.Deployment {
	t.Helper()
	for _, object := range l.objects(t) {
		if object.GetKind() == "Deployment" {
			return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}}
		}
	}
	t.Fatal("the driver has no Deployment")
	return nil
}

// renewCertificates renews the certificates of the driver's metrics, and its key pairs for the cloud, and revokes the
// former key pairs.
func (l *life) renewCertificates(t *testing.T) {
	before := l.DriverPods(t)
	l.RenewCertificates(t)
	l.CheckMetrics(t) // with certificates of the new CA alone
	l.journal.note("with new certificates, %d of %d pods of the driver were replaced", l.replaced(t, before), len(before))
	secrets := &corev1.SecretList{}
	require.NoError(t, l.Client().List(t.Context(), secrets, client.HasLabels{cloudcredential.OwnerMark}))
	require.NotEmpty(t, secrets.Items, "there are no cloud credentials")
	for _, secret := range secrets.Items {
		former := string(secret.Data["aws_access_key_id"])
		require.NoError(t, l.Client().Delete(t.Context(), &secret))
		cluster.Eventually(t, testbed.Limit, "new credentials in Secret "+secret.Name, func(ctx context.Context) error {
			renewed := &corev1.Secret{}
			if err := l.Client().Get(ctx, client.ObjectKeyFromObject(&secret), renewed); err != nil {
				return err
			}
			if _, known := l.region.IAM.Find(string(renewed.Data["aws_access_key_id"])); !known || string(renewed.Data["aws_access_key_id"]) == former {
				return fmt.Errorf("it has the key pair %q", renewed.Data["aws_access_key_id"])
			}
			return nil
		})
		l.region.IAM.Remove(former)
	}
	l.AwaitReplaced(t, before) // they read their credentials only once
}

// replaced is how many of some pods are not there any more.
func (w *watch) replaced(t *testing.T, before []corev1.Pod) (gone int) {
	now := w.DriverPods(t)
	for _, old := range before {
		if !slices.ContainsFunc(now, func(pod corev1.Pod) bool { return pod.UID == old.UID }) {
			gone++
		}
	}
	return gone
}

// rotateKeys rotates the API server's certificate and the key of the tokens of service accounts, as OpenShift's
// documentation says: the pods are replaced before the former key is forgotten.
func (l *life) rotateKeys(t *testing.T) {
	require.NoError(t, l.RenewKeys())
	operator := l.operatorPod(t)
	l.Delete(t, operator)
	l.KillDriver(t)
	cluster.Eventually(t, testbed.Limit, "another pod of the operator to be ready", func(ctx context.Context) error {
		return journey.AwaitPod(ctx, l.Client(), client.ObjectKeyFromObject(l.operatorPod(t)))
	})
	require.NoError(t, l.ForgetKeys())
}

// replaceNode replaces the node that the operator is on. An administrator deletes the Node object and its pods, and
// another machine joins in its place.
func (l *life) replaceNode(t *testing.T) {
	name := l.operatorPod(t).Spec.NodeName
	at := slices.Index(testbed.Nodes, name)
	lost := l.writers[at]
	written := lost.Reports(t).Last().Records
	l.journal.note("%s, on which the operator and %s run, loses its power", name, lost.Name)
	require.NoError(t, l.StopNode(name))
	l.Delete(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	pods := &corev1.PodList{}
	require.NoError(t, l.Client().List(t.Context(), pods, client.MatchingFields{"spec.nodeName": name}))
	for _, pod := range pods.Items {
		require.NoError(t, client.IgnoreNotFound(l.Client().Delete(t.Context(), &pod, client.GracePeriodSeconds(0))))
	}
	require.NoError(t, l.StartNode(name))
	l.region.DescribeNode(t, l.Cluster, at)
	l.AwaitReady(t)
	l.writers = slices.Delete(l.writers, at, at+1)
	l.startWriter(t, lost.Name+"-again", name, l.claim)
	slices.SortFunc(l.writers, func(a, b testbed.RunningPod) int { return strings.Compare(a.Spec.NodeName, b.Spec.NodeName) })
	l.checkFile(t, l.writers[at], lost.Name, written)
}

// checkFile checks that a pod finds the records that another one has written.
func (l *life) checkFile(t *testing.T, pod testbed.RunningPod, file string, records int) {
	t.Helper()
	assert.GreaterOrEqualf(t, strings.Count(pod.Read(t, file), "\n"), records, "pod %s finds fewer records in %s than were reported", pod.Name, file)
}

// restore restores etcd from a backup, since which the driver was rolled out, the operator restarted, and a volume created.
func (l *life) restore(t *testing.T) {
	backup := filepath.Join(t.TempDir(), "etcd.db")
	require.NoError(t, l.BackUp(t.Context(), backup))
	then, err := l.custom(t.Context())
	require.NoError(t, err)
	before := l.DriverPods(t)
	l.patchCustom(t, `{"spec":{"logLevel":"Trace"}}`)
	l.Delete(t, l.operatorPod(t))
	l.AwaitReplaced(t, before)
	lost := l.newClaim(t, "lost")
	l.Bound(t, lost)

	require.NoError(t, l.Restore(t.Context(), backup))
	now, err := l.custom(t.Context())
	require.NoError(t, err)
	assert.Equal(t, then.Spec.LogLevel, now.Spec.LogLevel, "the log level")
	assert.NoError(t, l.Gone(lost)(t.Context()), "the claim that was created after the backup")
	// Only running processes show that the cluster works again: pods and leases in etcd are from the time of the backup.
	before = l.DriverPods(t)
	l.patchCustom(t, `{"spec":{"logLevel":"TraceAll"}}`)
	l.AwaitReplaced(t, before)
}

// applications are how often GitOps applies: once a minute in an hour.
const applications = 60

// applyOften applies the exported ClusterCSIDriver, with a change that has nothing to do with the driver each time.
func (l *life) applyOften(t *testing.T) {
	before, generations := l.DriverPods(t), l.generations(t)
	exported := &unstructured.Unstructured{}
	exported.SetGroupVersionKind(operatorv1.GroupVersion.WithKind("ClusterCSIDriver"))
	require.NoError(t, l.Client().Get(t.Context(), client.ObjectKey{Name: l.Driver.CSIName}, exported))
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(exported.Object, "metadata", field)
	}
	for i := range applications {
		level := []operatorv1.LogLevel{operatorv1.Normal, operatorv1.Debug}[i%2]
		require.NoError(t, unstructured.SetNestedField(exported.Object, string(level), "spec", "operatorLogLevel"))
		if err := l.Client().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(exported.DeepCopy()), client.FieldOwner("gitops"), client.ForceOwnership); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			l.awaitSettled(t)
		}
	}
	assert.Zerof(t, l.replaced(t, before), "pods of the driver that were replaced, of %d", len(before))
	assert.Equal(t, generations, l.generations(t), "the generations of the driver's Deployment and DaemonSet")
}

// generations are the generations of the driver's Deployments and DaemonSets.
func (l *life) generations(t *testing.T) (all []string) {
	t.Helper()
	for _, object := range l.objects(t) {
		if kind := object.GetKind(); kind != "Deployment" && kind != "DaemonSet" {
			continue
		}
		require.NoError(t, l.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object))
		all = append(all, fmt.Sprintf("%s: %d", object.GetName(), object.GetGeneration()))
	}
	return all
}

// beginRemoval deletes the ClusterCSIDriver. A condition names the pods that use volumes, and the driver stays.
func (l *life) beginRemoval(t *testing.T) {
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: l.Driver.CSIName}}
	require.NoError(t, l.Client().Delete(t.Context(), custom))
	cluster.Eventually(t, testbed.Limit, "a condition to name the pods", func(ctx context.Context) error {
		custom, err := l.custom(ctx)
		if err != nil {
			return err
		}
		for _, condition := range custom.Status.Conditions {
			if !slices.ContainsFunc(l.writers, func(pod testbed.RunningPod) bool { return !strings.Contains(condition.Message, pod.Name) }) {
				l.journal.note("%s is %s, %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
				return nil
			}
		}
		return fmt.Errorf("it has the conditions %v", custom.Status.Conditions)
	})
}

// remove ends the pods, so that the removal ends.
func (l *life) remove(t *testing.T) {
	for _, pod := range l.writers {
		l.Delete(t, pod.Pod)
	}
	l.writers = nil
	cluster.Eventually(t, testbed.Limit, "the ClusterCSIDriver to be gone", l.Gone(&operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: l.Driver.CSIName}}))
}

// isGone checks that the driver's objects are gone, and that the volume is left.
func (l *life) isGone(t *testing.T) {
	for _, object := range l.objects(t) {
		err := l.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object)
		assert.Truef(t, apierrors.IsNotFound(err), "%s %s: got the error %v, want it gone", object.GetKind(), object.GetName(), err)
	}
	cluster.Eventually(t, testbed.Limit, "the driver's pods to be gone", func(context.Context) error {
		if pods := l.DriverPods(t); len(pods) > 0 {
			return fmt.Errorf("there are %d", len(pods))
		}
		return nil
	})
	l.Bound(t, l.claim)
}

// comeBack installs the driver again. Pods find others' earlier data.
func (l *life) comeBack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Limit)
	defer cancel()
	require.NoError(t, journey.InstallDriver(ctx, l.Client(), l.Driver.CSIName))
	l.AwaitReady(t)
	for i, node := range testbed.Nodes {
		l.startWriter(t, fmt.Sprintf("late-writer-%d", i), node, l.claim)
		l.checkFile(t, l.writers[i], fmt.Sprintf("writer-%d", i), 1)
	}
}
