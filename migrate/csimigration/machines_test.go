package csimigration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

// managed is a kubelet's annotation that leaves attaching volumes to the Attach/Detach controller. The real controller
// of today always migrates, so a played kubelet does not set it.
const managed = "volumes.kubernetes.io/controller-managed-attach-detach"

// machines are the machines of workers. A machine with CSI migration is a real node, with the real kubelet and the real
// driver. A machine without it is played, as today's kubelets always migrate: the test plays the kubelet, and the
// Attach/Detach controller's part with the in-tree plugin. Devices, file systems and mounts are real on both.
type machines struct {
	cluster *cluster.Cluster
	cloud   cloud
	plugin  string
	folder  string
	workers []string

	mutex  sync.Mutex          // not held while the cloud is called, which calls root
	played map[string]*machine // machines without CSI migration, by their nodes
	err    error
	// refused is the last refusal of the cloud to attach the volume for the in-tree plugin.
	refused error
}

// machine is a machine that is played.
type machine struct {
	node, root string

	mutex sync.Mutex
	// down says that it has lost its power.
	down bool
	// attached says that the in-tree plugin has attached the volume to it, and user is the pod for which it is mounted.
	attached bool
	user     types.UID
	mounted  *os.File // the root of the volume's file system
	beat     time.Time
}

// playMachines plays the machines until the test ends. At first, all are real nodes.
func playMachines(t *testing.T, c *cluster.Cluster, in cloud, workers []string) *machines {
	m := &machines{cluster: c, cloud: in, plugin: in.driver().InTree.Plugin, folder: t.TempDir(), workers: workers, played: map[string]*machine{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			for _, each := range m.all() {
				if err := m.round(ctx, each); err != nil && !apierrors.IsConflict(err) && ctx.Err() == nil {
					m.mutex.Lock()
					m.err = fmt.Errorf("%s: %w", each.node, err)
					m.mutex.Unlock()
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		for _, each := range m.all() {
			each.unmount() // nobody plays it any more
		}
		if t.Failed() {
			t.Logf("the last error of the played machines: %v; the last refusal of the cloud: %v", m.err, m.refused)
		}
	})
	return m
}

func (m *machines) all() (all []*machine) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, each := range m.played {
		all = append(all, each)
	}
	return all
}

// of returns the machine of a node if it is played, or nil.
func (m *machines) of(node string) *machine {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.played[node]
}

// root returns the root folder of a node.
func (m *machines) root(node string) (string, error) {
	if played := m.of(node); played != nil {
		return played.root, nil
	}
	return m.cluster.NodeRoot(node)
}

// reboot restarts the machine of a node with a kubelet that migrates, or not: see restarts.Reboot. A real machine loses its
// power, and another one starts in its place.
func (m *machines) reboot(ctx context.Context, node string, migrated bool) (bool, error) {
	played := m.of(node)
	switch {
	case !slices.Contains(m.workers, node):
		return false, nil // no volume is ever used there
	case migrated && played == nil, !migrated && played != nil:
		return migrated, nil // it has been restarted, and a later step failed
	case migrated:
		return true, m.start(ctx, played)
	}
	if err := m.cluster.StopNode(node); err != nil {
		return false, err
	}
	root := filepath.Join(m.folder, node)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return false, err
	}
	if err := m.annotate(ctx, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, managed)); err != nil {
		return false, err
	}
	m.mutex.Lock()
	m.played[node] = &machine{node: node, root: root}
	m.mutex.Unlock()
	// The Attach/Detach controller takes care of a node until it restarts, even if its kubelet no longer wants that.
	return false, m.cluster.RestartControllers()
}

// start replaces a played machine with a real one. That takes minutes, during which the drained node's volume is
// detached.
func (m *machines) start(ctx context.Context, played *machine) error {
	if err := cluster.Until(ctx, "the in-tree plugin to detach what "+played.node+" had", func(context.Context) error {
		played.mutex.Lock()
		defer played.mutex.Unlock()
		if played.attached {
			return fmt.Errorf("the cloud has it attached to %q", m.cloud.attached())
		}
		return nil
	}); err != nil {
		return err
	}
	m.mutex.Lock()
	delete(m.played, played.node)
	m.mutex.Unlock()
	if err := m.cluster.StartNode(played.node); err != nil {
		return err
	}
	return cluster.Until(ctx, "the kubelet of "+played.node, func(ctx context.Context) error {
		found := &corev1.Node{}
		if err := m.cluster.Client().Get(ctx, client.ObjectKey{Name: played.node}, found); err != nil {
			return err
		}
		if found.Annotations[managed] != "true" {
			return fmt.Errorf("its annotations are %v", found.Annotations)
		}
		return nil
	})
}

// lose has a played machine lose its power.
func (m *machines) lose(node string) {
	each := m.of(node)
	each.mutex.Lock()
	defer each.mutex.Unlock()
	each.down = true
	each.unmount()
}

// recover gives a played machine its power back.
func (m *machines) recover(node string) {
	each := m.of(node)
	each.mutex.Lock()
	defer each.mutex.Unlock()
	each.down = false
}

func (m *machines) annotate(ctx context.Context, node, patch string) error {
	return m.cluster.Client().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// round does the pending work on a played machine and for it.
func (m *machines) round(ctx context.Context, each *machine) error {
	pods := &corev1.PodList{}
	if err := m.cluster.Client().List(ctx, pods, client.MatchingFields{"spec.nodeName": each.node}); err != nil {
		return err
	}
	users := slices.DeleteFunc(slices.Clone(pods.Items), func(p corev1.Pod) bool {
		return !slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
	})
	each.mutex.Lock()
	defer each.mutex.Unlock()
	if m.of(each.node) != each {
		return nil
	}
	if err := m.attachDetach(ctx, each, len(users) > 0); err != nil {
		return err
	}
	if each.down {
		return nil
	}
	return m.kubelet(ctx, each, pods.Items, users)
}

// attachDetach plays the Attach/Detach controller with the in-tree plugin.
func (m *machines) attachDetach(ctx context.Context, each *machine, wanted bool) error {
	switch {
	case wanted && !each.attached:
		if err := m.cloud.attach(ctx, each.node); err != nil {
			m.mutex.Lock()
			m.refused = err
			m.mutex.Unlock()
			return nil
		}
		each.attached = true
	case !wanted && each.attached && each.user == "":
		if slices.Contains(m.cloud.attached(), each.node) { // a cloud detaches no volume in use, and needs another request
			return m.cloud.detach(ctx, each.node)
		}
		each.attached = false
		return m.report(ctx, each) // a machine that has lost its power has not said that it does not use the volume
	}
	return nil
}

// report writes which volumes are in use. Which are attached, the real Attach/Detach controller would believe when it
// restarts, and write again for ever, as it has no plugin that could detach them.
func (m *machines) report(ctx context.Context, each *machine) error {
	used := "null"
	if each.user != "" {
		used = fmt.Sprintf("[%q]", m.plugin+"/volume")
	}
	patch := fmt.Sprintf(`{"status":{"volumesInUse":%s}}`, used)
	return m.cluster.Client().Status().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: each.node}}, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// kubelet plays the kubelet of a machine. It runs no container: the volumes of its pods are mounted, and it says that they run.
func (m *machines) kubelet(ctx context.Context, each *machine, pods, users []corev1.Pod) error {
	if err := m.heartbeat(ctx, each); err != nil {
		return err
	}
	if each.user != "" && !slices.ContainsFunc(users, func(p corev1.Pod) bool { return p.UID == each.user && p.DeletionTimestamp == nil }) {
		each.unmount()
		if err := m.report(ctx, each); err != nil {
			return err
		}
	}
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			continue
		}
		if err := m.cluster.Client().Delete(ctx, &pods[i], client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	for i := range users {
		p := &users[i]
		if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodRunning || !each.attached {
			continue
		}
		if err := each.mount(p.UID); err != nil {
			return err
		}
		if err := m.report(ctx, each); err != nil {
			return err
		}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}, corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue})
		if err := m.cluster.Client().Status().Update(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// heartbeat says that the node is ready, as its kubelet does every few seconds.
func (m *machines) heartbeat(ctx context.Context, each *machine) error {
	if time.Since(each.beat) < 5*time.Second {
		return nil
	}
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
	err := m.cluster.Client().Status().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: each.node}}, client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
	if err == nil {
		each.beat = time.Now()
	}
	return err
}

// mountPoint is where this process finds the file system. It is in no namespace, so that no node that starts meanwhile gets a copy of
// the mount, which would keep the device.
func (each *machine) mountPoint() string { return fmt.Sprintf("/proc/self/fd/%d", each.mounted.Fd()) }

// mount mounts the volume for a pod, and first creates a file system if the volume is empty.
func (each *machine) mount(pod types.UID) error {
	links, err := filepath.Glob(filepath.Join(each.root, "dev/disk/by-id/*"))
	if err != nil {
		return err
	}
	if len(links) != 1 {
		return fmt.Errorf("the machine has the devices %q, want one", links)
	}
	device, err := filepath.EvalSymlinks(links[0])
	if err != nil {
		return err
	}
	if err := exec.Command("blkid", device).Run(); err != nil {
		if output, err := exec.Command("mkfs.ext4", "-q", device).CombinedOutput(); err != nil {
			return fmt.Errorf("mkfs.ext4 %s: %w\n%s", device, err, output)
		}
	}
	system, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(system)
	if err := errors.Join(unix.FsconfigSetString(system, "source", device), unix.FsconfigCreate(system)); err != nil {
		return fmt.Errorf("mount %s: %w", device, err)
	}
	root, err := unix.Fsmount(system, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("mount %s: %w", device, err)
	}
	each.user, each.mounted = pod, os.NewFile(uintptr(root), device)
	return nil
}

func (each *machine) unmount() {
	if each.mounted != nil {
		each.mounted.Close() // and flushes to the device
	}
	each.user, each.mounted = "", nil
}
