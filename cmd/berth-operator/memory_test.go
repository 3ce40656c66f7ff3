package main

import (
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/berth-csi/berth/drivers"
)

func TestTuneMemory(t *testing.T) {
	t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64); debug.SetGCPercent(100) })
	for _, test := range []struct {
		limit, goLimit string
		want           int64
		err            string
	}{
		{"", "", math.MaxInt64, ""},
		{"536870912", "", 483183819, ""},
		{"536870912", "1GiB", math.MaxInt64, ""}, // The runtime has read that one when the program began.
		{"512Mi", "", math.MaxInt64, `the variable MEMORY_LIMIT is "512Mi", want`},
		{"0", "", math.MaxInt64, "as a number of bytes"},
	} {
		debug.SetMemoryLimit(math.MaxInt64)
		t.Setenv(drivers.MemoryLimitEnv, test.limit)
		t.Setenv("GOMEMLIMIT", test.goLimit)
		err := tuneMemory()
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%+v: the answer is %v", test, err)
		}
		if got := debug.SetMemoryLimit(-1); got/10 != test.want/10 {
			t.Errorf("%+v: the limit is %d", test, got)
		}
	}
}
