//go:build light

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// Some commands bring along what is written for servers: OLM's resolver, clients of every API of Kubernetes, and the API
// server's validation. That takes more memory than anything that the others do. With the build tag light, berth is
// without them, and becomes its companion, which is berth built with everything, where one is called.

// companion is the name of that program. By the same name it is a plugin of kubectl.
const companion = "kubectl-berth"

func newBundleValidateCommand() *cobra.Command {
	return newCompanionCommand("validate", bundleValidateShort)
}

func newCatalogPlanCommand() *cobra.Command { return newCompanionCommand("plan", catalogPlanShort) }

func newSwitchCommand() *cobra.Command { return newCompanionCommand("switch", switchShort) }

// newCompanionCommand returns a command that the companion does, as well as its subcommands, help and completion.
func newCompanionCommand(name, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use:                name,
		Short:              short,
		DisableFlagParsing: true,
		RunE:               func(*cobra.Command, []string) error { return becomeCompanion() },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			_ = becomeCompanion() // without it there is nothing to propose
			return nil, cobra.ShellCompDirectiveError
		},
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		if err := becomeCompanion(); err != nil {
			printError(cmd, err)
		}
	})
	return cmd
}

// becomeCompanion makes this process the companion, with the same command line, and so by the same name. It returns only
// if that fails.
func becomeCompanion() error {
	program, err := findCompanion()
	if err != nil {
		return fmt.Errorf("this command needs %s, which is berth with everything: %w", companion, err)
	}
	if err := syscall.Exec(program, os.Args, os.Environ()); err != nil {
		return fmt.Errorf("start %s: %w", program, err)
	}
	return nil
}

// findCompanion looks beside this program, and then on the PATH.
func findCompanion() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	if own, err = filepath.EvalSymlinks(own); err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(own), companion)
	found, err := exec.LookPath(beside)
	if err != nil {
		found, err = exec.LookPath(companion)
	}
	if err != nil {
		return "", fmt.Errorf("neither %s nor one on the PATH can be run; 'make build' makes it", beside)
	}
	// Else this program would become itself, again and again.
	if target, err := filepath.EvalSymlinks(found); err != nil || target == own || filepath.Base(own) == companion {
		return "", fmt.Errorf("%s is without this command, too; 'make build' makes the one that has it", found)
	}
	return found, nil
}
