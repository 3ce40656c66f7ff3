// Package memory keeps programs within the memory of their containers.
package memory

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// Tune configures the garbage collector to run when garbage is a percentage of live memory, and more often close to a limit in bytes. It
// leaves a tenth of the limit for memory outside of the heap. 0 means no limit. GOMEMLIMIT takes precedence.
func Tune(percent int, limit int64) {
	debug.SetGCPercent(percent)
	if limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 10 * 9)
	}
}

// The files with the memory limit of a control group, in version 2 and in version 1 of control groups: %s is the path of the group
// (https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/memory.html). A container often sees
// its own group as the root.
const (
	limitFile      = "/sys/fs/cgroup%s/memory.max"
	firstLimitFile = "/sys/fs/cgroup/memory%s/memory.limit_in_bytes"
)

// noLimit is a size in bytes from which a limit of cgroup v1 means no limit.
const noLimit = 1 << 60

// OfContainer returns the limit on the memory of the container, in bytes, or 0 if it has none.
func OfContainer() int64 {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	return limitIn(filesOf(string(groups)))
}

// filesOf returns the files that may contain the limit. groups is the content of /proc/self/cgroup: each line has a hierarchy, its
// controllers and the group.
func filesOf(groups string) (files []string) {
	for line := range strings.Lines(groups) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch controllers, group, _ := strings.Cut(rest, ":"); {
		case controllers == "":
			files = append(files, fmt.Sprintf(limitFile, strings.TrimSuffix(group, "/")), fmt.Sprintf(limitFile, ""))
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			files = append(files, fmt.Sprintf(firstLimitFile, strings.TrimSuffix(group, "/")), fmt.Sprintf(firstLimitFile, ""))
		}
	}
	return files
}

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

// Settle is for a server that has started: it sets the garbage collector's percentage, and returns the memory that only the start needed
// to the operating system.
func Settle(percent int) {
	debug.SetGCPercent(percent)
	debug.FreeOSMemory()
}
