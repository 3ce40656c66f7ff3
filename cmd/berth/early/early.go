// Package early answers "berth version" before the other packages of the program are initialized. The initialization of client-go, OLM's
// resolver and CEL alone takes one and a half times the memory, and four times the time, that the answer may take.
//
// Go initializes packages in the order of their import paths, each after the packages that it imports
// (https://go.dev/ref/spec#Program_initialization). Package early imports next to nothing, so it comes before nearly all others.
package early

import (
	"os"

	"github.com/berth-csi/berth/cmd/internal/version/stamp"
)

func init() {
	if len(os.Args) == 2 && isBerth(os.Args[0]) && (os.Args[1] == "version" || os.Args[1] == "--version") {
		if _, err := os.Stdout.WriteString(stamp.Line("berth")); err != nil {
			return // the command version tries again, and reports the error
		}
		os.Exit(0)
	}
}

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
