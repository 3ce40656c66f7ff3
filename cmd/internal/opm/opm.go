// Package opm replaces opm in Makefiles, Dockerfiles, pipelines and OLM itself: it has the commands, flags, outputs and exit codes
// of opm 1.73, and leaves the work to the packages of the toolchain.
package opm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/cmd/internal/faults"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/oci"
)

// Name is the name by which the program is called.
const Name = "opm"

// Version is the version of opm that this package imitates.
const Version = "v1.73.0"

// failed is opm's exit code for all failures.
const failed = 1

// New returns opm's root command.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:   Name,
		Short: "Work with catalogs of operators, as opm does",
		Long: `These are the commands and flags of opm ` + Version + `, with its outputs and exit codes, for whatever calls opm by name.
"berth catalog" has the same and more.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		// Without a command, opm prints nothing.
		Run:               func(*cobra.Command, []string) {},
		PersistentPreRunE: reachRegistries,
	}
	flags := root.PersistentFlags()
	flags.Bool("skip-tls", false, "as --use-http, which is its newer name")
	flags.Bool("skip-tls-verify", false, "accept any certificate of a registry that images are pulled from")
	flags.Bool("use-http", false, "pull images from registries without encryption, if they have no HTTPS")
	flags.Bool("debug", false, "accepted, and has no effect")
	for _, name := range []string{"skip-tls", "debug"} {
		if err := flags.MarkHidden(name); err != nil {
			panic(err) // no such flag
		}
	}
	alpha := &cobra.Command{Use: "alpha", Short: "Commands that opm may still change", Args: cobra.NoArgs, Run: root.Run}
	alpha.AddCommand(newListCommand(), newRenderGraphCommand(), newRenderTemplateCommand(), newConvertTemplateCommand())
	generate := &cobra.Command{Use: "generate", Short: "Write Dockerfiles of catalogs"}
	generate.AddCommand(newDockerfileCommand())
	root.AddCommand(newValidateCommand(), newRenderCommand(), newMigrateCommand(), newInitCommand(), generate, newServeCommand(), newVersionCommand(), alpha)
	for _, r := range replaced {
		parent, _, err := root.Find(r.path[:len(r.path)-1])
		if err != nil {
			panic(err) // no such command
		}
		parent.AddCommand(r.command())
	}
	return root
}

// Execute runs a command line, and returns the exit code.
func Execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	if errors.Is(err, errReported) {
		return failed
	}
	lines := faults.Lines(err)
	lines[0] = "Error: " + lines[0]
	for _, line := range lines {
		root.PrintErrln(line)
	}
	if usage := (*usageError)(nil); errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown ") {
		root.PrintErrf("See '%s --help'.\n", cmd.CommandPath())
	}
	return failed
}

// errReported ends a command that has already printed its error.
var errReported = errors.New("reported")

// usageError is a fault of the command line.
type usageError struct{ error }

// reachRegistries makes pulls follow the flags about the encryption of connections to registries.
func reachRegistries(cmd *cobra.Command, _ []string) error {
	var set []string
	for _, name := range []string{"skip-tls", "skip-tls-verify", "use-http"} {
		if on, err := cmd.Flags().GetBool(name); err != nil {
			return err
		} else if on {
			set = append(set, "--"+name)
		}
	}
	if len(set) > 1 {
		return &usageError{fmt.Errorf("%s exclude each other; want one of them", strings.Join(set, " and "))}
	}
	if len(set) == 1 {
		cmd.SetContext(oci.Unverified(cmd.Context()))
	}
	return nil
}

// addOutputFlag adds the flag -o for one of several formats.
func addOutputFlag(cmd *cobra.Command, into *string, value string, formats ...string) {
	cmd.Flags().StringVarP(into, "output", "o", value, "`FORMAT`: "+strings.Join(formats, ", "))
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if *into != value && !slices.Contains(formats, *into) {
			return &usageError{fmt.Errorf("--output is %q, want one of %s", *into, strings.Join(formats, ", "))}
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}

// replacement is a command of opm that is not part of Berth, because it is for SQLite catalogs or another command does the same.
type replacement struct {
	path []string
	// by is the part of the answer that names the replacement.
	by string
}

// replaced are the commands that only print what replaces them.
var replaced = []replacement{
	{[]string{"index"}, "it is for SQLite catalogs, which OLM no longer supports: make a file-based catalog with `opm render BUNDLE...` or `berth catalog build`, and its image with `opm generate dockerfile` or `berth catalog image`"},
	{[]string{"registry"}, "it is for SQLite catalogs, which OLM no longer supports: make a file-based catalog with `opm render BUNDLE...` or `berth catalog build`, and serve it with `opm serve DIR`"},
	{[]string{"alpha", "bundle"}, "use `berth bundle image` to build the image of a bundle, `berth bundle validate` to check one, and `berth bundle bump` to make the next version"},
}

// command returns the command. It accepts any arguments and flags, because its answer is always the same.
func (r replacement) command() *cobra.Command {
	return &cobra.Command{
		Use:                r.path[len(r.path)-1],
		Short:              "Say what replaces it",
		DisableFlagParsing: true,
		PersistentPreRunE:  func(*cobra.Command, []string) error { return nil },
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("%s is not part of Berth; %s", cmd.CommandPath(), r.by)
		},
	}
}

// warn prints a warning.
func warn(cmd *cobra.Command, text string) { cmd.PrintErrf("warning: %s\n", escape.Line(text)) }
