package scale

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/process"
	"github.com/berth-csi/berth/test/journey"
)

// BenchmarkLargeCluster measures the operator in a cluster of 5,000 nodes with 150,000 pods and 20,000 volumes: its
// requests and its memory while it installs its driver, while nothing changes, and while the removal of the driver
// waits for a pod. Processes with only the same watches, without trimming, run for comparison.
func BenchmarkLargeCluster(b *testing.B) {
	a := newArena(b, unlimited)
	nodes, pods, volumes := 5000, 150_000, 20_000
	if testing.Short() {
		nodes, pods, volumes = nodes/20, pods/20, volumes/20
	}
	a.grow(nodes, pods, volumes)
	for _, name := range []string{"efs", "ebs"} {
		b.Run(name, func(b *testing.B) { a.in(b).large(name) })
	}
}

// grow creates nodes, pods on them, and volumes of a driver that is not measured. Nothing runs the pods.
func (a *arena) grow(nodes, pods, volumes int) {
	a.Helper()
	a.say("creating %d nodes, %d volumes and claims, and %d pods", nodes, volumes, pods)
	const spread = 50 // namespaces
	var namespaces []string
	for range spread {
		namespaces = append(namespaces, a.Namespace(a))
	}
	a.atOnce(nodes, func(ctx context.Context, i int) error {
		// Without the label for the operating system, DaemonSets leave the node alone.
		return a.client.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOf(i)}, Spec: corev1.NodeSpec{Unschedulable: true}})
	})
	a.atOnce(volumes, func(ctx context.Context, i int) error {
		return a.bound(ctx, "other.csi.example.com", namespaces[i%spread], fmt.Sprintf("other-%d", i))
	})
	a.atOnce(pods, func(ctx context.Context, i int) error {
		claim := "" // or the pod has no volume
		if i < volumes {
			claim = fmt.Sprintf("other-%d", i)
		}
		return a.client.Create(ctx, podOn(nodeOf(i%nodes), namespaces[i%spread], fmt.Sprintf("other-%d", i), claim))
	})
}

func nodeOf(i int) string { return fmt.Sprintf("large-%d", i) }

// bound creates a volume of a driver and the claim that it is for.
func (a *arena) bound(ctx context.Context, driver, namespace, name string) error {
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if err := a.client.Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
		},
	}); err != nil {
		return err
	}
	return a.client.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size},
			StorageClassName: new(""), VolumeName: namespace + "-" + name},
	})
}

// podOn returns a pod on a node, with a claim unless that is "". It stays although nothing runs the node.
func podOn(node, namespace, name, claim string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "other", "pod-template-hash": "6c9f7d5b8"}},
		Spec: corev1.PodSpec{NodeName: node, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, Containers: []corev1.Container{{Name: "main", Image: "registry.example/team/other:v1.2.3",
			Env: []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}}, Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}},
	}
	if claim != "" {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	return pod
}

// large measures the operator of one driver, from its installation to the end of its removal.
func (a *arena) large(name string) {
	a.Helper()
	if name != a.driver.Name {
		driver, err := registry.Get(name)
		if err != nil {
			a.Fatal(err)
		}
		a.driver = driver
		a.install()
	}
	namespace := a.Namespace(a)
	if err := a.bound(a.Context(), a.driver.CSIName, namespace, "data"); err != nil {
		a.Fatal(err)
	}
	span := time.Duration(few(240, 20)) * time.Second

	began := time.Now()
	a.start()
	if err := journey.InstallDriver(a.Context(), a.client, a.driver.CSIName); err != nil {
		a.Fatal(err)
	}
	operator := a.process()
	a.awaitIdle(operator)
	a.report("installing", operator, cluster.Requests{User: a.user()}, began)
	a.during("settled", span, operator)
	watches := a.watches(began)

	a.await("the claim to be bound", func(ctx context.Context) error { // after all earlier ones
		claim := &corev1.PersistentVolumeClaim{}
		if err := a.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "data"}, claim); err != nil {
			return err
		}
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", claim.Status.Phase)
		}
		return nil
	})
	user := podOn(nodeOf(0), namespace, "user", "data")
	a.create(user)
	user.Status.Phase, user.Status.StartTime = corev1.PodRunning, &user.CreationTimestamp // as its kubelet reports
	if err := a.client.Status().Update(a.Context(), user); err != nil {
		a.Fatal(err)
	}
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: a.driver.CSIName}}
	if err := a.client.Delete(a.Context(), custom); err != nil {
		a.Fatal(err)
	}
	a.await("the removal to wait for the pod", func(ctx context.Context) error {
		if err := a.client.Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
			return err
		}
		if slices.ContainsFunc(custom.Status.Conditions, func(c operatorv1.OperatorCondition) bool {
			return strings.Contains(c.Message, namespace+"/"+user.Name)
		}) {
			return nil
		}
		return errors.New("no condition names it")
	})
	a.during("removing", span, operator)
	ended := time.Now()
	if err := a.client.Delete(a.Context(), user, client.GracePeriodSeconds(0)); err != nil {
		a.Fatal(err)
	}
	a.await("the driver to be removed", a.Gone(custom))
	a.ReportMetric(time.Since(ended).Seconds(), "s-removal")
	a.stop()
	a.floor(watches)
	a.ReportMetric(0, "ns/op")
}

// during reports the operator's requests and memory in a time.
func (a *arena) during(phase string, span time.Duration, p process.Process) {
	a.Helper()
	began := time.Now()
	a.await("the time to pass that is measured", func(context.Context) error {
		if time.Since(began) < span {
			return errors.New("it has not passed")
		}
		return nil
	})
	a.report(phase, p, cluster.Requests{User: a.user()}, began)
}

// report reports the memory of a process, and its requests since a time.
func (a *arena) report(phase string, p process.Process, by cluster.Requests, since time.Time) {
	a.Helper()
	seconds := time.Since(since).Seconds()
	requests, writes := 0, 0
	for _, event := range a.AuditOf(a, by) {
		if event.Received.Before(since) {
			continue
		}
		requests++
		if isWrite(event) {
			writes++
		}
	}
	resident, peak := a.memory(p)
	a.say("%s: %d requests and %d writes in %.0f s, %.0f MiB, at most %.0f", phase, requests, writes, seconds, resident, peak)
	a.ReportMetric(float64(requests)/seconds, "requests/s-"+phase)
	a.ReportMetric(float64(writes), "writes-"+phase)
	a.ReportMetric(resident, "MiB-rss-"+phase)
	a.ReportMetric(peak, "MiB-peak-"+phase)
}

// watches returns the addresses that the operator has watched since a time, without parts that depend on the time.
func (a *arena) watches(since time.Time) []string {
	a.Helper()
	found := map[string]bool{}
	for _, event := range a.AuditOf(a, cluster.Requests{User: a.user()}) {
		if event.Verb != "watch" || event.Received.Before(since) {
			continue
		}
		address, err := url.Parse(event.URI)
		if err != nil {
			a.Fatal(err)
		}
		query := url.Values{}
		for _, selector := range []string{"fieldSelector", "labelSelector"} {
			if value := address.Query().Get(selector); value != "" {
				query.Set(selector, value)
			}
		}
		address.RawQuery = query.Encode()
		found[address.String()] = true
	}
	if len(found) == 0 {
		a.Fatal("the operator watches nothing")
	}
	return slices.Sorted(maps.Keys(found))
}

// floor reports the cost of a process that only watches: the operator's objects, and all objects of their kinds.
func (a *arena) floor(watches []string) {
	a.Helper()
	programs, err := tools.Programs(a.Context(), "./test/scale/floor")
	if err != nil {
		a.Fatal(err)
	}
	for _, of := range []struct {
		phase   string
		targets []string
	}{{"floor", watches}, {"floor-kinds", kindsOf(watches)}} {
		began := time.Now()
		command := exec.CommandContext(a.Context(), programs.Path("floor"), append([]string{a.Kubeconfig()}, of.targets...)...)
		in, err := command.StdinPipe()
		if err != nil {
			a.Fatal(err)
		}
		out, err := command.StdoutPipe()
		if err != nil {
			a.Fatal(err)
		}
		if err := command.Start(); err != nil {
			a.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			a.Fatalf("the process did not fill its caches: %v", err)
		}
		p := process.Of(command.Process.Pid)
		a.awaitIdle(p)
		a.report(of.phase, p, cluster.Requests{Agent: "floor/"}, began)
		in.Close()
		if err := command.Wait(); err != nil {
			a.Fatal(err)
		}
	}
}

// kindsOf returns the addresses of all objects of the kinds that are watched.
func kindsOf(watches []string) []string {
	kinds := map[string]bool{}
	for _, watch := range watches {
		path, _, _ := strings.Cut(watch, "?")
		if before, after, namespaced := strings.Cut(path, "/namespaces/"); namespaced {
			if _, resource, inNamespace := strings.Cut(after, "/"); inNamespace {
				path = before + "/" + resource
			}
		}
		kinds[path] = true
	}
	return slices.Sorted(maps.Keys(kinds))
}
