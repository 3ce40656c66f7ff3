package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

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

// switching is the switch from the community's operator to ours, while its volumes are in use.
type switching struct{ *demo }

func runSwitch(ctx context.Context, s *demo) error {
	if err := s.buildDriver(ctx, community.LaterImages); err != nil {
		return err
	}
	w := switching{s}
	if err := w.setUp(ctx); err != nil {
		return err
	}
	pkg := w.driver.Package.Name
	first := []string{"berth", "switch", "plan", pkg, "--to", certifiedCatalog, "--create-driver"}
	if w.inProgress(ctx) {
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

// setUp starts the cluster, and the community's operator with everything that it creates over time, unless an earlier
// run did.
func (w switching) setUp(ctx context.Context) error {
	stages := []stage{
		{"local cluster", w.startCluster},
		{"community's catalog", w.buildCatalog(filepath.Join(w.root, "test", "community", "bundle"), "community")},
		{"community's catalog source", w.serveCatalog(communityCatalog, "community")},
		{"certified bundle", w.generateBundle},
		{"certified catalog", w.buildCatalog(w.path("bundle"), "certified")},
		{"certified catalog source", w.serveCatalog(certifiedCatalog, "certified")},
	}
	if w.archives != nil {
		stages = slices.Insert(stages, 1, stage{"cloud", w.startCloud})
	}
	if err := w.run(ctx, stages...); err != nil {
		return err
	}
	if before, err := readRecord(ctx, w.cluster.Client()); err != nil || before != nil {
		return err
	}
	return w.run(ctx,
		stage{"community's operator", w.subscribe(communityCatalog)},
		stage{"what it creates over time", w.leave},
		stage{"lock", w.holder},
	)
}

// leave creates the community operator's objects, and records them.
func (w switching) leave(ctx context.Context) (string, error) {
	for _, share := range shares {
		if err := w.cluster.EnsureNamespace(ctx, share.Namespace); err != nil {
			return "", err
		}
	}
	if err := community.Leave(ctx, w.cluster.Client(), namespace, shares); err != nil {
		return "", err
	}
	result := fmt.Sprintf("the driver, and %d SharedVolumes that pods use", len(shares))
	if w.archives == nil {
		return result, save(ctx, w.cluster.Client(), community.Kinds(namespace), nil)
	}
	mounts, err := w.startWriters(ctx)
	if err != nil {
		return "", err
	}
	result += fmt.Sprintf("; %d pods write throughout", len(writers))
	return result, save(ctx, w.cluster.Client(), community.Kinds(namespace), mounts)
}

// holder returns the operator that holds the lock.
func (w switching) holder(ctx context.Context) (string, error) {
	pod, err := journey.LockHolder(ctx, w.cluster.Client(), namespace, w.driver.Operator.Lock)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is held by a pod of %s", w.driver.Operator.Lock, pod.Spec.Containers[0].Image), nil
}

// inProgress reports whether an earlier run was interrupted during the switch.
func (w switching) inProgress(ctx context.Context) bool {
	request := subscription.Request{Package: w.driver.Package.Name, Namespace: namespace}
	status, err := subscription.Switch.Status(ctx, w.connection(), request)
	return err == nil && status.Phase == migrate.Applying
}

// compare checks that no object was lost, and reports the active operator.
func (w switching) compare(ctx context.Context) error {
	before, err := readRecord(ctx, w.cluster.Client())
	if err != nil {
		return err
	}
	fmt.Println()
	for _, kind := range community.Kinds(namespace) {
		if err := w.run(ctx, stage{kind.Name, func(ctx context.Context) (string, error) {
			return before.compare(ctx, w.cluster.Client(), kind)
		}}); err != nil {
			return err
		}
	}
	stages := []stage{{"lock", w.holder}}
	if w.archives != nil {
		stages = append(stages, stage{"writers", func(ctx context.Context) (string, error) { return w.compareWriters(ctx, before, writers) }})
	}
	return w.run(ctx, stages...)
}

func (w switching) farewell() {
	w.demo.farewell(staysUp, w.onPath(w.home),
		"kubectl berth switch status "+w.driver.Package.Name,
		"kubectl get sharedvolumes,pvc,pods -A",
		"kubectl -n "+namespace+" get subscription,csv,daemonset",
		"kubectl get events -A --field-selector reason=Adopted",
	)
}
