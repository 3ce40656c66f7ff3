package clusterstorage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/ports"
	"github.com/berth-csi/berth/lab/process"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/test/release"
)

// openshifts is OpenShift's cluster storage operator, the peer. It is built in a clone of its repository, with the modules
// that it brings: go build -mod=vendor ./cmd/cluster-storage-operator
var openshifts = flag.String("openshifts-operator", "", "benchmark: the program of OpenShift's cluster storage operator")

// observed is how long a settled operator is observed. An action of every minute shows twice.
const observed = 2 * time.Minute

// BenchmarkSettled measures the memory and the requests of a settled cluster storage operator on AWS: ours, and
// OpenShift's. The driver's operator only seems to run in both cases; the benchmark reports in its place.
func BenchmarkSettled(b *testing.B) {
	b.Run("berth", func(b *testing.B) {
		images := programs(b)
		w := newEnvironment(b, configv1.AWSPlatformType, cluster.Options{Images: images})
		const seeming = "registry.example.com/driver-operator:v1"
		w.install(release.Payload{Version: version, Images: map[string]string{clusterstorage.OperatorImageVariable: seeming}})
		w.reportAll()
		w.awaitSettled(version)
		operator := w.process(images[release.OperatorImage], "cluster-storage")
		w.measure(b, operator, cluster.Requests{User: w.account().User()})
	})
	b.Run("openshift", func(b *testing.B) {
		if *openshifts == "" {
			b.Skip("OpenShift's cluster storage operator is not measured: want -openshifts-operator=PROGRAM")
		}
		w := newEnvironment(b, configv1.AWSPlatformType, cluster.Options{})
		operator := w.startOpenShifts(*openshifts)
		w.reportAll()
		w.awaitHealthy()
		w.measure(b, operator, cluster.Requests{Agent: filepath.Base(*openshifts) + "/"})
	})
}

// reportAll writes the drivers' operators' reports of running drivers, once their ClusterCSIDrivers exist.
func (w *environment) reportAll() {
	w.t.Helper()
	for _, d := range w.drivers {
		cluster.Eventually(w.t, limit, "ClusterCSIDriver "+d.CSIName, func(ctx context.Context) error {
			custom := &operatorv1.ClusterCSIDriver{}
			if err := w.Client().Get(ctx, client.ObjectKey{Name: d.CSIName}, custom); err != nil {
				return err
			}
			custom.Status.Version = version
			now := metav1.Now()
			for name, status := range settled {
				custom.Status.Conditions = append(custom.Status.Conditions, operatorv1.OperatorCondition{
					Type: string(name), Status: operatorv1.ConditionStatus(status), Reason: "AsExpected", LastTransitionTime: now})
			}
			return w.Client().Status().Update(ctx, custom)
		})
	}
}

// process returns the process of the program with an argument, once it runs.
func (w *environment) process(program, argument string) (found process.Process) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "the process "+argument, func(context.Context) (err error) {
		found, err = process.Find(program, argument)
		return err
	})
	return found
}

// startOpenShifts starts OpenShift's operator, as an administrator, with the version and the images that its Deployment
// would have.
func (w *environment) startOpenShifts(program string) process.Process {
	w.t.Helper()
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: clusterstorage.Namespace}})
	config := filepath.Join(w.t.TempDir(), "config.yaml")
	text := fmt.Sprintf("apiVersion: operator.openshift.io/v1alpha1\nkind: GenericOperatorConfig\nservingInfo:\n  bindAddress: %s\n", ports.Address(w.t))
	require.NoError(w.t, os.WriteFile(config, []byte(text), 0o600))
	log, err := os.Create(filepath.Join(w.Logs(), "openshifts-operator.log"))
	require.NoError(w.t, err)
	w.t.Cleanup(func() { log.Close() })
	command := exec.Command(program, "start", "-v=2", "--kubeconfig="+w.Kubeconfig(), "--namespace="+clusterstorage.Namespace, "--config="+config)
	command.Stdout, command.Stderr = log, log
	command.Env = append(os.Environ(), "OPERATOR_IMAGE_VERSION="+version, "OPERAND_IMAGE_VERSION="+version, "POD_NAME="+clusterstorage.Name)
	for _, name := range []string{"AWS_EBS_DRIVER_OPERATOR", "AWS_EBS_DRIVER", "PROVISIONER", "ATTACHER", "RESIZER", "SNAPSHOTTER", "NODE_DRIVER_REGISTRAR",
		"LIVENESS_PROBE", "KUBE_RBAC_PROXY", "VOLUME_DATA_SOURCE_VALIDATOR", "TOOLS"} {
		command.Env = append(command.Env, name+"_IMAGE=registry.example.com/"+strings.ToLower(name)+":v1")
	}
	require.NoError(w.t, command.Start())
	w.t.Cleanup(func() {
		_ = command.Process.Kill() // it may have ended
		_ = command.Wait()
	})
	return process.Of(command.Process.Pid)
}

// awaitHealthy waits until the ClusterOperator has the conditions of storage that is as it should be.
func (w *environment) awaitHealthy() {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "storage to be healthy", func(ctx context.Context) error {
		operator, err := w.clusterOperator(ctx)
		if err != nil {
			return err
		}
		healthy := map[configv1.ClusterStatusConditionType]bool{}
		for _, c := range operator.Status.Conditions {
			if want, known := settled[c.Type]; known && c.Status != want {
				return fmt.Errorf("%s is %s (%s: %s), want %s", c.Type, c.Status, c.Reason, c.Message, want)
			}
			healthy[c.Type] = true
		}
		for name := range settled {
			if !healthy[name] {
				return fmt.Errorf("there is no condition %s", name)
			}
		}
		return nil
	})
}

// measure waits until an operator writes only its lease, and reports its requests and its memory.
func (w *environment) measure(b *testing.B, operator process.Process, by cluster.Requests) {
	b.Helper()
	began := time.Now()
	cluster.Eventually(w.t, limit, "the operator to rest", func(context.Context) error {
		requests, writes := w.count(by, time.Now().Add(-3*idlePeriod))
		if writes > 0 || time.Since(began) < 3*idlePeriod {
			return fmt.Errorf("in the last %s it sent %d requests, %d of them writes", 3*idlePeriod, requests, writes)
		}
		return nil
	})
	all, _ := w.count(by, time.Time{})
	require.NotZerof(b, all, "the audit log has no request of %+v", by)
	var requests, writes int
	for b.Loop() {
		since := time.Now()
		cluster.Eventually(w.t, limit, "the time to pass that is measured", func(context.Context) error {
			if time.Since(since) < observed {
				return errors.New("it has not passed")
			}
			return nil
		})
		r, c := w.count(by, since)
		requests, writes = requests+r, writes+c
	}
	minutes := observed.Minutes() * float64(b.N)
	now, peak, err := operator.Memory()
	require.NoError(b, err)
	anonymous, err := operator.Anonymous()
	require.NoError(b, err)
	b.ReportMetric(float64(requests)/minutes, "requests/min")
	b.ReportMetric(float64(writes)/minutes, "writes/min")
	b.ReportMetric(now, "MiB-rss")
	b.ReportMetric(peak, "MiB-rss-peak")
	b.ReportMetric(anonymous, "MiB-anonymous")
	b.ReportMetric(0, "ns/op")
}

// count returns the number of requests since a time, and how many of them were writes that are kept.
func (w *environment) count(by cluster.Requests, since time.Time) (requests, writes int) {
	w.t.Helper()
	for _, event := range w.AuditOf(w.t, by) {
		if event.Received.Before(since) {
			continue
		}
		requests++
		if !slices.Contains([]string{"get", "list", "watch"}, event.Verb) && !slices.Contains(notKept, event.Resource) {
			writes++
		}
	}
	return requests, writes
}
