package restarts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/test/cluster"
)

// Volumes plays what attaches and mounts the volumes of an in-tree plugin on nodes of its own: the kubelets, the plugin, and
// the attacher of the driver. The kubelet of today always migrates, and no released Kubernetes that is still served has such
// plugins, so these cannot be real. The scheduler and the Attach/Detach controller are: today's controller makes
// VolumeAttachments for the nodes that say that the plugin is migrated, and leaves the others alone. What a volume is called
// by its driver, the real translation says.
type Volumes struct {
	client client.Client
	driver drivers.Driver
	nodes  []string

	mutex sync.Mutex
	// attached is the simulated cloud: the node that each volume is attached to. A volume is attached to one node only.
	attached map[string]string
	history  []string
	err      error
}

// AddNodes adds nodes to a cluster whose kubelets and volumes are played until stop is called.
func AddNodes(ctx context.Context, c *cluster.Cluster, d drivers.Driver, names ...string) (*Volumes, func() error, error) {
	v := &Volumes{client: c.Client(), driver: d, nodes: names, attached: map[string]string{}}
	for _, name := range names {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/worker": "", "played": "", corev1.LabelHostname: name},
			Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}}
		if err := c.Client().Create(ctx, n); err != nil {
			return nil, nil, err
		}
	}
	playing, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if err := v.round(playing); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && playing.Err() == nil {
				v.mutex.Lock()
				v.err = err
				v.mutex.Unlock()
			}
			select {
			case <-playing.Done():
				return
			case <-time.After(interval):
			}
		}
	}()
	stop := func() error {
		cancel()
		<-ended
		return v.err
	}
	return v, stop, Register(ctx, c, d.CSIName, names...)
}

// Attached returns the nodes that volumes are attached to, by the cloud's names of the volumes.
func (v *Volumes) Attached() map[string]string {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	found := map[string]string{}
	for volume, by := range v.attached {
		found[volume] = by
	}
	return found
}

// History returns what was attached and detached, by whom, in order.
func (v *Volumes) History() []string {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return slices.Clone(v.history)
}

// errInUse is the refusal of the cloud.
var errInUse = errors.New("the volume is attached to another node, or by something else")

// attach attaches a volume. Only what has attached it, by name, may detach it: that is what strands volumes.
func (v *Volumes) attach(volume, node, by string) error {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	switch is := v.attached[volume]; is {
	case node + " " + by:
		return nil
	case "":
		v.attached[volume] = node + " " + by
		v.history = append(v.history, fmt.Sprintf("attach %s to %s by %s", volume, node, by))
		return nil
	}
	return errInUse
}

func (v *Volumes) detach(volume, node, by string) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if v.attached[volume] == node+" "+by {
		delete(v.attached, volume)
		v.history = append(v.history, fmt.Sprintf("detach %s from %s by %s", volume, node, by))
	}
}

// Who attaches volumes.
const (
	InTree = "in-tree"
	CSI    = "csi"
)

func (v *Volumes) round(ctx context.Context) error {
	pods, volumes, attachments := &corev1.PodList{}, map[string]string{}, &storagev1.VolumeAttachmentList{}
	if err := v.client.List(ctx, pods); err != nil {
		return err
	}
	if err := v.client.List(ctx, attachments); err != nil {
		return err
	}
	if err := v.names(ctx, volumes); err != nil {
		return err
	}
	if err := v.attacher(ctx, attachments.Items, volumes); err != nil {
		return err
	}
	for _, name := range v.nodes {
		mine := slices.DeleteFunc(slices.Clone(pods.Items), func(p corev1.Pod) bool { return p.Spec.NodeName != name })
		if err := v.kubelet(ctx, name, mine, attachments.Items, volumes); err != nil {
			return err
		}
	}
	return nil
}

// names returns what the driver calls the volumes, by the names of their PersistentVolumes. The real translation says that.
func (v *Volumes) names(ctx context.Context, into map[string]string) error {
	list := &corev1.PersistentVolumeList{}
	if err := v.client.List(ctx, list); err != nil {
		return err
	}
	translator := csitranslation.New()
	for i := range list.Items {
		if !translator.IsPVMigratable(&list.Items[i]) {
			continue
		}
		translated, err := translator.TranslateInTreePVToCSI(klog.Background(), &list.Items[i])
		if err != nil {
			return err
		}
		if translated.Spec.CSI.Driver == v.driver.CSIName {
			into[translated.Name] = translated.Spec.CSI.VolumeHandle
		}
	}
	return nil
}

// attacher plays the attacher of the driver.
func (v *Volumes) attacher(ctx context.Context, attachments []storagev1.VolumeAttachment, volumes map[string]string) error {
	const finalizer = "external-attacher/driver"
	for i := range attachments {
		a := &attachments[i]
		if a.Spec.Attacher != v.driver.CSIName || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		volume := volumes[*a.Spec.Source.PersistentVolumeName]
		switch {
		case a.DeletionTimestamp != nil:
			v.detach(volume, a.Spec.NodeName, CSI)
			a.Finalizers = nil
			return v.client.Update(ctx, a)
		case a.Status.Attached:
		case len(a.Finalizers) == 0:
			a.Finalizers = []string{finalizer}
			return v.client.Update(ctx, a)
		case v.attach(volume, a.Spec.NodeName, CSI) == nil:
			a.Status.Attached = true
			return v.client.Status().Update(ctx, a)
		}
	}
	return nil
}

// kubelet plays the kubelet of a node, and the in-tree plugin for it, with the pods that are there.
func (v *Volumes) kubelet(ctx context.Context, name string, pods []corev1.Pod, attachments []storagev1.VolumeAttachment, volumes map[string]string) error {
	n, csiNode := &corev1.Node{}, &storagev1.CSINode{}
	if err := v.client.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
		return err
	}
	if err := v.client.Get(ctx, client.ObjectKey{Name: name}, csiNode); err != nil {
		return client.IgnoreNotFound(err)
	}
	migrated := slices.Contains(strings.Split(csiNode.Annotations[migratedAnnotation], ","), v.driver.InTree.Plugin)
	used := map[string]bool{} // the volumes of the pods
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil {
			return v.client.Delete(ctx, p, client.GracePeriodSeconds(0))
		}
		ready, err := v.mount(ctx, p, name, migrated, attachments, volumes, used)
		if err != nil || !ready || p.Status.Phase == corev1.PodRunning {
			if err != nil && !errors.Is(err, errInUse) {
				return err
			}
			continue
		}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
		if err := v.client.Status().Update(ctx, p); err != nil {
			return err
		}
	}
	return v.report(ctx, n, used, migrated, volumes)
}

// mount reports whether the volumes of a pod are attached in the way in which the kubelet works. The in-tree plugin attaches
// them if it is that.
func (v *Volumes) mount(ctx context.Context, p *corev1.Pod, node string, migrated bool, attachments []storagev1.VolumeAttachment, volumes map[string]string, used map[string]bool) (bool, error) {
	ready := true
	for _, source := range p.Spec.Volumes {
		if source.PersistentVolumeClaim == nil {
			continue
		}
		claim := &corev1.PersistentVolumeClaim{}
		if err := v.client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: source.PersistentVolumeClaim.ClaimName}, claim); err != nil {
			return false, err
		}
		volume := volumes[claim.Spec.VolumeName]
		used[volume] = true
		if !migrated {
			if err := v.attach(volume, node, InTree); err != nil {
				return false, err
			}
			continue
		}
		ready = ready && slices.ContainsFunc(attachments, func(a storagev1.VolumeAttachment) bool {
			of := a.Spec.Source.PersistentVolumeName
			return a.Spec.NodeName == node && of != nil && *of == claim.Spec.VolumeName && a.Status.Attached && a.DeletionTimestamp == nil
		})
	}
	return ready, nil
}

// report writes what the kubelet says about the node, and which volumes the in-tree plugin has attached, of which it detaches
// those that no pod uses. It does that only for nodes that are not migrated.
func (v *Volumes) report(ctx context.Context, n *corev1.Node, used map[string]bool, migrated bool, volumes map[string]string) error {
	changed := n.DeepCopy()
	prefix := map[bool]string{true: "kubernetes.io/csi/" + v.driver.CSIName + "^", false: v.driver.InTree.Plugin + "/"}[migrated]
	changed.Status.VolumesInUse = nil
	for _, volume := range volumes {
		if used[volume] {
			changed.Status.VolumesInUse = append(changed.Status.VolumesInUse, corev1.UniqueVolumeName(prefix+volume))
		} else if !migrated {
			v.detach(volume, n.Name, InTree)
		}
	}
	slices.Sort(changed.Status.VolumesInUse)
	changed.Status.VolumesAttached = slices.DeleteFunc(changed.Status.VolumesAttached, func(a corev1.AttachedVolume) bool {
		return strings.HasPrefix(string(a.Name), v.driver.InTree.Plugin+"/")
	})
	for volume, by := range v.Attached() {
		if by == n.Name+" "+InTree {
			changed.Status.VolumesAttached = append(changed.Status.VolumesAttached, corev1.AttachedVolume{Name: corev1.UniqueVolumeName(v.driver.InTree.Plugin + "/" + volume), DevicePath: "/dev/xvdf"})
		}
	}
	beats := time.Now()
	ready := slices.IndexFunc(changed.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if ready < 0 {
		changed.Status.Conditions = append(changed.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady})
		ready = len(changed.Status.Conditions) - 1
	}
	if c := &changed.Status.Conditions[ready]; c.Status != corev1.ConditionTrue || beats.Sub(c.LastHeartbeatTime.Time) > 5*time.Second {
		c.Status, c.Reason, c.LastHeartbeatTime = corev1.ConditionTrue, "KubeletReady", metav1.NewTime(beats)
		if err := v.lease(ctx, n.Name); err != nil {
			return err
		}
	}
	changed.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10")}
	changed.Status.Allocatable = changed.Status.Capacity
	return v.client.Status().Patch(ctx, changed, client.MergeFrom(n))
}

// lease says that the kubelet of a node is alive.
func (v *Volumes) lease(ctx context.Context, node string) error {
	made := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}}
	err := v.client.Get(ctx, client.ObjectKeyFromObject(made), made)
	now := metav1.NowMicro()
	made.Spec.HolderIdentity, made.Spec.LeaseDurationSeconds, made.Spec.RenewTime = &node, new(int32(40)), &now
	if apierrors.IsNotFound(err) {
		return v.client.Create(ctx, made)
	}
	if err != nil {
		return err
	}
	return v.client.Update(ctx, made)
}
