package main

import (
	"context"
	"fmt"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/subscription"
	"github.com/berth-csi/berth/test/community"
	"github.com/berth-csi/berth/test/journey"
)

const (
	communityCatalog = "community-operators"
	certifiedCatalog = "certified-operators"
)

// shares are the SharedVolumes of application teams, each with a pod that uses it.
var shares = []client.ObjectKey{
	{Namespace: "shop", Name: "website"}, {Namespace: "shop", Name: "photos"}, {Namespace: "shop", Name: "invoices"},
	{Namespace: "blog", Name: "articles"}, {Namespace: "blog", Name: "uploads"},
}

// switching is the way from the community's operator to ours, with volumes in use all the time.
type switching struct{ *stage }

func playSwitch(ctx context.Context, s *stage) error {
	w := switching{s}
	if err := w.setUp(ctx); err != nil {
		return err
	}
	pkg := w.driver.Package.Name
	first := []string{"berth", "switch", "plan", pkg, "--to", certifiedCatalog, "--create-driver"}
	if w.underWay(ctx) {
		first = []string{"berth", "switch", "status", pkg}
	}
	if err := w.show(ctx, first...); err != nil {
		return err
	}
	if err := w.show(ctx, "berth", "switch", "apply", pkg, "--to", certifiedCatalog, "--create-driver"); err != nil {
		return err
	}
	if err := w.compare(ctx); err != nil {
		return err
	}
	w.farewell()
	return nil
}

// setUp brings the cluster, and the community's operator with all that it has made in time, unless they
// are there from an earlier run.
func (w switching) setUp(ctx context.Context) error {
	err := w.play(ctx,
		step{"local cluster", w.startCluster},
		step{"community's catalog", w.buildCatalog(filepath.Join(w.root, "test", "community", "bundle"), "community")},
		step{"community's catalog source", w.serveCatalog(communityCatalog, "community")},
		step{"certified bundle", w.generateBundle},
		step{"certified catalog", w.buildCatalog(w.path("bundle"), "certified")},
		step{"certified catalog source", w.serveCatalog(certifiedCatalog, "certified")},
	)
	if err != nil {
		return err
	}
	if before, err := recall(ctx, w.cluster.Client()); err != nil || before != nil {
		return err
	}
	return w.play(ctx,
		step{"community's operator", w.subscribe(communityCatalog)},
		step{"what it makes in time", w.leave},
		step{"lock", w.holder},
	)
}

// leave makes what the community's operator would have made, and remembers it.
func (w switching) leave(ctx context.Context) (string, error) {
	for _, share := range shares {
		if err := w.cluster.EnsureNamespace(ctx, share.Namespace); err != nil {
			return "", err
		}
	}
	if err := community.Leave(ctx, w.cluster.Client(), namespace, shares); err != nil {
		return "", err
	}
	err := remember(ctx, w.cluster.Client(), community.Kinds(namespace))
	return fmt.Sprintf("the driver, and %d SharedVolumes that pods use", len(shares)), err
}

// holder says which operator is active.
func (w switching) holder(ctx context.Context) (string, error) {
	pod, err := journey.LockHolder(ctx, w.cluster.Client(), namespace, w.driver.Operator.Lock)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is held by a pod of %s", w.driver.Operator.Lock, pod.Spec.Containers[0].Image), nil
}

// underWay tells whether an earlier run was interrupted while it switched.
func (w switching) underWay(ctx context.Context) bool {
	request := subscription.Request{Package: w.driver.Package.Name, Namespace: namespace}
	status, err := subscription.Switch.Status(ctx, migrate.Cluster{Client: w.cluster.Client()}, request)
	return err == nil && status.Phase == migrate.Applying
}

// compare shows that nobody has lost anything, and who looks after it now.
func (w switching) compare(ctx context.Context) error {
	before, err := recall(ctx, w.cluster.Client())
	if err != nil {
		return err
	}
	fmt.Println()
	for _, kind := range community.Kinds(namespace) {
		if err := w.play(ctx, step{kind.Name, func(ctx context.Context) (string, error) {
			return before.compare(ctx, w.cluster.Client(), kind)
		}}); err != nil {
			return err
		}
	}
	return w.play(ctx, step{"lock", w.holder})
}

func (w switching) farewell() {
	fmt.Printf(`
The cluster stays up until 'make demo-down'. To look at it:

  export KUBECONFIG=%s PATH=%s:$PATH

  kubectl berth switch status %[3]s
  kubectl get sharedvolumes,pvc,pods -A
  kubectl -n %[4]s get subscription,csv,daemonset
  kubectl get events -A --field-selector reason=Adopted
`, w.cluster.Kubeconfig(), w.home, w.driver.Package.Name, namespace)
}
