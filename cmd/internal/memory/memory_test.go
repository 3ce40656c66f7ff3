package memory

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTune(t *testing.T) {
	t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64); debug.SetGCPercent(100) })
	for _, test := range []struct {
		name, goLimit string
		limit, want   int64
	}{
		{"no limit", "", 0, math.MaxInt64},
		{"a limit", "", 50 << 20, 45 << 20},
		{"GOMEMLIMIT takes precedence", "1GiB", 50 << 20, math.MaxInt64},
	} {
		debug.SetMemoryLimit(math.MaxInt64)
		t.Setenv("GOMEMLIMIT", test.goLimit)
		Tune(50, test.limit)
		if got := debug.SetMemoryLimit(-1); got/10 != test.want/10 {
			t.Errorf("%s: the limit is %d, want %d", test.name, got, test.want)
		}
		assert.EqualValuesf(t, 50, debug.SetGCPercent(50), "%s: the percentage", test.name)
	}
}

func TestLimitOfContainer(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	limited, unlimited, first := write("limited", "52428800\n"), write("unlimited", "max\n"), write("first", "9223372036854771712\n")
	for _, test := range []struct {
		name  string
		files []string
		want  int64
	}{
		{"a limit", []string{limited}, 50 << 20},
		{"none in the second version", []string{unlimited}, 0},
		{"none in the first version", []string{filepath.Join(dir, "absent"), first}, 0},
		{"a limit in the first version", []string{filepath.Join(dir, "absent"), limited}, 50 << 20},
		{"no control groups", nil, 0},
	} {
		assert.EqualValues(t, test.want, limitIn(test.files), test.name)
	}
}

func TestFilesOfControlGroups(t *testing.T) {
	const first = "8:pids:/\n4:cpu,memory:/pods/one\n0::/\n"
	want := []string{"/sys/fs/cgroup/memory/pods/one/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.max"}
	assert.Empty(t, cmp.Diff(want, filesOf(first)), "-want +got")
	want = []string{"/sys/fs/cgroup/pods/one/memory.max", "/sys/fs/cgroup/memory.max"}
	assert.Empty(t, cmp.Diff(want, filesOf("0::/pods/one\n")), "-want +got")
}
