// Package early answers "berth version" before the other packages of the program are initialized. The initialization of client-go, OLM's
// resolver and CEL alone takes one and a half times the memory, and four times the time, that the answer may take.
//
// Go initializes packages in the order of their import paths, each after the packages that it imports
// (https://go.dev/ref/spec#Program_initialization). Package early imports next to nothing, so it comes before nearly all others.
//
// It also stops the garbage collector until they are initialized: they keep nearly all that they allocate, so three collections would free
// next to nothing, in a sixth of the program's start.
package early

import (
	"os"
	"runtime/debug"

	"github.com/berth-csi/berth/cmd/internal/version/stamp"
)

// collect starts the garbage collector, with the percentage of GOGC.
var collect = func() {}

func init() {
	if !isBerth(os.Args[0]) {
		return // tests initialize this package, too, and do not call Initialized
	}
	if len(os.Args) == 2 && (os.Args[1] == "version" || os.Args[1] == "--version") {
		if _, err := os.Stdout.WriteString(stamp.Line("berth")); err != nil {
			return // the command version tries again, and reports the error
		}
		os.Exit(0)
	}
	percent := debug.SetGCPercent(-1)
	collect = func() { debug.SetGCPercent(percent) }
}

// Initialized must be called at the beginning of the program's function main. It starts the garbage collector.
func Initialized() { collect() }

// isBerth reports whether the program is called by its own name or as a plugin, and not as opm, for example.
func isBerth(program string) bool {
	for i := len(program) - 1; i >= 0; i-- {
		if os.IsPathSeparator(program[i]) {
			program = program[i+1:]
			break
		}
	}
	return program == "berth" || program == "kubectl-berth" || program == "oc-berth" || program == "berth.exe"
}
