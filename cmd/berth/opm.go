package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/cmd/internal/opm"
)

// isOPM reports whether this program is called as opm.
func isOPM(program string) bool { return filepath.Base(program) == opm.Name }

func newOPMCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "opm COMMAND...",
		Short: "Run commands of opm",
		Long: `Run a command of opm ` + opm.Version + `: "berth opm render catalog" does what "opm render catalog" does. Linked as opm, this program
does the same, so that Makefiles, Dockerfiles and pipelines which call opm need no change. Flags, outputs and exit codes are opm's.
"berth opm --help" lists the commands; the other commands of berth have more.`,
		Example: `  # In place of opm
  ln -s "$(command -v berth)" bin/opm
  PATH=$PWD/bin:$PATH make catalog

  # Once
  berth opm validate catalog`,
		Annotations:        found("it failed, whatever the reason"),
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			face := opm.New()
			face.SetIn(cmd.InOrStdin())
			face.SetOut(cmd.OutOrStdout())
			face.SetErr(cmd.ErrOrStderr())
			if code := opm.Execute(cmd.Context(), face, args); code != exitFine {
				return &exitError{code: code}
			}
			return nil
		},
	}
}
