package sharedvolume

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/internal/listing"
)

const (
	// usersMaxAge is how old a result may be, and the minimum time between two lists of one namespace's pods. Many claims of a
	// namespace are often deleted together; they share one list.
	usersMaxAge = 10 * time.Second
	// listTimeout is how long listing the pods of a namespace may take. It is enough for some 100,000 pods on a slow API server.
	listTimeout = 5 * time.Minute
	// listBackoff times the duration of a list is the minimum time until the next list of that namespace's pods: a namespace
	// may have thousands of pods of 1 MiB each.
	listBackoff = 20
	// listWorkers is how many namespaces' pods are listed at the same time.
	listWorkers = 2
	// usersRetention is how long a result is kept if nobody asks for it.
	usersRetention = time.Minute
	// maxUsers is how many pods are kept for a claim; a message names fewer.
	maxUsers = maxNamedUsers + 1
)

// users finds the pods that use a claim. It lists the pods of the claim's namespace on demand, and keeps only the names
// of pods that use a claim in question: a cache of all pods of a cluster would need more memory than everything else
// here. It lists in the background and requeues the SharedVolumes that asked, because tenants control how long a list
// takes.
type users struct {
	list func(ctx context.Context, namespace string, do func(pod) error) error
	// requeue requeues a SharedVolume when there is a result for its claim. It must not call back.
	requeue func(types.NamespacedName)
	now     func() time.Time
	queue   workqueue.TypedDelayingInterface[string] // the namespaces to list

	mu          sync.Mutex
	byNamespace map[string]*usersOfNamespace
}

// usersOfNamespace are the questions and results about one namespace, by the claims' names.
type usersOfNamespace struct {
	asked map[string]types.NamespacedName // the SharedVolumes to requeue when there is a result
	used  map[string]time.Time            // when each claim was last looked up
	found map[string][]string             // the names of the pods
	at    time.Time                       // of the result
	next  time.Time                       // when they may be listed again
}

// pod is the part of a pod that users reads.
type pod struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Volumes []struct {
			PersistentVolumeClaim *corev1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim"`
		} `json:"volumes"`
	} `json:"spec"`
}

// newUsers returns users that list pods with a client of the core API.
func newUsers(core rest.Interface) *users {
	return &users{
		list: func(ctx context.Context, namespace string, do func(pod) error) error {
			// Kubernetes' own protection of claims ignores unscheduled pods, too: they will not be scheduled with a claim that is
			// being deleted.
			return listing.Each(ctx, core, listing.List{Resource: "pods", Namespace: namespace, Fields: "spec.nodeName!="}, do)
		},
		now:         time.Now,
		queue:       workqueue.NewTypedDelayingQueue[string](),
		byNamespace: map[string]*usersOfNamespace{},
	}
}

// lookUp returns the names of pods that use a claim, sorted. If pending, the names are an earlier result, if any, and the asking
// SharedVolume is requeued when there is a new one.
func (u *users) lookUp(claim, asking types.NamespacedName) (names []string, pending bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.byNamespace[claim.Namespace]
	if of == nil {
		of = &usersOfNamespace{asked: map[string]types.NamespacedName{}, used: map[string]time.Time{}}
		u.byNamespace[claim.Namespace] = of
	}
	of.used[claim.Name] = u.now()
	names, known := of.found[claim.Name]
	if known && u.now().Sub(of.at) < usersMaxAge {
		return names, false
	}
	of.asked[claim.Name] = asking
	u.queue.AddAfter(claim.Namespace, max(0, of.next.Sub(u.now())))
	return names, true
}

// Start lists pods until ctx ends.
func (u *users) Start(ctx context.Context) error {
	var group sync.WaitGroup
	for range listWorkers {
		group.Go(func() {
			for {
				namespace, ended := u.queue.Get()
				if ended {
					return
				}
				u.refresh(ctx, namespace)
				u.queue.Done(namespace)
			}
		})
	}
	<-ctx.Done()
	u.queue.ShutDown()
	group.Wait()
	return nil
}

// refresh lists the pods of a namespace for all questions so far.
func (u *users) refresh(ctx context.Context, namespace string) {
	u.mu.Lock()
	of := u.byNamespace[namespace]
	if of == nil || len(of.asked) == 0 {
		u.mu.Unlock()
		return
	}
	began := u.now()
	if left := of.next.Sub(began); left > 0 {
		u.mu.Unlock()
		u.queue.AddAfter(namespace, left)
		return
	}
	asked := of.asked
	of.asked, of.next = map[string]types.NamespacedName{}, began.Add(listTimeout)
	// Claims with a result get a new one, too, even if only another claim was asked about: without it, nothing would be known about them
	// until the next list.
	maps.DeleteFunc(of.used, func(claim string, at time.Time) bool {
		_, isAsked := asked[claim]
		return !isAsked && began.Sub(at) > usersRetention
	})
	claims := slices.Collect(maps.Keys(of.used))
	u.mu.Unlock()

	found, err := u.find(ctx, namespace, claims)
	ended := u.now()

	u.mu.Lock()
	of.next = ended.Add(max(usersMaxAge, listBackoff*ended.Sub(began)))
	if err != nil {
		maps.Copy(asked, of.asked)
		of.asked = asked
	} else {
		of.found, of.at = found, ended
	}
	waiting := len(of.asked) > 0
	maps.DeleteFunc(u.byNamespace, func(_ string, other *usersOfNamespace) bool {
		return len(other.asked) == 0 && ended.Sub(other.at) > usersRetention && ended.After(other.next)
	})
	u.mu.Unlock()

	if err != nil {
		klog.FromContext(ctx).Error(err, "Listing the pods that use claims", "namespace", namespace, "retryAfter", of.next.Sub(ended).Round(time.Second))
	} else {
		klog.FromContext(ctx).V(4).Info("Listed the pods that use claims", "namespace", namespace, "claims", len(asked), "duration", ended.Sub(began))
	}
	if waiting {
		u.queue.AddAfter(namespace, of.next.Sub(ended))
	}
	if err == nil {
		for _, sharedVolume := range asked {
			u.requeue(sharedVolume)
		}
	}
}

// find returns the pods that use the claims in question. The result has an entry for each of these claims.
func (u *users) find(ctx context.Context, namespace string, claims []string) (map[string][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	found := make(map[string][]string, len(claims))
	for _, claim := range claims {
		found[claim] = nil
	}
	err := u.list(ctx, namespace, func(p pod) error { // The API server lists pods in the order of their names.
		for _, volume := range p.Spec.Volumes {
			if volume.PersistentVolumeClaim == nil {
				continue
			}
			claim := volume.PersistentVolumeClaim.ClaimName
			names, isAsked := found[claim]
			if isAsked && len(names) < maxUsers && (len(names) == 0 || names[len(names)-1] != p.Metadata.Name) {
				found[claim] = append(names, p.Metadata.Name)
			}
		}
		return nil
	})
	return found, err
}
