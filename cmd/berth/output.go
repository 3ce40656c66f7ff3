package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// addOutputFlag adds the flag -o, for one of several formats, to a command whose Args and RunE are set. If json is a format, it adds yaml.
// Any other format is a fault of the command line.
func addOutputFlag(cmd *cobra.Command, into *string, value string, formats []string) {
	if i := slices.Index(formats, "json"); i >= 0 && !slices.Contains(formats, inYAML) {
		formats = slices.Insert(slices.Clone(formats), i+1, inYAML)
		cmd.RunE = asYAML(cmd.RunE, into)
	}
	cmd.Flags().StringVarP(into, "output", "o", value, "`format` of standard output: "+strings.Join(formats, ", "))
	completeFlag(cmd, "output", oneOf(formats...))
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if watch := cmd.Flags().Lookup("watch"); *into == inYAML && watch != nil && watch.Changed {
			return fmt.Errorf("--output is %q, want text or json with --watch", *into)
		}
		if !slices.Contains(formats, *into) {
			return fmt.Errorf("--output is %q, want one of %s", *into, strings.Join(formats, ", "))
		}
		return check(cmd, args)
	}
}

// addOutputDir adds the flag --output-dir. Its earlier name, --output, still works, but is hidden, because it means a format elsewhere.
func addOutputDir(cmd *cobra.Command, into *string, usage string) {
	for _, name := range []string{"output-dir", "output"} {
		cmd.Flags().StringVar(into, name, "", usage)
		completeFlag(cmd, name, folders)
	}
	cmd.Flags().Lookup("output").Hidden = true
	cmd.MarkFlagsMutuallyExclusive("output-dir", "output")
}

const inYAML = "yaml"

// asYAML wraps the function of a command: if the format is yaml, the command's JSON is written as YAML.
func asYAML(run func(*cobra.Command, []string) error, format *string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if *format != inYAML {
			return run(cmd, args)
		}
		out, report := cmd.OutOrStdout(), &bytes.Buffer{}
		cmd.SetOut(report)
		*format = "json"
		failed := run(cmd, args)
		if report.Len() == 0 {
			return failed
		}
		text, err := escape.YAML(report.Bytes())
		if err == nil {
			_, err = out.Write(text)
		}
		return cmp.Or(failed, err)
	}
}
