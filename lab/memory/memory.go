// Package memory measures how much memory the code under test takes.
package memory

import "runtime"

// Allocated returns how many bytes a function allocates, with all that runs at the same time.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
