// Package early answers "berth version" before the other packages of the program are initialized: client-go, OLM's resolver and CEL take
// half again as much memory and four times as long for that as the answer may.
//
// Go initializes packages in the order of their import paths, each once all that it imports are
// (https://go.dev/ref/spec#Program_initialization). This one imports next to nothing, so it comes before nearly all others.
package early

import (
	"os"

	"github.com/berth-csi/berth/cmd/internal/version/stamp"
)

func init() {
	if len(os.Args) == 2 && isBerth(os.Args[0]) && (os.Args[1] == "version" || os.Args[1] == "--version") {
		if _, err := os.Stdout.WriteString(stamp.Line("berth")); err != nil {
			return // the command reports it
		}
		os.Exit(0)
	}
}

// isBerth reports whether the program is called by its own name, or as a plugin, and not as another program.
func isBerth(program string) bool {
	for i := len(program) - 1; i >= 0; i-- {
		if os.IsPathSeparator(program[i]) {
			program = program[i+1:]
			break
		}
	}
	return program == "berth" || program == "kubectl-berth" || program == "oc-berth" || program == "berth.exe"
}
