package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/realnode/machine"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/session"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/release"
)

// simulatedCloud is a cloud with a cluster in it. Its process also keeps the cluster.
type simulatedCloud struct {
	// name is the name of the platform, as users give it.
	name string
	// olm says whether the cluster has OLM, and snapshots whether it has the API of snapshots.
	olm, snapshots bool
	// archives builds the images that the cluster needs.
	archives func(context.Context, func(tools.Progress)) (map[string]string, error)
	// start starts the cloud until the test ends.
	start func(testing.TB, *demo) (testbed.Cloud, error)
}

// build builds the images and the nodes.
func (c simulatedCloud) build(ctx context.Context, s *demo) error {
	if err := machine.Missing(); err != nil {
		return fmt.Errorf("drivers need nodes with containers: %w", err)
	}
	return s.printer.Stage("drivers, sidecars, nodes", func() (string, error) {
		if _, err := c.archives(ctx, s.printer.Progress); err != nil {
			return "", err
		}
		if _, err := tools.Kubelet(ctx, s.printer.Progress); err != nil {
			return "", err
		}
		_, err := tools.Containerd(ctx, s.printer.Progress)
		return "built", err
	})
}

// startCluster returns a function that starts the process of the cloud and the cluster, unless the cluster is up.
func (c simulatedCloud) startCluster(s *demo) func(context.Context) (string, error) {
	return func(ctx context.Context) (_ string, err error) {
		if s.cluster, err = cluster.Find(clusterFolder(s.folder)); err == nil {
			return upAlready(s.cluster), nil
		}
		if !errors.Is(err, cluster.ErrNotRunning) {
			return "", err
		}
		if err := os.MkdirAll(s.folder, 0o755); err != nil {
			return "", err
		}
		if err := s.startCloudProcess(ctx); err != nil {
			return "", err
		}
		s.cluster, err = cluster.Find(clusterFolder(s.folder))
		return fmt.Sprintf("is up, in a simulated cloud of the platform %s", c.name), err
	}
}

// run starts the cloud and a cluster in it, and serves the cloud until the cluster ends.
func (c simulatedCloud) run(ctx context.Context, s *demo) error {
	archives, err := c.archives(ctx, nil)
	if err != nil {
		return err
	}
	folder := clusterFolder(s.folder)
	return session.Run(ctx, s.name, os.Stderr, func(t testing.TB) {
		cloud, err := c.start(t, s)
		require.NoError(t, err)
		s.cluster, err = cluster.Up(t.Context(), folder, cluster.Options{
			OLM: c.olm, RealNodes: len(testbed.Nodes), ImageArchives: archives, Reachable: cloud.Servers,
			Images: map[string]string{release.OperatorImage: s.program("berth-operator"), journey.UserImage: s.program("user"), catalogImage: s.program("berth")},
		}, nil)
		require.NoError(t, err)
		entered := false
		t.Cleanup(func() {
			if err := cluster.Stop(context.Background(), folder); !entered && err != nil {
				t.Error(err)
			}
		})
		testbed.Enter(t, s.cluster, testbed.Options{Cloud: cloud, Snapshots: c.snapshots})
		entered = true
		fmt.Println(ready)
		require.NoError(t, s.awaitEnd(t.Context()))
	})
}
