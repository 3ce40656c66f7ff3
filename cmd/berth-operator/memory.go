package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/berth-csi/berth/drivers"
)

// gcPercent is the garbage collector's target percentage. The operator allocates little once a driver is installed. So
// four times as many collections as by default cost next to nothing, and garbage takes up a fifth of the memory instead
// of half of it.
const gcPercent = 25

// tuneMemory configures the garbage collector to run often, and even more often close to the container's memory limit.
// A tenth of the limit is left for memory outside of the heap. GOMEMLIMIT takes precedence.
func tuneMemory() error {
	debug.SetGCPercent(gcPercent)
	text := os.Getenv(drivers.MemoryLimitEnv)
	if text == "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit <= 0 {
		return fmt.Errorf("the variable %s is %q, want the limit on the container's memory as a number of bytes", drivers.MemoryLimitEnv, text)
	}
	debug.SetMemoryLimit(limit / 10 * 9)
	return nil
}
