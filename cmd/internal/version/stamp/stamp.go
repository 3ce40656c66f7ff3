// Package stamp has the version with which a program was built. It imports next to nothing, so that it is initialized early.
package stamp

import (
	"runtime"
	"runtime/debug"
)

// version is set by the linker; without it, Version uses Go's build information.
var version string

// Version returns the version of Berth, such as "v1.0.0", or "(devel)" if the build does not know it.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Platform returns the operating system and the architecture, such as "linux/amd64".
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// Line returns the version line of a command, with a line end.
func Line(command string) string {
	return command + " " + Version() + " (" + runtime.Version() + ", " + Platform() + ")\n"
}
