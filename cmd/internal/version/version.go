// Package version says which build of Berth's commands this is.
package version

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/cmd/internal/version/stamp"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// Schema is the schema of Info as JSON.
const Schema = "berth.version.v1"

// Info identifies the build of a command.
type Info struct {
	Schema string `json:"schema"`
	// Version is the version of Berth, such as "v1.0.0", or "(devel)" if the build does not know it.
	Version string `json:"version"`
	// Go is the version of the compiler, such as "go1.26.0".
	Go string `json:"go"`
	// Platform is the operating system and the architecture, such as "linux/amd64".
	Platform string `json:"platform"`
}

// Get returns the version of this build.
func Get() Info {
	return Info{Schema: Schema, Version: stamp.Version(), Go: runtime.Version(), Platform: stamp.Platform()}
}

// AddTo adds the subcommand version and the flag --version to a root command, whose RunE must be set.
func AddTo(root *cobra.Command) {
	root.AddCommand(newCommand())
	// Cobra's own flag uses a template, which makes the linker keep every method of every type.
	asked := root.Flags().Bool("version", false, "print the version of this command")
	run := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if !*asked {
			return run(cmd, args)
		}
		_, err := fmt.Fprint(cmd.OutOrStdout(), stamp.Line(cmd.Name()))
		return err
	}
}

func newCommand() *cobra.Command {
	const text, asJSON = "text", "json"
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this command",
		Args: func(cmd *cobra.Command, args []string) error {
			if output != text && output != asJSON {
				return fmt.Errorf("--output is %q, want one of %s, %s", output, text, asJSON)
			}
			return cobra.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == asJSON {
				return escape.JSON(cmd.OutOrStdout(), Get())
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), stamp.Line(cmd.Root().Name()))
			return err
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", text, "`format` of standard output: text, json")
	return cmd
}
