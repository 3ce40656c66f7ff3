package testbed

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/writer"
	"github.com/berth-csi/berth/test/journey"
)

// Claim describes a claim.
type Claim struct {
	Namespace, Name string
	// Class is the name of the StorageClass.
	Class string
	// Size is 1Gi by default.
	Size string
	// Mode is ReadWriteMany by default.
	Mode corev1.PersistentVolumeAccessMode
	// Source is a snapshot or another claim that the volume is a copy of. It may be nil.
	Source *corev1.TypedLocalObjectReference
}

// Object returns the claim as it is created.
func (c Claim) Object() *corev1.PersistentVolumeClaim {
	if c.Size == "" {
		c.Size = "1Gi"
	}
	if c.Mode == "" {
		c.Mode = corev1.ReadWriteMany
	}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &c.Class, AccessModes: []corev1.PersistentVolumeAccessMode{c.Mode}, DataSource: c.Source,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(c.Size)}},
		},
	}
}

// Claim creates a claim. It does not wait: some classes make a volume only when a pod uses it.
func (b *Testbed) Claim(t testing.TB, c Claim) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := c.Object()
	require.NoError(t, b.Client().Create(t.Context(), claim))
	return claim
}

// Bound waits until a claim is bound, and returns its volume.
func (b *Testbed) Bound(t testing.TB, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	t.Helper()
	volume := &corev1.PersistentVolume{}
	cluster.Eventually(t, Limit, "claim "+claim.Name+" to be bound", func(ctx context.Context) error {
		if err := b.Client().Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", claim.Status.Phase)
		}
		return b.Client().Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)
	})
	return volume
}

// Expand asks for a larger volume, and waits until its file system has the size.
func (b *Testbed) Expand(t testing.TB, claim *corev1.PersistentVolumeClaim, size string) {
	t.Helper()
	want := resource.MustParse(size)
	before := claim.DeepCopy()
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = want
	require.NoError(t, b.Client().Patch(t.Context(), claim, client.MergeFrom(before)))
	cluster.Eventually(t, Limit, "claim "+claim.Name+" to have "+size, func(ctx context.Context) error {
		if err := b.Client().Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		got := claim.Status.Capacity[corev1.ResourceStorage]
		if got.Cmp(want) >= 0 && len(claim.Status.Conditions) == 0 {
			return nil
		}
		for _, condition := range claim.Status.Conditions {
			if condition.Type == corev1.PersistentVolumeClaimFileSystemResizePending {
				if err := b.touchUsers(ctx, claim); err != nil {
					return err
				}
			}
		}
		return fmt.Errorf("it has %s; conditions: %v", got.String(), claim.Status.Conditions)
	})
}

// touchUsers changes an annotation of all pods that use a claim. A kubelet checks whether a pod's volumes have grown only when it syncs the
// pod: when the pod changes, or after a minute or more.
func (b *Testbed) touchUsers(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	pods := &corev1.PodList{}
	if err := b.Client().List(ctx, pods, client.InNamespace(claim.Namespace)); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
		}) {
			continue
		}
		before := pod.DeepCopy()
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "testbed.berth.test/touched", time.Now().Format(time.RFC3339))
		if err := b.Client().Patch(ctx, &pod, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}

// Pod describes a pod of a user.
type Pod struct {
	Name string
	// Node is one of Nodes.
	Node  string
	Claim *corev1.PersistentVolumeClaim
	// User is the ID of the user in the pod, 0 by default.
	User int64
	// KeepsWriting names a file on the volume that the pod writes to all the time. If it is empty, the pod only waits.
	KeepsWriting string
}

// RunningPod is a pod that is ready.
type RunningPod struct {
	*corev1.Pod
	bed *Testbed
}

// Create creates a pod with the volume of a claim. It does not wait.
func (b *Testbed) Create(t testing.TB, p Pod) *corev1.Pod {
	t.Helper()
	pod := journey.PodWithClaim(p.Claim.Namespace, p.Name, p.Claim.Name)
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: p.Node}
	pod.Spec.TerminationGracePeriodSeconds = new(int64(5))
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &p.User, FSGroup: &p.User}
	if p.KeepsWriting != "" {
		pod.Spec.Containers[0].Args = []string{"keep-writing", path.Join(journey.DataFolder, p.KeepsWriting)}
	}
	require.NoError(t, b.Client().Create(t.Context(), pod))
	return pod
}

// Run runs a pod with the volume of a claim, and waits until it is ready.
func (b *Testbed) Run(t testing.TB, p Pod) RunningPod {
	t.Helper()
	return b.AwaitPod(t, b.Create(t, p))
}

// AwaitPod waits until a pod is there and ready.
func (b *Testbed) AwaitPod(t testing.TB, pod *corev1.Pod) RunningPod {
	t.Helper()
	b.Await(t, Limit, "pod "+pod.Name+" to be ready", pod, func() error {
		if !cluster.IsReady(pod) {
			return fmt.Errorf("it is %s on node %q: %s", pod.Status.Phase, pod.Spec.NodeName, notReadyReasons(pod))
		}
		return nil
	})
	return RunningPod{pod, b}
}

// AwaitEvent waits for an event about an object, with a reason and a text in its message.
func (b *Testbed) AwaitEvent(t testing.TB, about client.Object, reason, text string) {
	t.Helper()
	cluster.Eventually(t, Limit, fmt.Sprintf("an event %s about %s that says %q", reason, about.GetName(), text), func(ctx context.Context) error {
		events := &corev1.EventList{}
		if err := b.Client().List(ctx, events, client.InNamespace(about.GetNamespace())); err != nil {
			return err
		}
		var others []string
		for _, event := range events.Items {
			if event.InvolvedObject.UID != about.GetUID() {
				continue
			}
			if event.Reason == reason && strings.Contains(event.Message, text) {
				return nil
			}
			others = append(others, event.Reason+": "+event.Message)
		}
		return fmt.Errorf("the events are %q", others)
	})
}

// Write writes a file on the pod's volume.
func (p RunningPod) Write(t testing.TB, file, content string) {
	t.Helper()
	p.exec(t, "write", path.Join(journey.DataFolder, file), content)
}

// Read returns the content of a file on the pod's volume.
func (p RunningPod) Read(t testing.TB, file string) string {
	t.Helper()
	return p.exec(t, "read", path.Join(journey.DataFolder, file))
}

// Size returns the size of the volume's file system in bytes.
func (p RunningPod) Size(t testing.TB) int64 {
	t.Helper()
	text := p.exec(t, "size", journey.DataFolder)
	size, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	require.NoError(t, err)
	return size
}

// Reports returns the reports of a pod that keeps writing.
func (p RunningPod) Reports(t testing.TB) writer.Reports {
	t.Helper()
	output, err := p.bed.Kubectl(t.Context(), "--namespace", p.Namespace, "logs", p.Name).Output()
	require.NoErrorf(t, err, "the log of pod %s", p.Name)
	reports, err := writer.Read(output)
	require.NoError(t, err)
	return reports
}

// Mount returns the line of the node's mountinfo that is about the pod's volume. A new mount has another line.
func (p RunningPod) Mount(t testing.TB) string {
	t.Helper()
	line, err := MountOf(p.bed.Cluster, p.Pod)
	require.NoError(t, err)
	return line
}

// MountOf returns the line about a pod's volume in a real node's mountinfo, or "". A replaced mount has another line.
func MountOf(c *cluster.Cluster, pod *corev1.Pod) (string, error) {
	root, err := c.NodeRoot(pod.Spec.NodeName)
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile(filepath.Join(filepath.Dir(root), "mountinfo"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, "/pods/"+string(pod.UID)+"/volumes/kubernetes.io~csi/") {
			return line, nil
		}
	}
	return "", nil
}

func (p RunningPod) exec(t testing.TB, args ...string) string {
	t.Helper()
	command := append([]string{"--namespace", p.Namespace, "exec", p.Name, "--", "/usr/bin/user"}, args...)
	output, err := p.bed.Kubectl(t.Context(), command...).CombinedOutput()
	require.NoErrorf(t, err, "pod %s on node %s: %q\n%s", p.Name, p.Spec.NodeName, args, output)
	return string(output)
}

// Delete deletes objects, one after the other, and waits until they are gone.
func (b *Testbed) Delete(t testing.TB, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		require.NoError(t, client.IgnoreNotFound(b.Client().Delete(t.Context(), object)))
		cluster.Eventually(t, Limit, fmt.Sprintf("%T %s to be gone", object, object.GetName()), b.Gone(object))
	}
}
