// Package memory has programs stay within the memory of their containers.
package memory

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// Tune configures the garbage collector to run when garbage is a percentage of what is used, and more often close to a limit in bytes,
// of which a tenth is left for memory outside of the heap. 0 means no limit. GOMEMLIMIT takes precedence.
func Tune(percent int, limit int64) {
	debug.SetGCPercent(percent)
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}

// limits are the files with the limit of a container, as its processes see them: of the second version of control groups, and of the first
// (https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/memory.html).
var limits = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// noLimit is at least what the first version of control groups says where there is no limit, in bytes.
const noLimit = 1 << 60

// OfContainer returns the limit on the memory of the container, in bytes, or 0 if it has none.
func OfContainer() int64 { return limitIn(limits) }

func limitIn(files []string) int64 {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && limit > 0 && limit < noLimit {
			return limit
		}
	}
	return 0
}

// Release gives memory that is no longer used back to the operating system, which Go would keep for a while.
func Release() { debug.FreeOSMemory() }
