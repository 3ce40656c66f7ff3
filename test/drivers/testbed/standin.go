package testbed

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/standin/backend"
)

// StandIn is the storage behind a stand-in for a driver.
type StandIn struct {
	*backend.Backend
	t testing.TB
}

// StartStandIn starts the storage until the test ends. login fails if the driver may not log in; nil lets it in.
func StartStandIn(t testing.TB, login func(backend.Login) error) *StandIn {
	t.Helper()
	started, err := backend.Start(backend.Options{
		Folder: t.TempDir(), Login: login,
		Nodes: func(id string) bool { return slices.Contains(Nodes, id) },
	})
	require.NoError(t, err)
	t.Cleanup(started.Close)
	return &StandIn{started, t}
}

// Behind returns a cloud where the driver also finds the storage.
func (s *StandIn) Behind(cloud Cloud) Cloud {
	servers := map[string]string{backend.Address: s.ListensAt()}
	for at, to := range cloud.Servers {
		servers[at] = to
	}
	prepare := cloud.Prepare
	cloud.Servers = servers
	cloud.Prepare = func(c *cluster.Cluster) {
		for _, node := range Nodes {
			require.NoError(s.t, c.MountOn(node, s.Folder(), backend.Folder))
		}
		if prepare != nil {
			prepare(c)
		}
	}
	return cloud
}

// Left returns the names of all that is left of a kind, one of folders.Kinds.
func (s *StandIn) Left(t testing.TB, kind string) []string {
	t.Helper()
	names, err := s.Names(kind)
	require.NoError(t, err)
	return names
}
