package sharedvolume_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	tenants "github.com/berth-csi/berth/test/tenant"
)

// mostBytes is how much memory an object of a tenant may take in the caches.
const mostBytes = 4 << 10

// attacker returns a tenant who has a project, and may create SharedVolumes there.
func (env testEnv) attacker(t *testing.T) (*tenants.Tenant, string) {
	t.Helper()
	who := tenants.New(t, env.Cluster)
	project := who.Project(t, "")
	env.grant(project, usualSpec.FileSystemID, v1alpha1.AllAccessPoints)
	// The bundle's rules for the role admin. Other tests share the cluster, so they are bound to this project.
	role := rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"sharedvolumes"}, Verbs: []string{"*"}}
	metadata := metav1.ObjectMeta{Namespace: project, Name: "sharedvolumes"}
	env.do("create", env.client.Create(t.Context(), &rbacv1.Role{ObjectMeta: metadata, Rules: []rbacv1.PolicyRule{role}}))
	env.do("create", env.client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metadata,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: metadata.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: who.Name}},
	}))
	cluster.Eventually(t, waitLimit, "the tenant's rights", func(ctx context.Context) error {
		return who.Client.List(ctx, &v1alpha1.SharedVolumeList{}, client.InNamespace(project))
	})
	return who, project
}

// TestTenantFillsCaches: the caches hold little of objects that are as large as the API server accepts.
func TestTenantFillsCaches(t *testing.T) {
	env := served(t)
	who, project := env.attacker(t)
	many := func(n int, name string) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("%s%s-%05d", name, strings.Repeat("x", 40), i))
		}
		return names
	}
	large := func(object client.Object) {
		object.SetNamespace(project)
		object.SetAnnotations(map[string]string{sharedvolume.OwnerNameLabel: strings.Repeat("n", 250_000)})
		labels := map[string]string{sharedvolume.OwnedLabel: "true"}
		for _, name := range many(1000, "label-") {
			labels[name] = name
		}
		object.SetLabels(labels)
		object.SetFinalizers(many(4000, "example.com/finalizer-"))
	}
	sv := newVolume(project, "large")
	large(sv)
	env.do("create", who.Client.Create(t.Context(), sv))
	claim := foreignClaim(project, "large")
	large(claim)
	claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{sharedvolume.OwnerUIDLabel: string(sv.UID)}}
	for _, name := range many(2000, "key-") {
		claim.Spec.Selector.MatchLabels[name] = name
	}
	claim.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "any", Operator: metav1.LabelSelectorOpIn, Values: many(2000, "value-")}}
	claim.Spec.VolumeName = strings.Repeat("v", 200_000)
	env.do("create", who.Client.Create(t.Context(), claim))
	t.Cleanup(func() {
		for _, object := range []client.Object{sv, claim} {
			env.do("free", client.IgnoreNotFound(env.client.Patch(context.Background(), object, patch(`{"metadata":{"finalizers":null}}`))))
		}
	})

	options := sharedvolume.CacheOptions()
	options.Scheme, options.Mapper = env.client.Scheme(), env.client.RESTMapper()
	cached, err := cache.New(env.Config(), options)
	env.do("make a cache", err)
	go func() { _ = cached.Start(t.Context()) }()
	for _, object := range []client.Object{&v1alpha1.SharedVolume{}, &corev1.PersistentVolumeClaim{}} {
		_, err := cached.GetInformer(t.Context(), object)
		env.do("fill the cache", err)
		cluster.Eventually(t, waitLimit, "the cache", func(ctx context.Context) error {
			return cached.Get(ctx, client.ObjectKey{Namespace: project, Name: "large"}, object)
		})
		stored := object.DeepCopyObject().(client.Object)
		env.get(stored, project, "large")
		got, given := deepSize(reflect.ValueOf(object)), deepSize(reflect.ValueOf(stored))
		t.Logf("%T: %d bytes are cached of %d", object, got, given)
		assert.LessOrEqualf(t, got, mostBytes, "bytes in the cache of a %T of %d", object, given)
	}
}

// TestTenantHasLargeObjectsListed: if an API server cannot stream the initial list, it is requested in small pages, and the
// objects of one page are trimmed before the next is requested.
func TestTenantHasLargeObjectsListed(t *testing.T) {
	env := served(t)
	who, project := env.attacker(t)
	const claims = 45 // in pages of 20
	for i := range claims {
		claim := foreignClaim(project, fmt.Sprintf("large-%d", i))
		claim.Annotations = map[string]string{"filler": strings.Repeat("x", 100_000)}
		env.do("create", who.Client.Create(t.Context(), claim))
	}
	kube := kubernetes.NewForConfigOrDie(env.Config())
	pages, got := 0, 0
	source := sharedvolume.TrimmedLists(&toolscache.ListWatch{ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		pages++
		page, err := kube.CoreV1().PersistentVolumeClaims(project).List(ctx, options)
		assert.LessOrEqualf(t, len(page.Items), 20, "claims of page %d", pages)
		return page, err
	}})
	list, err := source.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0"}) // as an informer begins
	env.do("list", err)
	for _, claim := range list.(*corev1.PersistentVolumeClaimList).Items {
		got++
		if size := deepSize(reflect.ValueOf(claim)); size > mostBytes {
			t.Errorf("claim %s has %d bytes, want at most %d", claim.Name, size, mostBytes)
		}
	}
	if got != claims || pages != 3 {
		t.Errorf("%d claims came in %d pages, want %d in 3", got, pages, claims)
	}
}

// deepSize returns how many bytes of memory a value takes, with all that it refers to.
func deepSize(value reflect.Value) int {
	size := int(value.Type().Size())
	inner := func(part reflect.Value) int { return deepSize(part) - int(part.Type().Size()) } // the memory outside of the value
	switch value.Kind() {
	case reflect.String:
		size += value.Len()
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() && value.Type() != reflect.TypeFor[*time.Location]() {
			size += deepSize(value.Elem())
		}
	case reflect.Slice:
		size += (value.Cap() - value.Len()) * int(value.Type().Elem().Size())
		for i := range value.Len() {
			size += deepSize(value.Index(i))
		}
	case reflect.Map:
		for entries := value.MapRange(); entries.Next(); {
			size += deepSize(entries.Key()) + deepSize(entries.Value())
		}
	case reflect.Struct:
		for i := range value.NumField() {
			size += inner(value.Field(i))
		}
	case reflect.Array:
		for i := range value.Len() {
			size += inner(value.Index(i))
		}
	}
	return size
}

// TestTenantsFinalizersAreKept: the controller keeps the tenant's finalizers, however many, when it adds and removes its own.
func TestTenantsFinalizersAreKept(t *testing.T) {
	env := served(t)
	who, project := env.attacker(t)
	sv := newVolume(project, "logs")
	for i := range 1000 {
		sv.Finalizers = append(sv.Finalizers, fmt.Sprintf("example.com/finalizer-%d", i))
	}
	given := slices.Clone(sv.Finalizers)
	env.do("create", who.Client.Create(t.Context(), sv))
	p := env.ready(sv)
	assert.Empty(t, cmp.Diff(append(slices.Clone(given), sharedvolume.Finalizer), sv.Finalizers), "finalizers of a SharedVolume that is Ready (-want +got)")
	env.do("delete", who.Client.Delete(t.Context(), sv))
	env.gone(p.volume)
	env.eventually("the controller's finalizer to be taken off", sv, func() error {
		if diff := cmp.Diff(given, sv.Finalizers); diff != "" {
			return fmt.Errorf("the finalizers (-want +got):\n%s", diff)
		}
		return nil
	})
	env.do("free", who.Client.Patch(t.Context(), sv, patch(`{"metadata":{"finalizers":null}}`)))
}

// TestTenantHasPodsListed: while SharedVolumes wait for a pod in a namespace of many large pods, these are listed in small pages,
// and not more often than for one SharedVolume.
func TestTenantHasPodsListed(t *testing.T) {
	env := served(t)
	who, project := env.attacker(t)
	const waiting, podBytes = 4, 20_000
	for i := range waiting {
		sv := newVolume(project, fmt.Sprintf("logs-%d", i))
		env.do("create", who.Client.Create(t.Context(), sv))
		claim := env.ready(sv).claim
		for j := range 15 {
			env.do("create", who.Client.Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: fmt.Sprintf("web-%d-%d", i, j)},
				Spec: corev1.PodSpec{
					NodeName:   "worker-0", // Pods of a node that does not exist are soon collected.
					Containers: []corev1.Container{{Name: "main", Image: "example.com/web", Args: []string{strings.Repeat("x", podBytes)}}},
					Volumes: []corev1.Volume{{Name: "logs", VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}}},
				},
			}))
		}
	}
	began := time.Now()
	for i := range waiting {
		sv := newVolume(project, fmt.Sprintf("logs-%d", i))
		env.do("delete", who.Client.Delete(t.Context(), sv))
		env.until(sv, "ClaimInUse")
	}
	// Each is reconciled every ten seconds. The pods are listed in two pages.
	lists := 0
	cluster.Eventually(t, waitLimit, "the pods to be listed again", func(context.Context) error {
		lists = 0
		for _, event := range env.AuditOf(t, cluster.Requests{User: controllerUser}) {
			if event.Namespace != project || event.Resource != "pods" || event.Received.Before(began) {
				continue
			}
			address, err := url.Parse(event.URI)
			if err != nil || event.Code != http.StatusOK {
				t.Fatalf("%s: %d %v", event.URI, event.Code, err)
			}
			limit, err := strconv.Atoi(address.Query().Get("limit"))
			require.NoError(t, err, event.URI)
			most := 4 << 20 / podBytes // later pages, as large as the pods allow
			if address.Query().Get("continue") == "" {
				most = 50
				lists++
			}
			require.LessOrEqualf(t, limit, most, "size of the pages in which pods are listed: %s", event.URI)
		}
		if lists < 2 {
			return fmt.Errorf("they were listed %d times", lists)
		}
		return nil
	})
	if most := 1 + int(time.Since(began)/(10*time.Second)); lists > most {
		t.Errorf("the pods were listed %d times in %v, want at most %d", lists, time.Since(began), most)
	}
}

// TestTenantLeavesVolume: a tenant manipulates a SharedVolume so that its volume remains, and is not found in the usual ways.
func TestTenantLeavesVolume(t *testing.T) {
	t.Run("under the community operator's name", func(t *testing.T) {
		env := isolated(t)
		who, project := env.attacker(t)
		stop := env.runConfined(project)
		name := "pv-" + project + "-logs"
		claim := foreignClaim(project, "pvc-logs")
		claim.Spec.StorageClassName, claim.Spec.VolumeName = new(""), name
		claim.Labels = legacyLabels(project, "logs")
		env.do("create", who.Client.Create(t.Context(), claim))
		sv := newVolume(project, "logs")
		env.do("create", who.Client.Create(t.Context(), sv))
		p := env.ready(sv)
		require.Equal(t, name, p.volume.Name, "the volume")
		stop() // as for an update of the operator
		leave(env, who, sv)
		env.do("delete the claim", who.Client.Delete(t.Context(), claim))
		env.gone(claim)
		env.runConfined(project)
		env.gone(p.volume)
	})
	t.Run("whose claim names another volume", func(t *testing.T) {
		env := isolated(t)
		who, project := env.attacker(t)
		stop := env.runConfined(project)
		sv := newVolume(project, "logs")
		env.do("create", who.Client.Create(t.Context(), sv))
		p := env.ready(sv)
		stop() // as for an update of the operator

		env.do("delete the claim", who.Client.Delete(t.Context(), p.claim))
		env.gone(p.claim)
		claim := foreignClaim(project, p.claim.Name)
		claim.Spec.StorageClassName, claim.Spec.Selector = new(""), p.claim.Spec.Selector
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("10Ti")
		env.do("create", who.Client.Create(t.Context(), claim))
		stop = env.runConfined(project)
		env.eventually("the volume to be reserved for the new claim", p.volume, func() error {
			if ref := p.volume.Spec.ClaimRef; ref == nil || ref.UID != claim.UID {
				return fmt.Errorf("it is reserved for %v", ref)
			}
			return nil
		})
		stop()

		env.do("bind elsewhere", who.Client.Patch(t.Context(), claim, patch(`{"spec":{"volumeName":"elsewhere"}}`)))
		env.eventually("the binder to give the claim up", p.volume, func() error {
			if ref := p.volume.Spec.ClaimRef; ref == nil || ref.UID != "" {
				return fmt.Errorf("it is reserved for %v", ref)
			}
			return nil
		})
		leave(env, who, sv)
		env.do("delete the claim", who.Client.Delete(t.Context(), claim))
		env.gone(claim)
		env.runConfined(project)
		env.gone(p.volume)
	})
}

// leave deletes a SharedVolume as the tenant while no controller runs.
func leave(env testEnv, who *tenants.Tenant, sv *v1alpha1.SharedVolume) {
	env.t.Helper()
	env.do("take the finalizers off", who.Client.Patch(env.t.Context(), sv.DeepCopy(), patch(`{"metadata":{"finalizers":null}}`)))
	env.do("delete", who.Client.Delete(env.t.Context(), sv))
	env.gone(sv)
}
