// Package continuity shows that pods use their volumes undisturbed by events of a driver and its operator: each pod
// writes fifty times a second throughout. `make prove SUITE=continuity` prints the longest pause of each step, `make
// prove SUITE=adopt-drivers` the pauses while drivers are handed over to the cluster storage operator, `make prove
// SUITE=move-drivers` those while operators move to OLM v1 and back, and `make prove SUITE=life` the journal of a long
// life.
package continuity

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/drivers/manila"
	"github.com/berth-csi/berth/lab/aws"
	efscloud "github.com/berth-csi/berth/lab/aws/efs"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/release"
)

var all = flag.Bool("all-drivers", false, "run the drivers on testbeds, which takes many minutes")

func TestMain(m *testing.M) { cluster.Main(m) }

// needAll skips the test unless all drivers are to run.
func needAll(t *testing.T) {
	t.Helper()
	if !*all {
		t.Skip("without -all-drivers: see make prove SUITE=continuity")
	}
}

const fileSystem = "fs-0123456789abcdef0"

// TestEFS: two pods on two nodes share a volume.
func TestEFS(t *testing.T) {
	needAll(t)
	bed := testbed.Start(t, testbed.Options{Driver: efs.Driver, Cloud: efsCloud(t)})
	claim := bed.Claim(t, testbed.Claim{Namespace: bed.Namespace(t), Name: "files", Class: createClass(t, bed)})
	watchDriver(t, bed, claim, claim)
}

// efsCloud starts a region of AWS with the file system.
func efsCloud(t testing.TB) testbed.Cloud {
	t.Helper()
	region := testbed.StartAWS(t, efs.Driver, aws.Options{Region: "sea-west-1"})
	files := testbed.AddFileSystems(t, region, efscloud.FileSystem{ID: fileSystem})
	cloud := region.Options()
	files.Serve(&cloud)
	return cloud
}

// createClass creates a StorageClass for volumes in the file system, and returns its name.
func createClass(t testing.TB, bed *testbed.Testbed) string {
	t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Provisioner: efs.Driver.CSIName,
		Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": fileSystem, "directoryPerms": "700"},
	}
	require.NoError(t, bed.Client().Create(t.Context(), class))
	return class.Name
}

// TestEBS: a pod on each node has a volume of its own, which is attached to the node.
func TestEBS(t *testing.T) {
	needAll(t)
	bed := testbed.StartEBS(t, ebs.Driver, testbed.EBSOptions{})
	namespace := bed.Namespace(t)
	var claims []*corev1.PersistentVolumeClaim
	for i := range testbed.Nodes {
		claims = append(claims, bed.Claim(t, testbed.Claim{Namespace: namespace, Name: fmt.Sprintf("data-%d", i), Class: "gp3-csi", Mode: corev1.ReadWriteOnce}))
	}
	watchDriver(t, bed.Testbed, claims...)
}

// TestManila: two pods on two nodes share a volume.
func TestManila(t *testing.T) {
	needAll(t)
	cluster.NeedRealNodes(t)
	cloud := testbed.StartOpenStack(t, "default")
	bed := testbed.Start(t, testbed.Options{Driver: manila.Driver, Cloud: cloud.Options()})
	claim := bed.Claim(t, testbed.Claim{Namespace: bed.Namespace(t), Name: "files", Class: "csi-manila-default"})
	watchDriver(t, bed, claim, claim)
}

// watchDriver runs a pod on each node, with a claim for each, and takes all steps.
func watchDriver(t *testing.T, bed *testbed.Testbed, claims ...*corev1.PersistentVolumeClaim) {
	w := &watch{Testbed: bed, accounts: ofOLM(bed.Driver)}
	for i, node := range testbed.Nodes {
		w.startWriter(t, fmt.Sprintf("writer-%d", i), node, claims[i])
	}
	w.run(t, []step{
		{what: "the driver's pods are killed", do: w.KillDriver},
		{what: "the driver's pods are replaced", do: w.rollOut},
		{what: "the operator is updated to 1.0.1", do: func(t *testing.T) {
			w.update(t, release.Build(t, w.Driver).Update(t))
			w.awaitInstalled(t, "1.0.1")
			w.AwaitReady(t)
		}},
		{what: "the operator is removed, and installed again", do: w.reinstall},
	})
}

// watch is a driver from the view of pods.
type watch struct {
	*testbed.Testbed
	writers []testbed.RunningPod
	journal journal
	// accounts are the accounts whose writes count as the operator's.
	accounts []string
}

// ofOLM is the account of a driver's operator that OLM has installed.
func ofOLM(driver drivers.Driver) []string {
	return []string{fmt.Sprintf("system:serviceaccount:%s:%s", cluster.OperatorNamespace, driver.Operator.Name)}
}

// startWriter runs a pod that writes to a file of its own name.
func (w *watch) startWriter(t *testing.T, name, node string, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	w.writers = append(w.writers, w.Run(t, testbed.Pod{Name: name, Node: node, Claim: claim, KeepsWriting: name}))
}

// step is something that happens to a driver.
type step struct {
	what string
	do   func(*testing.T)
	// holds, which may be nil, is an additional check after this step.
	holds func(*testing.T)
}

// run takes steps until one fails. After each, the pods that ran before the step and still run must have noticed
// nothing: no error, no lost record, no replaced mount.
func (w *watch) run(t *testing.T, steps []step) {
	defer func() { t.Logf("\n%s", w.journal.table(w.writes(t))) }()
	for _, step := range steps {
		mounts := w.mounts(t)
		w.journal.begin(step.what)
		passed := t.Run(step.what, func(t *testing.T) {
			step.do(t)
			if step.holds != nil {
				step.holds(t)
			}
			w.awaitRecords(t)
			for _, pod := range w.writers {
				reports := pod.Reports(t)
				assert.NoErrorf(t, reports.Last().Err(), "pod %s", pod.Name)
				w.journal.paused(reports.LongestPause(w.journal.began()))
			}
			for pod, now := range w.mounts(t) {
				if before, was := mounts[pod]; now == "" || was && now != before {
					t.Errorf("the mount of the volume of pod %s was\n%q, and is\n%q", pod.name, before, now)
				}
			}
		})
		w.journal.end()
		if !passed {
			return // the others would only wait
		}
	}
}

// awaitRecords waits until each pod has written something since, and has reported it.
func (w *watch) awaitRecords(t *testing.T) {
	now := time.Now()
	for _, pod := range w.writers {
		cluster.Eventually(t, testbed.Limit, "pod "+pod.Name+" to go on writing", func(context.Context) error {
			if reports := pod.Reports(t); len(reports) == 0 || !reports.Last().At.After(now.Add(time.Second)) {
				return fmt.Errorf("it has made %d reports", len(reports))
			}
			return nil
		})
	}
}

// podID identifies a pod.
type podID struct {
	name string
	uid  types.UID
}

// mounts are the volumes' mounts on the nodes.
func (w *watch) mounts(t *testing.T) map[podID]string {
	lines := map[podID]string{}
	for _, pod := range w.writers {
		lines[podID{pod.Name, pod.UID}] = pod.Mount(t)
	}
	return lines
}

// writes are the operator's writes so far.
func (w *watch) writes(t *testing.T) (all []cluster.AuditEvent) {
	for _, event := range w.Audit(t) {
		if slices.Contains(w.accounts, event.User) && isWrite(event) {
			all = append(all, event)
		}
	}
	return all
}

// objects are all objects of the driver.
func (w *watch) objects(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	manifests, err := w.Driver.Operand(drivers.Values{Namespace: w.DriverNamespace(), Image: func(env string) string { return env }})
	require.NoError(t, err)
	for _, m := range manifests {
		all = append(all, m.Object)
	}
	return all
}

// isWrite says whether a request has changed the cluster. A review is a creation that stores nothing.
func isWrite(event cluster.AuditEvent) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, event.Verb) &&
		event.Code < http.StatusBadRequest && !strings.HasSuffix(event.Resource, "reviews")
}

// rollOut changes an argument of all containers of the driver.
func (w *watch) rollOut(t *testing.T) {
	before := w.DriverPods(t)
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.Driver.CSIName}}
	require.NoError(t, w.Client().Patch(t.Context(), custom, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"logLevel":"Debug"}}`))))
	w.AwaitReplaced(t, before)
}

// update lets the Subscription have a catalog with all versions of a release.
func (w *watch) update(t *testing.T, r release.Release) {
	t.Helper()
	catalog := fmt.Sprintf("berth-%d", len(r.Bundles))
	w.Serve(t, catalog, r.Catalog)
	subscription := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.OperatorNamespace, Name: w.Driver.Package.Name}}
	require.NoError(t, w.Client().Patch(t.Context(), subscription, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"source":%q}}`, catalog))))
}

// csvOf returns the ClusterServiceVersion of a version, as OLM names it.
func (w *watch) csvOf(version string) *v1alpha1.ClusterServiceVersion {
	return &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.OperatorNamespace, Name: w.Driver.Package.Name + ".v" + version}}
}

// awaitInstalled waits until OLM has installed a version, and no other one is left.
func (w *watch) awaitInstalled(t *testing.T, version string) {
	t.Helper()
	w.awaitVersion(t, version, func(csv *v1alpha1.ClusterServiceVersion) bool { return csv.Status.Phase == v1alpha1.CSVPhaseSucceeded })
	cluster.Eventually(t, testbed.Limit, "OLM to remove earlier versions", func(ctx context.Context) error {
		all := &v1alpha1.ClusterServiceVersionList{}
		if err := w.Client().List(ctx, all, client.InNamespace(cluster.OperatorNamespace)); err != nil {
			return err
		}
		if len(all.Items) != 1 {
			return fmt.Errorf("there are %d ClusterServiceVersions, want 1", len(all.Items))
		}
		return nil
	})
}

// awaitVersion waits until the ClusterServiceVersion of a version is as it should be.
func (w *watch) awaitVersion(t *testing.T, version string, is func(*v1alpha1.ClusterServiceVersion) bool) *v1alpha1.ClusterServiceVersion {
	t.Helper()
	csv := w.csvOf(version)
	cluster.Eventually(t, testbed.Limit, "ClusterServiceVersion "+csv.Name, func(ctx context.Context) error {
		if err := w.Client().Get(ctx, client.ObjectKeyFromObject(csv), csv); err != nil {
			return err
		}
		if !is(csv) {
			return fmt.Errorf("it is %s, %s: %s", csv.Status.Phase, csv.Status.Reason, csv.Status.Message)
		}
		return nil
	})
	return csv
}

// reinstall removes OLM's installation, as an administrator does, and subscribes again.
func (w *watch) reinstall(t *testing.T) {
	subscription := &v1alpha1.Subscription{}
	key := client.ObjectKey{Namespace: cluster.OperatorNamespace, Name: w.Driver.Package.Name}
	require.NoError(t, w.Client().Get(t.Context(), key, subscription))
	w.Delete(t, subscription)
	all := &v1alpha1.ClusterServiceVersionList{}
	if err := w.Client().List(t.Context(), all, client.InNamespace(key.Namespace), client.HasLabels{"operators.coreos.com/" + key.Name + "." + key.Namespace}); err != nil {
		t.Fatal(err)
	}
	require.NotEmpty(t, all.Items, "no ClusterServiceVersion has the package's label")
	for _, csv := range all.Items {
		w.Delete(t, &csv)
	}
	cluster.Eventually(t, testbed.Limit, "OLM to delete the InstallPlans", func(ctx context.Context) error {
		plans := &v1alpha1.InstallPlanList{}
		if err := w.Client().List(ctx, plans, client.InNamespace(key.Namespace)); err != nil {
			return err
		}
		if len(plans.Items) > 0 {
			return fmt.Errorf("there are %d", len(plans.Items))
		}
		return nil
	})
	cluster.Eventually(t, testbed.Limit, "the operator's pods to be gone", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := w.Client().List(ctx, pods, client.InNamespace(key.Namespace)); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if strings.HasPrefix(pod.Name, w.Driver.Operator.Name+"-") {
				return fmt.Errorf("pod %s is there", pod.Name)
			}
		}
		return nil
	})
	subscription.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	subscription.Status = v1alpha1.SubscriptionStatus{}
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Limit)
	defer cancel()
	_, err := journey.Subscribe(ctx, w.Client(), subscription)
	require.NoError(t, err)
	w.AwaitReady(t)
}
