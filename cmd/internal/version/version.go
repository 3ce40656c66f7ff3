// Package version says which build of Berth's commands this is.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	apimachinery "k8s.io/apimachinery/pkg/version"
)

// version is stamped by the linker; a build without the stamp tells what Go knows of it.
var version string

// Get returns the build's version, such as "v1.0.0".
func Get() apimachinery.Info {
	v := version
	if v == "" {
		v = "(devel)"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
			v = info.Main.Version
		}
	}
	return apimachinery.Info{GitVersion: v, GoVersion: runtime.Version(), Compiler: runtime.Compiler,
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
}

// NewCommand returns the "version" subcommand.
func NewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this command",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := Get()
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s, %s)\n", cmd.Root().Name(), v.GitVersion, v.GoVersion, v.Platform)
			return err
		},
	}
}
