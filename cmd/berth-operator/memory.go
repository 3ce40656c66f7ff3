package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/berth-csi/berth/cmd/internal/memory"
	"github.com/berth-csi/berth/drivers"
)

// gcPercent is the garbage collector's target percentage. The operator allocates little once a driver is installed. So
// four times as many collections as by default cost next to nothing, and garbage takes up a fifth of the memory instead
// of half of it.
const gcPercent = 25

// tuneMemory keeps the operator within the container's memory limit, which is in its environment.
func tuneMemory() error {
	var limit int64
	if text := os.Getenv(drivers.MemoryLimitEnv); text != "" && os.Getenv("GOMEMLIMIT") == "" {
		var err error
		if limit, err = strconv.ParseInt(text, 10, 64); err != nil || limit <= 0 {
			return fmt.Errorf("the variable %s is %q, want the limit on the container's memory as a number of bytes", drivers.MemoryLimitEnv, text)
		}
	}
	memory.Tune(gcPercent, limit)
	return nil
}
