package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newCatalogCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "catalog",
		Short: "Build, check and serve catalogs of bundles",
		Long: `A catalog tells the Operator Lifecycle Manager (OLM) which packages there are, by which channels
they are updated, and what their bundles hold. It is a folder of YAML or JSON files: a file-based
catalog. These commands make such folders, check them, and answer OLM from them.`,
		Args: takesCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCatalogBuildCommand(), newCatalogValidateCommand(), newCatalogRenderCommand(), newCatalogListCommand(),
		newCatalogDiffCommand(), newCatalogPlanCommand(), newCatalogGraphCommand(), newCatalogServeCommand(), newCatalogImageCommand(), newCatalogMirrorCommand())
	return cmd
}

// requiredFlags makes a missing flag a fault of the command line, like a missing argument.
func requiredFlags(cmd *cobra.Command, _ []string) error { return cmd.ValidateRequiredFlags() }

// are returns a number of things as the subject of a sentence, with its verb.
func are(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return count(n, noun) + " are"
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
