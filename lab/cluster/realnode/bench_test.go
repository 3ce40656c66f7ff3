package realnode_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/realnode/machine"
)

// BenchmarkNode measures the cost of a real node until it is ready, with its cluster starting beside it.
func BenchmarkNode(b *testing.B) {
	if err := machine.Missing(); err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		c := cluster.Start(b, cluster.Options{RealNodes: 1})
		root, err := c.NodeRoot(cluster.RealNode(0))
		require.NoError(b, err)
		// One of the first things that the node's first process makes.
		began, err := os.Stat(filepath.Join(root, "opt/node"))
		require.NoError(b, err)
		b.ReportMetric(time.Since(began.ModTime()).Seconds(), "s-to-ready")
		b.ReportMetric(groupValue(b, root, "cpuacct/cpuacct.usage")/float64(time.Second), "CPU-s/node")
		b.ReportMetric(groupValue(b, root, "memory/memory.max_usage_in_bytes")/(1<<20), "MiB/node")
	}
}

// groupValue returns a value of the control group that has all of a node's processes.
func groupValue(b *testing.B, root, name string) float64 {
	b.Helper()
	content, err := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", name))
	require.NoError(b, err)
	value, err := strconv.ParseFloat(strings.TrimSpace(string(content)), 64)
	require.NoError(b, err)
	return value
}
