package opm

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/cmd/internal/version/stamp"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of opm that this one does the work of, and the build of Berth",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "Version: version.Version{OpmVersion:%q, GitCommit:%q, BuildDate:\"\", GoOs:%q, GoArch:%q}\n",
				Version, "berth "+stamp.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
