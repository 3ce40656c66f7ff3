package scale

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// width is how many requests a user sends concurrently; more would not be faster.
const width = 16

// atOnce calls a function for each of n, several calls at a time.
func (a *arena) atOnce(n int, do func(ctx context.Context, i int) error) {
	a.Helper()
	group, ctx := errgroup.WithContext(a.Context())
	group.SetLimit(width)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		a.Fatal(err)
	}
}

// team creates a namespace and grants it the file system of the SharedVolumes. So they cost what they do in a new
// cluster, which requires grants.
func (a *arena) team() string {
	a.Helper()
	namespace := a.Namespace(a)
	a.grant(namespace)
	return namespace
}

// grant grants a namespace the file system of the SharedVolumes.
func (a *arena) grant(namespace string) {
	a.Helper()
	a.create(&v1alpha1.SharedVolumeGrant{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: v1alpha1.SharedVolumeGrantSpec{FileSystems: []v1alpha1.FileSystemGrant{
			{FileSystemID: fileSystem, AccessPointIDs: []string{v1alpha1.AllAccessPoints}}}},
	})
}

const fileSystem = "fs-0123456789abcdef0"

// share creates the i-th SharedVolume of a namespace.
func (a *arena) share(ctx context.Context, namespace string, i int) error {
	return a.client.Create(ctx, sharedVolume(namespace, i))
}

func sharedVolume(namespace string, i int) *v1alpha1.SharedVolume {
	return &v1alpha1.SharedVolume{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("volume-%d", i)},
		Spec:       v1alpha1.SharedVolumeSpec{FileSystemID: fileSystem, AccessPointID: fmt.Sprintf("fsap-%017x", i)},
	}
}

// untilBound returns the time from the start of do until n claims of a namespace are Bound.
func (a *arena) untilBound(namespace string, n int, do func()) time.Duration {
	a.Helper()
	wait := a.watchBound(namespace, n)
	began := time.Now()
	do()
	if err := wait(); err != nil {
		a.Fatal(err)
	}
	return time.Since(began)
}

// watchBound returns a function that waits until n claims of a namespace have become Bound from now on.
func (a *arena) watchBound(namespace string, n int) (wait func() error) {
	a.Helper()
	kube, err := kubernetes.NewForConfig(a.Config())
	if err != nil {
		a.Fatal(err)
	}
	claims := kube.CoreV1().PersistentVolumeClaims(namespace)
	list, err := claims.List(a.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		a.Fatal(err)
	}
	watch, err := claims.Watch(a.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		a.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		defer watch.Stop()
		done <- a.countBound(watch, n)
	}()
	return func() error { return <-done }
}

func (a *arena) countBound(claims watch.Interface, n int) error {
	bound, told := map[string]bool{}, time.Now()
	for event := range claims.ResultChan() {
		claim, ok := event.Object.(*corev1.PersistentVolumeClaim)
		if !ok {
			return fmt.Errorf("a watch of claims brought %v", event.Object)
		}
		if claim.Status.Phase == corev1.ClaimBound {
			bound[claim.Name] = true
		}
		if len(bound) == n {
			return nil
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			a.say("%d of %d are bound", len(bound), n)
		}
	}
	return fmt.Errorf("the watch ended when %d of %d were bound", len(bound), n)
}

// The kinds of a SharedVolume and its objects.
var (
	volumes       = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolume"}
	claims        = schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}
	sharedVolumes = v1alpha1.GroupVersion.WithKind("SharedVolume")
	ofNoNamespace = map[schema.GroupVersionKind]bool{volumes: true}
)

// remove deletes all objects of some kinds, in a namespace if they have one, and waits until the cluster has no
// SharedVolumes and none of their objects. It returns how long that took.
func (a *arena) remove(namespace string, kinds ...schema.GroupVersionKind) time.Duration {
	a.Helper()
	began := time.Now()
	for _, kind := range kinds {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		var options []client.DeleteAllOfOption
		if !ofNoNamespace[kind] {
			options = append(options, client.InNamespace(namespace))
		}
		a.await("the deletion of all", func(ctx context.Context) error {
			return a.client.DeleteAllOf(ctx, object, options...) // times out if there are thousands
		})
	}
	a.await("all to be gone", func(ctx context.Context) error {
		for _, kind := range []schema.GroupVersionKind{sharedVolumes, claims, volumes} {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(kind)
			if err := a.client.List(ctx, list, client.Limit(1)); err != nil {
				return err
			}
			if len(list.Items) > 0 {
				return fmt.Errorf("%s %s is left", kind.Kind, list.Items[0].Name)
			}
		}
		return nil
	})
	return time.Since(began)
}
