package sharedvolume

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// usersFresh is how old an answer of users may be. Many claims of a namespace are often deleted
// together; they share one list of its pods.
const usersFresh = 5 * time.Second

// users finds the pods that hold a claim. It lists the pods of the claim's namespace when asked, and
// keeps none: a cache of all pods of a cluster would be larger than everything else here together.
type users struct {
	reader  client.Reader
	flights singleflight.Group

	mu          sync.Mutex
	byNamespace map[string]podsByClaim
}

// podsByClaim has the names of the pods that hold a claim, by the claim's name.
type podsByClaim struct {
	names map[string][]string
	at    time.Time
}

func newUsers(reader client.Reader) *users {
	return &users{reader: reader, byNamespace: map[string]podsByClaim{}}
}

// of returns the names of the pods that hold a claim, sorted.
func (u *users) of(ctx context.Context, namespace, claim string) ([]string, error) {
	u.mu.Lock()
	known, ok := u.byNamespace[namespace]
	u.mu.Unlock()
	if ok && time.Since(known.at) < usersFresh {
		return known.names[claim], nil
	}
	answer, err, _ := u.flights.Do(namespace, func() (any, error) { return u.list(ctx, namespace) })
	if err != nil {
		return nil, fmt.Errorf("listing the pods of namespace %s: %w", namespace, err)
	}
	return answer.(podsByClaim).names[claim], nil
}

// list asks for the pods page by page, so that a namespace with thousands costs little memory.
func (u *users) list(ctx context.Context, namespace string) (podsByClaim, error) {
	found := podsByClaim{names: map[string][]string{}, at: time.Now()}
	for page := ""; ; {
		pods := &corev1.PodList{}
		if err := u.reader.List(ctx, pods, client.InNamespace(namespace), client.Limit(500), client.Continue(page)); err != nil {
			return podsByClaim{}, err
		}
		for _, pod := range pods.Items {
			// Kubernetes' own protection of claims goes by the same: a pod that is on no node yet
			// will not get there with a claim that is being deleted.
			if pod.Spec.NodeName == "" {
				continue
			}
			for _, volume := range pod.Spec.Volumes {
				if source := volume.PersistentVolumeClaim; source != nil {
					found.names[source.ClaimName] = append(found.names[source.ClaimName], pod.Name)
				}
			}
		}
		if page = pods.Continue; page == "" {
			break
		}
	}
	for _, names := range found.names {
		slices.Sort(names)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	maps.DeleteFunc(u.byNamespace, func(_ string, old podsByClaim) bool { return time.Since(old.at) >= usersFresh })
	u.byNamespace[namespace] = found
	return found, nil
}
