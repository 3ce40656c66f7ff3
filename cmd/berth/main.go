// Command berth is the toolchain of Berth: it builds the bundles and the catalogs from which the Operator Lifecycle Manager installs
// optional CSI drivers.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/cmd/berth/early"
	"github.com/berth-csi/berth/cmd/internal/logging"
	"github.com/berth-csi/berth/cmd/internal/opm"
	"github.com/berth-csi/berth/cmd/internal/probe"
	"github.com/berth-csi/berth/cmd/internal/version"
)

func main() {
	early.Initialized()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:]))
}

// readOnly are the commands that write nothing, except with --fix=write, and may end at any time. After a signal, other commands first
// complete what they are writing.
var readOnly = []string{"bundle validate", "check", "bundle permissions", "catalog diff", "catalog graph", "catalog lifecycle", "catalog list", "catalog plan", "catalog render", "catalog rules", "catalog validate",
	"switch plan", "switch status", "adopt plan", "adopt status", "move plan", "move status", "csi-migration plan", "csi-migration status", "doctor", "grant list"}

// errInterrupted says that a signal has ended the command.
var errInterrupted = errors.New("interrupted")

// grace is how long a read-only command may take to end by itself after a signal. Its computations may not check for signals.
const grace = 500 * time.Millisecond

// endAfter ends the program soon after the context of a read-only command has ended.
func endAfter(cmd *cobra.Command) {
	if !slices.Contains(readOnly, strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()+" ")) {
		return
	}
	if fix := cmd.Flags().Lookup("fix"); fix != nil && fix.Value.String() == fixWrite {
		return
	}
	context.AfterFunc(cmd.Context(), func() {
		time.AfterFunc(grace, func() {
			printError(cmd.Root(), errInterrupted)
			os.Exit(exitFailed)
		})
	})
}

func run(ctx context.Context, args []string) int {
	if filepath.Base(os.Args[0]) == probe.Name {
		return probe.Run(ctx, args, os.Stdout, os.Stderr)
	}
	if isOPM(os.Args[0]) {
		args = append([]string{opm.Name}, args...)
	}
	root := newCommand()
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: calledAs(os.Args[0])}
	if completerOf(os.Args[0]) != "" {
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	root.SetArgs(withLevels(args))
	show(root)
	// Standard output is for the result of a command. Output of libraries goes to standard error.
	defer func(stdout *os.File) { os.Stdout = stdout }(os.Stdout)
	os.Stdout = os.Stderr
	logging.To(os.Stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitFine
	}
	if ctx.Err() != nil && !errors.Is(err, errInterrupted) { // what a library says of a canceled context is of no use
		printError(root, errInterrupted)
		return exitFailed
	}
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		if exit.err != nil {
			printError(root, explain(exit.err))
		}
		return exit.code
	}
	printError(root, explain(err))
	if usage := (*usageError)(nil); errors.As(err, &usage) {
		root.PrintErrf("See '%s --help'.\n", usage.command)
	}
	return exitFailed
}

// parents are the programs that this one can be a plugin of.
var parents = []string{"kubectl", "oc"}

// calledAs returns how people call this program. As kubectl-berth or oc-berth on the PATH, it is a plugin.
func calledAs(program string) string {
	for _, parent := range parents {
		if filepath.Base(program) == parent+"-berth" || completerOf(program) == parent {
			return parent + " berth"
		}
	}
	return "berth"
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "berth",
		Short: "Package, ship and move optional CSI drivers for OpenShift and OKD",
		Long: `berth builds, checks, compares, mirrors and serves the bundles and catalogs from which the Operator
Lifecycle Manager (OLM) installs any operator, and says what OLM will do with them. For optional CSI drivers, it
makes the bundles. It switches an installed operator from one catalog to another, moves it from OLM v0 to OLM v1, or
hands its driver over to the cluster storage operator. It also switches CSI migration on and off, and says what is
wrong with the drivers of a cluster.

Linked as kubectl-berth or oc-berth, it is a plugin: kubectl berth, oc berth. Linked as kubectl_complete-berth or
oc_complete-berth, it completes the plugin's arguments in a shell. Linked as opm, it has the commands of opm, and as
grpc_health_probe it asks a server for its health.`,
		Example: `  # From a driver's definition to a catalog that OLM can read
  berth bundle generate efs --version 1.0.0 --output-dir bundles/1.0.0
  berth catalog build bundles/1.0.0 --output-dir catalog
  berth catalog serve catalog

  # From the community's operator to the certified one
  berth switch plan aws-efs-operator --to certified-operators

  # From OLM to the cluster storage operator
  berth adopt plan ebs

  # From OLM v0 to OLM v1
  berth move plan aws-efs-operator

  # From volumes with in-tree sources to CSI drivers
  berth csi-migration status

  # What is wrong here?
  berth doctor`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          takesCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(newBundleCommand(), newCatalogCommand(), newSwitchCommand(), newAdoptCommand(), newMoveCommand(), newCSIMigrationCommand(), newCheckCommand(), newDoctorCommand(), newGrantCommand(), newAWSCommand(), newOPMCommand(),
		newOptionsCommand(), newExitCodesCommand())
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		hush(cmd)
		logRequests(cmd)
		endAfter(cmd)
	}
	version.AddTo(root)
	addVerbose(root)
	addQuiet(root)
	root.SetFlagErrorFunc(checkFlags)
	explainUsage(root)
	checkHelp(root)
	explainExit(root)
	addHelp(root)
	return root
}

// usageError is a fault of the command line, not of the command's input.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// explainUsage makes a command and its subcommands report wrong arguments as usage errors.
func explainUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return &usageError{command: cmd.CommandPath(), err: err}
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		explainUsage(sub)
	}
}
