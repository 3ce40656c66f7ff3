package opm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/cmd/internal/faults"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// verdict is the output of opm validate with --output.
type verdict struct {
	Passed bool           `json:"passed"`
	Error  *verdictReason `json:"error,omitempty"`
}

type verdictReason struct {
	Message string `json:"message"`
}

func newValidateCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "validate DIR",
		Short: "Check whether the catalog in a folder can be served",
		Long: `Check whether the catalog in a folder can be served. All faults are reported at once, with file, line and column.
"berth catalog validate" also finds what OLM never installs.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err != nil {
				return err
			} else if !info.IsDir() {
				return fmt.Errorf("%s is a file; expected the folder of a catalog", args[0])
			}
			var fault error
			if !isEmpty(args[0]) {
				_, fault = rules.Load(cmd.Context(), args[0])
			}
			if output == "" {
				if fault != nil {
					return &faults.Listed{Head: args[0] + " is not a valid catalog:", Faults: fault}
				}
				return nil
			}
			said := verdict{Passed: fault == nil}
			if fault != nil {
				said.Error = &verdictReason{fault.Error()}
			}
			if err := writeVerdict(cmd, said, output); err != nil {
				return err
			}
			if fault != nil {
				return errReported
			}
			return nil
		},
	}
	addOutputFlag(cmd, &output, "", "json", "yaml")
	return cmd
}

// writeVerdict prints a verdict as opm does: in YAML with an empty line at the end.
func writeVerdict(cmd *cobra.Command, v verdict, format string) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil && format == "yaml" {
		text, err = escape.YAML(text)
	} else {
		text = escape.VisibleJSON(text)
	}
	if err != nil {
		return errors.Join(errors.New("printing the result"), err)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), string(text))
	return err
}
