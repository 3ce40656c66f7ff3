package scale

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/tenant"
)

// attacked lets a tenant use a project to make the operator use memory. It reports the operator's memory relative to
// its limit: during the attack, and of an operator that starts meanwhile.
func (a *arena) attacked() {
	a.Helper()
	who, project := a.signIn()
	began := time.Now()
	large, pods := few(60, 20), few(100, 40)
	a.say("a tenant creates %d SharedVolumes, %d claims and %d pods of 1 MB each", large, large, pods)
	filler := func(object client.Object) {
		object.SetAnnotations(map[string]string{sharedvolume.OwnerNameLabel: strings.Repeat("n", 250_000)})
		object.SetLabels(map[string]string{sharedvolume.OwnedLabel: "true"})
		var finalizers []string
		for i := range 4500 {
			finalizers = append(finalizers, fmt.Sprintf("example.com/%s-%04d", strings.Repeat("f", 50), i))
		}
		object.SetFinalizers(append(object.GetFinalizers(), finalizers...))
	}
	a.untilBound(project, large, func() {
		a.atOnce(large, func(ctx context.Context, i int) error {
			sv := sharedVolume(project, i)
			filler(sv)
			return who.Client.Create(ctx, sv)
		})
	})
	a.atOnce(large, func(ctx context.Context, i int) error {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: fmt.Sprintf("large-%d", i)},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				StorageClassName: new("other"),
				VolumeName:       "not-there",
			},
		}
		filler(claim)
		return who.Client.Create(ctx, claim)
	})
	a.atOnce(pods, func(ctx context.Context, i int) error {
		return who.Client.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: fmt.Sprintf("large-%d", i), Finalizers: []string{"example.com/hold"}},
			Spec: corev1.PodSpec{
				NodeName:   "unattended",
				Containers: []corev1.Container{{Name: "main", Image: "example.com/other", Args: []string{strings.Repeat("x", 1_000_000)}}},
				Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: sharedvolume.ClaimName(sharedVolume(project, i%large).Name)}}}},
			},
		})
	})
	// The SharedVolumes wait for claims that cannot be deleted, and keep checking who uses them.
	hold := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`))
	a.atOnce(large, func(ctx context.Context, i int) error {
		sv := sharedVolume(project, i)
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: sharedvolume.ClaimName(sv.Name)}}
		if err := client.IgnoreNotFound(who.Client.Patch(ctx, claim, hold)); err != nil {
			return err
		}
		return who.Client.Delete(ctx, sv)
	})
	a.awaitPodLists(project, began, 2)
	lived, livedPeak := a.memory(a.process())
	a.say("the operator has %.0f MiB, and had %.0f at most", lived, livedPeak)
	a.stop()
	began = time.Now()
	a.start()
	after := a.process()
	a.awaitPodLists(project, began, 2)
	started, startedPeak := a.memory(after)

	limit := a.driver.OperatorDeployment().Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value()
	a.ReportMetric(max(lived, started), "MiB-rss")
	a.ReportMetric(max(livedPeak, startedPeak), "MiB-rss-peak")
	a.ReportMetric(max(livedPeak, startedPeak)/(float64(limit)/(1<<20)), "x-limit")
	a.ReportMetric(0, "ns/op")
}

// signIn returns a tenant with a project where its SharedVolumes get volumes.
func (a *arena) signIn() (who *tenant.Tenant, project string) {
	a.Helper()
	who = tenant.New(a, a.Cluster)
	project = who.Project(a, "")
	a.grant(project)
	metadata := metav1.ObjectMeta{Namespace: project, Name: "sharedvolumes"}
	a.create(&rbacv1.Role{ObjectMeta: metadata, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"sharedvolumes"}, Verbs: []string{"*"}}}})
	a.create(&rbacv1.RoleBinding{
		ObjectMeta: metadata,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: metadata.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: who.Name}},
	})
	a.await("the tenant's rights", func(ctx context.Context) error {
		return who.Client.List(ctx, &v1alpha1.SharedVolumeList{}, client.InNamespace(project))
	})
	return who, project
}

// awaitPodLists waits until the operator has listed the pods of a namespace n times since a time.
func (a *arena) awaitPodLists(namespace string, since time.Time, want int) {
	a.Helper()
	a.await("the pods to be listed", func(context.Context) error {
		lists := 0
		for _, event := range a.AuditOf(a, cluster.Requests{User: a.user()}) {
			if event.Resource == "pods" && event.Namespace == namespace &&
				!event.Received.Before(since) && !strings.Contains(event.URI, "continue=") {
				lists++
			}
		}
		if lists < want {
			return fmt.Errorf("they were listed %d times", lists)
		}
		return nil
	})
}
