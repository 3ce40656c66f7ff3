package csimigration_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/csimigration"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/restarts"
)

var all = flag.Bool("all-migrations", false, "run CSI migration with real drivers on real nodes, which takes many minutes: see make prove SUITE=csi-migration")

// Nodes of a testbed here. The driver's controller has one to itself, as it has on OpenShift's control plane.
var (
	workers    = []string{cluster.RealNode(0), cluster.RealNode(1)}
	controller = cluster.RealNode(2)
)

// rebootLimit is how long anything may take where machines are rebooted one after the other.
const rebootLimit = 10 * time.Minute

const (
	masterLabel = "node-role.kubernetes.io/master"
	workerLabel = "node-role.kubernetes.io/worker"
)

// volumeScene is a scene in a simulated cloud, with the real driver, and a StatefulSet with a volume of the in-tree plugin.
type volumeScene struct {
	*scene
	bed       *testbed.Testbed
	cloud     cloud
	machines  *machines
	namespace string
	// written is the content of a file on the volume.
	written string
}

// file is on the volume, and pod is the StatefulSet's.
const (
	file = "log"
	pod  = "db-0"
)

// TestStatefulSetOnRealNodes: a StatefulSet with a volume of an in-tree plugin survives off, on, off and on, with failures
// of nodes and of all else. Real are the driver with its sidecars, the kubelets of nodes that are on, the Attach/Detach
// controller, and their translation. Nodes that are off are played: see machines.
func TestStatefulSetOnRealNodes(t *testing.T) {
	if !*all {
		t.Skip("without -all-migrations: see make prove SUITE=csi-migration")
	}
	cluster.NeedRealNodes(t)
	testbed.Nodes = append(slices.Clone(workers), controller)
	t.Run("ebs", func(t *testing.T) { testStatefulSet(t, startAWSCloud(t)) })
	t.Run("cinder", func(t *testing.T) { testStatefulSet(t, startOpenStackCloud(t)) })
}

func testStatefulSet(t *testing.T, in cloud) {
	s := newVolumeScene(t, in)
	s.createStatefulSet()
	s.mustUse(inTree)
	s.failNode(inTree)

	// On, past a paused pool, a failing revision, and a node that joins without the driver.
	s.patch(pool("worker"), `{"spec":{"paused":true}}`)
	s.mustFail(s.do(enable, migrate.Options{}, nil), "MachineConfigPool worker is paused")
	s.patch(pool("worker"), `{"spec":{"paused":false}}`)
	s.settled()
	before := len(s.Drained())
	s.Fail("kube-controller-manager", true)
	s.mustWait(enable, "has failed on")
	assert.Empty(t, s.Drained()[before:], "drained before the control plane is on")
	s.mustUse(inTree)
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "joined", Labels: map[string]string{workerLabel: ""}}})
	s.Fail("kube-controller-manager", false)
	s.mustWait(enable, "it is not in the CSINode of joined")
	assert.Empty(t, s.Drained()[before:], "drained while a node has no driver")
	s.must(restarts.Register(t.Context(), s.Cluster, in.driver().CSIName, "joined"))
	s.together(enable, enable)
	s.mustSwitch(enable)
	s.mustUse(in.driver().CSIName)
	s.failNode(in.driver().CSIName)

	s.mustSwitch(disable)
	s.mustUse(inTree)
	s.mustSwitch(enable)
	s.mustUse(in.driver().CSIName)
	s.checkChanges()
}

func newVolumeScene(t *testing.T, in cloud) *volumeScene {
	s := &volumeScene{cloud: in}
	var played *machines // nil while all machines are real
	options := in.options()
	in.setRoot(func(node string) (string, error) { return played.root(node) })
	s.bed = testbed.Start(t, testbed.Options{Driver: in.driver(), Cloud: options})
	s.scene = &scene{Cluster: s.bed.Cluster, t: t, limit: rebootLimit}
	played = playMachines(t, s.Cluster, in, workers)
	s.machines = played
	s.namespace = s.Namespace(t)
	s.moveControllers()
	s.must(restarts.Install(t.Context(), s.Cluster))
	s.must(restarts.Propose(t.Context(), s.Cluster))
	s.setFeatureSet("")
	s.must(restarts.SetVersion(t.Context(), s.Cluster, "4.7.0"))
	s.play(restarts.PlayWith(s.Cluster, s.machines.reboot))
	s.Keep(controller) // the driver's PodDisruptionBudget wants another node for its controller
	nodes := &corev1.NodeList{}
	s.must(s.Client().List(t.Context(), nodes))
	for _, n := range nodes.Items {
		s.must(restarts.Register(t.Context(), s.Cluster, in.driver().CSIName, n.Name))
	}
	s.settled()
	s.is(false)
	return s
}

// moveControllers gives the nodes their roles, and moves all pods except DaemonSets' to the node for controllers.
// Process nodes are masters without pods.
func (s *volumeScene) moveControllers() {
	s.t.Helper()
	nodes := &corev1.NodeList{}
	s.must(s.Client().List(s.t.Context(), nodes))
	for i := range nodes.Items {
		switch n := &nodes.Items[i]; {
		case slices.Contains(workers, n.Name):
			s.patch(n, fmt.Sprintf(`{"metadata":{"labels":{%q:null}},"spec":{"unschedulable":true}}`, masterLabel))
		case n.Name == controller:
			s.patch(n, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, workerLabel))
		default:
			s.patch(n, fmt.Sprintf(`{"metadata":{"labels":{%q:""}},"spec":{"taints":[{"key":"process-node","effect":"NoSchedule"}]}}`, masterLabel))
		}
	}
	for _, node := range workers {
		pods := &corev1.PodList{}
		s.must(s.Client().List(s.t.Context(), pods, client.MatchingFields{"spec.nodeName": node}))
		for i := range pods.Items {
			if owner := metav1.GetControllerOf(&pods.Items[i]); owner != nil && owner.Kind != "DaemonSet" {
				s.bed.Delete(s.t, &pods.Items[i])
			}
		}
	}
	s.bed.AwaitReady(s.t)
}

// createStatefulSet creates a StatefulSet whose claim is bound to a volume of the in-tree plugin.
func (s *volumeScene) createStatefulSet() {
	s.t.Helper()
	source, volumeLabels, err := s.cloud.create(s.t.Context())
	s.must(err)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	s.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "in-tree", Labels: volumeLabels}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, PersistentVolumeSource: source,
	}})
	claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new(""), AccessModes: modes, VolumeName: "in-tree", Resources: corev1.VolumeResourceRequirements{Requests: size}}}
	labels := map[string]string{"app": "db"}
	s.create(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			NodeSelector: map[string]string{workerLabel: ""}, TerminationGracePeriodSeconds: new(int64(5)),
			Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(0))}},
			Containers:  []corev1.Container{{Name: "db", Image: journey.UserImage, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: journey.DataFolder}}}},
		}},
	}})
}

// mustUse waits until the pod runs, and its volume is attached to its node by the in-tree plugin, or by the driver,
// alone. Earlier data must be there. Then it writes more.
func (s *volumeScene) mustUse(by string) {
	s.t.Helper()
	user := s.awaitUser(by)
	var read func() string
	var write func(string)
	if by == inTree {
		path := filepath.Join(s.machines.of(user.Spec.NodeName).mountPoint(), file)
		read = func() string {
			content, err := os.ReadFile(path)
			if s.written != "" || !errors.Is(err, os.ErrNotExist) {
				s.must(err)
			}
			return string(content)
		}
		write = func(content string) { s.must(os.WriteFile(path, []byte(content), 0o644)) }
	} else {
		running := s.bed.AwaitPod(s.t, user)
		read = func() string { return running.Read(s.t, file) }
		write = func(content string) { running.Write(s.t, file, content) }
	}
	require.EqualValues(s.t, s.written, read(), "the volume has")
	s.written += fmt.Sprintf("written on %s by %s\n", user.Spec.NodeName, by)
	write(s.written)
	s.t.Logf("the pod runs on %s; its volume is attached by %s", user.Spec.NodeName, by)
	s.mustRefuse(by, user.Spec.NodeName)
}

func (s *volumeScene) awaitUser(by string) *corev1.Pod {
	s.t.Helper()
	user := &corev1.Pod{}
	cluster.Eventually(s.t, s.limit, "the pod to use its volume by "+by, func(ctx context.Context) error {
		if err := s.Client().Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: pod}, user); err != nil {
			return err
		}
		if user.Status.Phase != corev1.PodRunning || user.DeletionTimestamp != nil {
			return fmt.Errorf("the pod is %s on node %q, deleted %v", user.Status.Phase, user.Spec.NodeName, user.DeletionTimestamp)
		}
		if isPlayed := s.machines.of(user.Spec.NodeName) != nil; isPlayed != (by == inTree) {
			return fmt.Errorf("it is on %s, whose machine is played: %t", user.Spec.NodeName, isPlayed)
		}
		if nodes := s.cloud.attached(); !slices.Equal(nodes, []string{user.Spec.NodeName}) {
			return fmt.Errorf("the volume is attached to %q, and the pod is on %s", nodes, user.Spec.NodeName)
		}
		attachments := &storagev1.VolumeAttachmentList{}
		if err := s.Client().List(ctx, attachments); err != nil {
			return err
		}
		var got, want []string
		for _, a := range attachments.Items {
			got = append(got, fmt.Sprintf("%s %s %t", a.Spec.Attacher, a.Spec.NodeName, a.Status.Attached))
		}
		if by != inTree {
			want = append(want, fmt.Sprintf("%s %s %t", by, user.Spec.NodeName, true))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the VolumeAttachments are %q, want %q", got, want)
		}
		return nil
	})
	return user
}

// driverRefused matches drivers' errors for a volume that is attached elsewhere.
var driverRefused = regexp.MustCompile("(?i)attached to|in.use")

// mustRefuse has the other side try to attach the volume; the cloud must refuse.
func (s *volumeScene) mustRefuse(by, node string) {
	s.t.Helper()
	if by != inTree {
		other := workers[(slices.Index(workers, node)+1)%len(workers)]
		assert.ErrorContains(s.t, s.cloud.attach(s.t.Context(), other), s.cloud.refusal(), "the in-tree plugin attaches what the driver has: got the error")
		return
	}
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "early"}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: s.cloud.driver().CSIName, NodeName: controller, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("in-tree")}}}
	s.create(attachment)
	cluster.Eventually(s.t, s.limit, "the cloud to refuse the driver", func(ctx context.Context) error {
		if err := s.Client().Get(ctx, client.ObjectKeyFromObject(attachment), attachment); err != nil {
			return err
		}
		if failed := attachment.Status.AttachError; attachment.Status.Attached || failed == nil || !driverRefused.MatchString(failed.Message) {
			return fmt.Errorf("attached %t, error %v, want an error that matches %s", attachment.Status.Attached, failed, driverRefused)
		}
		return nil
	})
	s.bed.Delete(s.t, attachment)
}

// failNode has the pod's node lose its power. An administrator says that it is out of service, and the pod runs on the other
// one. Then the node is back.
func (s *volumeScene) failNode(by string) {
	s.t.Helper()
	lost := s.awaitUser(by)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: lost.Spec.NodeName}}
	s.t.Logf("%s loses its power", node.Name)
	if by == inTree {
		s.machines.lose(node.Name)
	} else {
		s.must(s.StopNode(node.Name))
	}
	s.awaitReady(node, false)
	s.patch(node, `{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`)
	cluster.Eventually(s.t, s.limit, "another pod", func(ctx context.Context) error {
		found := &corev1.Pod{}
		if err := s.Client().Get(ctx, client.ObjectKeyFromObject(lost), found); err != nil {
			return err
		}
		if found.UID == lost.UID {
			return fmt.Errorf("it is the lost one, deleted %v", found.DeletionTimestamp)
		}
		return nil
	})
	s.mustUse(by)
	if by == inTree {
		s.machines.recover(node.Name)
	} else {
		s.must(s.StartNode(node.Name))
	}
	s.awaitReady(node, true)
	s.patch(node, `{"spec":{"taints":null}}`)
	s.settled()
}

func (s *volumeScene) awaitReady(node *corev1.Node, want bool) {
	s.t.Helper()
	cluster.Eventually(s.t, s.limit, fmt.Sprintf("node %s to be ready: %t", node.Name, want), func(ctx context.Context) error {
		if err := s.Client().Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
		if ready != want {
			return fmt.Errorf("its conditions are %v", node.Status.Conditions)
		}
		return nil
	})
}

// together runs commands at the same time. All have to succeed.
func (s *volumeScene) together(requests ...csimigration.Request) {
	s.t.Helper()
	ends := make(chan error, len(requests))
	ctx, cancel := context.WithTimeout(s.t.Context(), s.limit)
	defer cancel()
	for _, r := range requests {
		go func() { ends <- s.do(r, migrate.Options{}, nil)(ctx, s.Config()) }()
	}
	for range requests {
		s.must(<-ends)
	}
}

// checkChanges checks that the component that had attached the volume always detached it before another one attached
// it.
func (s *volumeScene) checkChanges() {
	s.t.Helper()
	var has *change
	for _, c := range s.cloud.changes() {
		switch {
		case c.attach && has != nil:
			s.t.Errorf("%s, and before that %s", c, *has)
		case c.attach:
			has = &c
		case has == nil: // it was asked for again
		case c.inTree != has.inTree || c.instance != has.instance:
			s.t.Errorf("%s, and before that %s", c, *has)
		default:
			has = nil
		}
	}
	s.t.Logf("the cloud: %v", s.cloud.changes())
	if s.t.Failed() || len(s.cloud.changes()) < 10 {
		s.t.Errorf("the volume was attached and detached %d times: %v", len(s.cloud.changes()), s.cloud.changes())
	}
}
