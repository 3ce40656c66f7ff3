// Package continuity shows that pods use their volumes without noticing what happens to a driver and its operator: each
// pod writes fifty times a second all the while. `make prove SUITE=continuity` prints the longest pause of each step.
package continuity

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/drivers/manila"
	"github.com/berth-csi/berth/test/aws"
	"github.com/berth-csi/berth/test/cluster"
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
	region := testbed.StartAWS(t, efs.Driver, aws.Options{Region: "sea-west-1"})
	files := testbed.AddFileSystems(t, region, fileSystem)
	cloud := region.Options()
	files.Serve(&cloud)
	bed := testbed.Start(t, testbed.Options{Driver: efs.Driver, Cloud: cloud})
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Provisioner: efs.Driver.CSIName,
		Parameters: map[string]string{"provisioningMode": "efs-ap", "fileSystemId": fileSystem, "directoryPerms": "700"},
	}
	if err := bed.Client().Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	claim := bed.Claim(t, testbed.Claim{Namespace: bed.Namespace(t), Name: "files", Class: class.Name})
	watchDriver(t, bed, claim, claim)
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
	w := &watch{Testbed: bed}
	for i, node := range testbed.Nodes {
		name := fmt.Sprintf("writer-%d", i)
		w.writers = append(w.writers, bed.Run(t, testbed.Pod{Name: name, Node: node, Claim: claims[i], KeepsWriting: name}))
	}
	w.run(t, []step{
		{"the driver's pods are killed", w.KillDriver},
		{"the driver's pods are replaced", w.rollOut},
		{"the operator is updated to 1.0.1", w.update},
		{"the operator is removed, and installed again", w.reinstall},
	})
}

// watch is what pods see of a driver.
type watch struct {
	*testbed.Testbed
	writers []testbed.RunningPod
}

// step is something that happens to a driver.
type step struct {
	what string
	do   func(*testing.T)
}

// run takes steps, and fails if a pod notices any of them: by an error, a lost record, or a mount that is made anew.
func (w *watch) run(t *testing.T, steps []step) {
	mounts := w.mounts(t)
	if slices.Contains(mounts, "") {
		t.Fatalf("the mounts of the volumes on the nodes are %q, want one for each pod", mounts)
	}
	var table strings.Builder
	columns := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "STEP\tTOOK\tRECORDS\tLONGEST PAUSE")
	for _, step := range steps {
		began, before := time.Now(), w.records(t)
		t.Run(step.what, step.do)
		w.awaitRecords(t)
		pause := time.Duration(0)
		for _, pod := range w.writers {
			reports := pod.Reports(t)
			if err := reports.Last().Err(); err != nil {
				t.Errorf("%s: pod %s: %v", step.what, pod.Name, err)
			}
			pause = max(pause, reports.LongestPause(began))
		}
		fmt.Fprintf(columns, "%s\t%.0f s\t%d\t%v\n", step.what, time.Since(began).Seconds(), w.records(t)-before, pause.Round(time.Millisecond))
		if now := w.mounts(t); !slices.Equal(now, mounts) {
			t.Errorf("%s: the volumes' mounts were\n%q, and are\n%q", step.what, mounts, now)
		}
	}
	columns.Flush()
	t.Logf("\n%s", table.String())
}

// records is how many records all pods have written.
func (w *watch) records(t *testing.T) (sum int) {
	for _, pod := range w.writers {
		if reports := pod.Reports(t); len(reports) > 0 {
			sum += reports.Last().Records
		}
	}
	return sum
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

// mounts are the volumes' mounts on the nodes, one for each pod.
func (w *watch) mounts(t *testing.T) (lines []string) {
	for _, pod := range w.writers {
		lines = append(lines, pod.Mount(t))
	}
	return lines
}

// rollOut changes an argument of all containers of the driver.
func (w *watch) rollOut(t *testing.T) {
	before := w.DriverPods(t)
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.Driver.CSIName}}
	if err := w.Client().Patch(t.Context(), custom, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"logLevel":"Debug"}}`))); err != nil {
		t.Fatal(err)
	}
	w.AwaitReplaced(t, before)
}

// update has OLM update the operator from a catalog that has a later version.
func (w *watch) update(t *testing.T) {
	const later = "berth-later"
	w.Serve(t, later, release.Build(t, w.Driver).Update(t).Catalog)
	subscription := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.OperatorNamespace, Name: w.Driver.Package.Name}}
	if err := w.Client().Patch(t.Context(), subscription, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"source":%q}}`, later))); err != nil {
		t.Fatal(err)
	}
	version := w.Driver.Package.Name + ".v1.0.1"
	cluster.Eventually(t, testbed.Limit, "OLM to install "+version, func(ctx context.Context) error {
		csv := &v1alpha1.ClusterServiceVersion{}
		if err := w.Client().Get(ctx, client.ObjectKey{Namespace: cluster.OperatorNamespace, Name: version}, csv); err != nil {
			return err
		}
		if csv.Status.Phase != v1alpha1.CSVPhaseSucceeded {
			return fmt.Errorf("it is %s: %s", csv.Status.Phase, csv.Status.Message)
		}
		return nil
	})
	w.AwaitReady(t)
}

// reinstall removes what OLM has installed, as an administrator does, and subscribes again.
func (w *watch) reinstall(t *testing.T) {
	subscription := &v1alpha1.Subscription{}
	key := client.ObjectKey{Namespace: cluster.OperatorNamespace, Name: w.Driver.Package.Name}
	if err := w.Client().Get(t.Context(), key, subscription); err != nil {
		t.Fatal(err)
	}
	csv := &v1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: subscription.Status.InstalledCSV}}
	w.Delete(t, subscription, csv)
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
	if _, err := journey.Subscribe(ctx, w.Client(), subscription); err != nil {
		t.Fatal(err)
	}
	w.AwaitReady(t)
}
