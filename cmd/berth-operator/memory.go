package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/berth-csi/berth/drivers"
)

// gcPercent is how much garbage, of what is alive, may gather before it is collected. An operator
// allocates little once a driver is installed, so four times as many collections as by default cost next to
// nothing, and garbage is a fifth of its memory and not half.
const gcPercent = 25

// tuneMemory has garbage collected often, and so often when memory gets scarce that the container stays within
// its limit as long as what is alive does. The limit is not all for the heap. Go's own variable has precedence.
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
