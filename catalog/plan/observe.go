package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/api/client/clientset/versioned"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/catalog"
)

// Observe reads what OLM decides from in a cluster: a world for each namespace that has Subscriptions,
// in order. An empty namespace stands for all. The worlds have no catalogs. It only reads.
func Observe(ctx context.Context, config *rest.Config, namespace string) ([]*World, error) {
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	version, err := kubernetesVersion(client)
	if err != nil {
		return nil, err
	}
	subscriptions, err := client.OperatorsV1alpha1().Subscriptions(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("the cluster at %s has no Operator Lifecycle Manager: it knows no Subscriptions", config.Host)
	} else if err != nil {
		return nil, fmt.Errorf("listing Subscriptions: %w", err)
	}
	csvs, err := client.OperatorsV1alpha1().ClusterServiceVersions(namespace).List(ctx, metav1.ListOptions{LabelSelector: "!" + v1alpha1.CopiedLabelKey})
	if err != nil {
		return nil, fmt.Errorf("listing ClusterServiceVersions: %w", err)
	}
	groups, err := client.OperatorsV1().OperatorGroups(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing OperatorGroups: %w", err)
	}
	conditions, err := client.OperatorsV2().OperatorConditions(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing OperatorConditions: %w", err)
	}

	var worlds []*World
	for _, s := range subscriptions.Items {
		if slices.ContainsFunc(worlds, func(w *World) bool { return w.Namespace == s.Namespace }) {
			continue
		}
		worlds = append(worlds, &World{
			Namespace:      s.Namespace,
			Kubernetes:     version,
			Subscriptions:  in[v1alpha1.Subscription](s.Namespace, subscriptions.Items),
			CSVs:           in[v1alpha1.ClusterServiceVersion](s.Namespace, csvs.Items),
			OperatorGroups: in[operatorsv1.OperatorGroup](s.Namespace, groups.Items),
			Conditions:     in[operatorsv2.OperatorCondition](s.Namespace, conditions.Items),
		})
	}
	slices.SortFunc(worlds, func(a, b *World) int { return strings.Compare(a.Namespace, b.Namespace) })
	return worlds, nil
}

// kubernetesVersion asks for the version of the API server.
func kubernetesVersion(client versioned.Interface) (*semver.Version, error) {
	info, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking the API server for its version: %w", err)
	}
	version, err := semver.ParseTolerant(info.GitVersion)
	if err != nil {
		return nil, fmt.Errorf("the API server says that its version is %q: %w", info.GitVersion, err)
	}
	version.Pre, version.Build = nil, nil // OLM, too, takes 1.30.0-rc.1 for 1.30.0
	return &version, nil
}

// in returns the objects of one namespace, by name.
func in[T any, P interface {
	*T
	metav1.Object
}](namespace string, objects []T) (found []P) {
	for i := range objects {
		if o := P(&objects[i]); o.GetNamespace() == namespace {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b P) int { return strings.Compare(a.GetName(), b.GetName()) })
	return found
}

// Put puts a catalog into the place of those that Subscriptions to its packages name, and says how many
// these are. What other Subscriptions have stays as it is.
func (w *World) Put(c *catalog.Catalog) (subscriptions int) {
	w.Catalogs = map[Source]*catalog.Catalog{}
	for _, s := range w.Subscriptions {
		if c.Find(s.Spec.Package) == nil {
			continue
		}
		s.Spec.CatalogSource, s.Spec.CatalogSourceNamespace = madeUpSource, w.Namespace
		w.Catalogs[sourceOf(s)] = c
		subscriptions++
	}
	// One that has nothing yet is up to a catalog that nobody has read.
	w.Subscriptions = slices.DeleteFunc(w.Subscriptions, func(s *v1alpha1.Subscription) bool {
		return w.Catalogs[sourceOf(s)] == nil && w.csv(s.Status.InstalledCSV) == nil
	})
	return subscriptions
}
