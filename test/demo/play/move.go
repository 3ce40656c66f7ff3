package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/crds"
	"github.com/berth-csi/berth/migrate/move"
	"github.com/berth-csi/berth/olm/refusal"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/community"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/olmv1/standin"
)

// moving is the move of the EFS operator from OLM v0 to OLM v1, and back, while it serves SharedVolumes.
type moving struct {
	*mainJob
	bundle *refusal.Bundle
	kinds  []community.Kind
	stops  []func() // of the stand-in for OLM v1
}

// runMove shows a move. OLM v0 is real. OLM v1 is played, as its programs are not in a plain clone.
func runMove(ctx context.Context, s *demo) error {
	// OLM v1 is played by this process, so each run starts from the beginning.
	if err := cluster.Stop(ctx, clusterFolder(s.folder)); err != nil && !errors.Is(err, cluster.ErrNotRunning) {
		return err
	}
	m := &moving{mainJob: &mainJob{demo: s, access: access}}
	defer func() {
		for _, stop := range m.stops {
			stop()
		}
	}()
	if err := m.run(ctx,
		stage{"local cluster", s.startCluster},
		stage{"bundle", s.generateBundle},
		stage{"catalog", s.buildCatalog(s.path("bundle"), "catalog")},
		stage{"catalog source", s.serveCatalog(catalogName, "catalog")},
		stage{"subscription", s.subscribe(catalogName)},
		stage{"driver", m.installDriver},
		stage{"grant", m.grant},
		stage{"shared volume", m.share},
		stage{"OLM v1", m.playV1},
		stage{"record", m.record},
	); err != nil {
		return err
	}
	for _, to := range []move.Target{move.ToV1, move.ToV0} {
		authority, err := filepath.Rel(m.root, m.authority())
		if err != nil {
			return err
		}
		args := []string{m.driver.Package.Name, "--catalogd-ca", authority}
		if to == move.ToV0 {
			args = append(args, "--to", string(to))
		}
		for _, verb := range []string{"plan", "apply"} {
			if err := m.show(ctx, append([]string{"berth", "move", verb}, args...)...); err != nil {
				return err
			}
		}
		if err := m.compare(ctx, to); err != nil {
			return err
		}
	}
	fmt.Println("\nOLM v1 is not played any more.")
	m.demo.farewell(staysUp, m.onPath(m.home),
		"kubectl berth move status "+m.driver.Package.Name,
		"kubectl -n "+namespace+" get subscription,csv,pods",
		"kubectl get sharedvolumes -A",
	)
	return nil
}

// authority returns the file with the authority of the stand-in for catalogd.
func (m *moving) authority() string { return m.path("catalogd.crt") }

// playV1 makes stand-ins play OLM v1 for the catalog that OLM v0 has. In that catalog, the bundle has an image, which nobody pulls.
func (m *moving) playV1(ctx context.Context) (string, error) {
	c := m.cluster.Client()
	if err := crds.OLMv1.Create(ctx, c); err != nil {
		return "", err
	}
	config, err := declcfg.LoadFS(ctx, os.DirFS(m.path("catalog")))
	if err != nil {
		return "", err
	}
	for i := range config.Bundles {
		config.Bundles[i].Image = "registry.example.com/bundle:" + config.Bundles[i].Name
	}
	catalog, _, err := fbc.Parse(catalogName, config)
	if err != nil {
		return "", err
	}
	name := m.driver.Package.Name + ".v" + version
	if m.bundle, err = refusal.FromCatalog(catalog.Find(m.driver.Package.Name).FindBundle(name)); err != nil {
		return "", err
	}
	trusted, stop, err := standin.ServeCatalog(ctx, c, catalogName, *config)
	if err != nil {
		return "", err
	}
	m.stops = append(m.stops, stop)
	applier := &standin.Applier{Client: c, Bundle: m.bundle, Namespace: namespace}
	m.stops = append(m.stops, applier.Start(func(err error) { fmt.Fprintln(os.Stderr, err) }))
	return "is played: a stand-in takes over what is marked as OLM v1 wants it, and restarts no pod; the real one, in `make prove SUITE=move`, restarts the operator's, as the plan says", os.WriteFile(m.authority(), trusted, 0o644)
}

// record saves what has to stay.
func (m *moving) record(ctx context.Context) (string, error) {
	inNamespace := []client.ListOption{client.InNamespace(namespace)}
	for _, definition := range m.bundle.CRDs {
		m.kinds = append(m.kinds, community.Kind{Name: "API " + definition.Spec.Names.Plural, List: &apiextensionsv1.CustomResourceDefinitionList{},
			Options: []client.ListOption{client.MatchingFields{"metadata.name": definition.Name}}, Good: "served", State: func(o client.Object) string {
				if o.GetDeletionTimestamp() != nil {
					return "being deleted"
				}
				return "served"
			}})
	}
	m.kinds = append(m.kinds,
		community.Kind{Name: "SharedVolume", List: &sharedvolume.SharedVolumeList{}, Good: string(sharedvolume.Ready),
			State: func(o client.Object) string { return string(o.(*sharedvolume.SharedVolume).Status.Phase) }},
		community.Kind{Name: "Deployment", List: &appsv1.DeploymentList{}, Options: inNamespace, Good: "Available", State: func(o client.Object) string {
			if d := o.(*appsv1.Deployment); d.Status.AvailableReplicas == 0 || d.Status.AvailableReplicas < *d.Spec.Replicas {
				return fmt.Sprintf("%d of %d pods available", d.Status.AvailableReplicas, *d.Spec.Replicas)
			}
			return "Available"
		}},
		community.Kind{Name: "Pod", List: &corev1.PodList{}, Options: inNamespace, Good: "Running, never restarted", State: func(o client.Object) string {
			p := o.(*corev1.Pod)
			for _, status := range p.Status.ContainerStatuses {
				if status.RestartCount > 0 {
					return fmt.Sprintf("%s, with a container that restarted %d times", p.Status.Phase, status.RestartCount)
				}
			}
			return string(p.Status.Phase) + ", never restarted"
		}},
	)
	return "what has to stay, with its UIDs", save(ctx, m.cluster.Client(), m.kinds, nil)
}

// compare checks that no object was lost and no pod was restarted, and that the operator works.
func (m *moving) compare(ctx context.Context, to move.Target) error {
	before, err := readRecord(ctx, m.cluster.Client())
	if err != nil {
		return err
	}
	fmt.Println()
	for _, kind := range m.kinds {
		if err := m.run(ctx, stage{kind.Name, func(ctx context.Context) (string, error) { return before.compare(ctx, m.cluster.Client(), kind) }}); err != nil {
			return err
		}
	}
	return m.run(ctx, stage{"new shared volume", func(ctx context.Context) (string, error) {
		v := &sharedvolume.SharedVolume{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "made-under-" + string(to)}, Spec: m.access}
		claim, err := journey.Share(ctx, m.cluster.Client(), v)
		return fmt.Sprintf("the operator works under %s: %s is Ready, its claim %s is Bound", to, v.Name, claim), err
	}})
}
