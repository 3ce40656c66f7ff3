package prediction

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime/metrics"
	"slices"
	"sync/atomic"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/api/client/clientset/versioned"
	typed "github.com/operator-framework/operator-lifecycle-manager/pkg/api/client/clientset/versioned/typed/operators/v1alpha1"
	listersv1 "github.com/operator-framework/operator-lifecycle-manager/pkg/api/client/listers/operators/v1"
	listers "github.com/operator-framework/operator-lifecycle-manager/pkg/api/client/listers/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/lib/operatorlister"
	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientcache "k8s.io/client-go/tools/cache"
)

// globalNamespace stands for the namespace of global catalogs, whose real name does not matter.
const globalNamespace = "global"

// resolution is the choice of OLM's resolver in a namespace.
type resolution struct {
	// chosen are the names of the ClusterServiceVersions to install, by Subscription.
	chosen map[string]string
	// created are the Subscriptions that OLM creates for dependencies. Their spec.startingCSV names the
	// ClusterServiceVersion to install.
	created []*v1alpha1.Subscription
}

// resolverTime limits the time of OLM's resolver for one namespace, including all later updates. That time can grow exponentially with the
// catalog, and OLM sets no limit.
var resolverTime = 30 * time.Second

// resolverMemory limits by how many bytes the heap may grow while OLM's resolver runs. The resolver sets no limit for this either.
var resolverMemory uint64 = 768 << 20

// errSlow says that the resolver takes too long, and errLarge that it takes too much memory.
var (
	errSlow  = fmt.Errorf("OLM's resolver takes longer than %s: OLM will, too", resolverTime)
	errLarge = fmt.Errorf("OLM's resolver takes more than %d MiB of memory: OLM will, too", resolverMemory>>20)
)

// isLarge is set once a resolver has taken too much memory. That resolver takes more until the process ends, so no other resolver starts.
var isLarge atomic.Bool

// heap returns the size of the heap in bytes.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// resolve runs OLM's own resolver until the deadline, or until the context ends. Its error is the message that OLM would
// write into the condition ResolutionFailed of all Subscriptions of the namespace.
func (st *State) resolve(ctx context.Context) (*resolution, error) {
	type outcome struct {
		*resolution
		err error
	}
	if !time.Now().Before(st.deadline) {
		return nil, errSlow
	}
	if isLarge.Load() {
		return nil, errLarge
	}
	done := make(chan outcome, 1)
	go func() { // the resolver takes no context, so a slow one runs until the process ends
		defer func() {
			if cause := recover(); cause != nil {
				done <- outcome{nil, fmt.Errorf("OLM's resolver, which OLM's catalog operator runs, too, crashes on this catalog: %v", cause)}
			}
		}()
		r, err := st.run()
		done <- outcome{r, err}
	}()
	limit := time.NewTimer(time.Until(st.deadline))
	defer limit.Stop()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for before := heap(); ; {
		select {
		case o := <-done:
			return o.resolution, o.err
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-limit.C:
			return nil, errSlow
		case <-ticker.C:
			if heap() > before+resolverMemory {
				isLarge.Store(true)
				return nil, errLarge
			}
		}
	}
}

func (st *State) run() (*resolution, error) {
	st = st.withoutUnread()
	log := logrus.New()
	log.SetOutput(io.Discard)
	lister, client := st.lister(), clientset{subscriptions: st.Subscriptions}
	olm := resolver.NewOperatorStepResolver(lister, client, globalNamespace,
		resolver.NewOperatorCacheProvider(lister, client, st.sources(), log), log)
	steps, lookups, updated, err := olm.ResolveSteps(st.Namespace)
	if err != nil {
		return nil, err
	}
	r := &resolution{chosen: map[string]string{}}
	for _, s := range updated {
		r.chosen[s.Name] = s.Status.CurrentCSV
	}
	for _, s := range st.Subscriptions {
		// If the Subscription's status already has the choice, the resolver does not report it again.
		if slices.ContainsFunc(lookups, func(l v1alpha1.BundleLookup) bool { return l.Identifier == s.Status.CurrentCSV }) {
			r.chosen[s.Name] = s.Status.CurrentCSV
		}
	}
	for _, step := range steps {
		if step.Resource.Kind != v1alpha1.SubscriptionKind {
			continue
		}
		created := &v1alpha1.Subscription{}
		if err := json.Unmarshal([]byte(step.Resource.Manifest), created); err != nil {
			return nil, fmt.Errorf("what OLM's resolver makes of %s: %w", step.Resolving, err)
		}
		r.created = append(r.created, created)
	}
	return r, nil
}

// lister serves the objects of the State to the resolver.
func (st *State) lister() operatorlister.OperatorLister {
	lister := operatorlister.NewLister()
	lister.OperatorsV1alpha1().RegisterSubscriptionLister(st.Namespace, listers.NewSubscriptionLister(indexed(st.Subscriptions)))
	lister.OperatorsV1alpha1().RegisterClusterServiceVersionLister(st.Namespace, listers.NewClusterServiceVersionLister(indexed(st.CSVs)))
	for _, s := range st.CatalogSources { // for their priorities
		lister.OperatorsV1alpha1().RegisterCatalogSourceLister(s.Namespace, listers.NewCatalogSourceLister(indexed(st.CatalogSources)))
	}
	lister.OperatorsV1().RegisterOperatorGroupLister(st.Namespace, listersv1.NewOperatorGroupLister(indexed(st.OperatorGroups)))
	return lister
}

func indexed[T runtime.Object](objects []T) clientcache.Indexer {
	indexer := clientcache.NewIndexer(clientcache.MetaNamespaceKeyFunc, clientcache.Indexers{clientcache.NamespaceIndex: clientcache.MetaNamespaceIndexFunc})
	for _, o := range objects {
		_ = indexer.Add(o) // it fails only for objects without metadata
	}
	return indexer
}

// clientset is the part of a client that the resolver uses besides its listers: it lists Subscriptions.
type clientset struct {
	versioned.Interface
	typed.OperatorsV1alpha1Interface
	typed.SubscriptionInterface
	subscriptions []*v1alpha1.Subscription
}

func (c clientset) OperatorsV1alpha1() typed.OperatorsV1alpha1Interface { return c }

func (c clientset) Subscriptions(string) typed.SubscriptionInterface { return c }

// List returns copies, because the resolver modifies its input.
func (c clientset) List(context.Context, metav1.ListOptions) (*v1alpha1.SubscriptionList, error) {
	list := &v1alpha1.SubscriptionList{}
	for _, s := range c.subscriptions {
		list.Items = append(list.Items, *s.DeepCopy())
	}
	return list, nil
}
