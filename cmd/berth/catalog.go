package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
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
	cmd.AddCommand(newCatalogBuildCommand(), newCatalogAddCommand(), newCatalogConvertCommand(), newCatalogValidateCommand(), newCatalogRulesCommand(), newCatalogRenderCommand(), newCatalogListCommand(),
		newCatalogLifecycleCommand(), newCatalogDiffCommand(), newCatalogPlanCommand(), newCatalogGraphCommand(), newCatalogServeCommand(), newCatalogImageCommand(), newCatalogMirrorCommand(), newCatalogUnmirrorCommand())
	return cmd
}

const aboutSources = `A catalog is a folder, or an image: docker://REFERENCE, or just REFERENCE, such as quay.io/example/catalog:v1.
Images are pulled without a container engine, with the credentials of ~/.docker/config.json or Podman's
auth.json. oci:DIR is a folder in the OCI layout, as "berth catalog mirror" and
"berth catalog image --layout" write it.`

// withCatalog opens a catalog and calls do with its readable packages. They must include the named packages, if any. Faults that do not
// prevent this are printed as warnings.
func withCatalog(cmd *cobra.Command, text string, packages []string, do func(*rules.Part) error) (err error) {
	ctx := cmd.Context()
	opened, err := source.Open(ctx, text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	part, err := rules.LoadPart(ctx, opened.Dir, rules.Look, packages...)
	if err != nil {
		return cmp.Or(source.Mistaken(text, source.WantCatalog), notValid(text, opened.Named(err)))
	}
	part.Dir = text
	opened.NameFindings(part.Faults) // part.Warnings are some of these
	printWarnings(cmd, text, part.Warnings)
	return opened.Named(do(part))
}

// mistaken returns an error if an argument of a failed command is not of the kind that the command wants.
func mistaken(args []string, want source.Wanted) error {
	for _, arg := range args {
		if err := source.Mistaken(arg, want); err != nil {
			return err
		}
	}
	return nil
}

// warningsLimit is the maximum number of warnings about a catalog from commands whose purpose is not to check it.
const warningsLimit = 5

// printWarnings prints the faults of a catalog that do not stop a command.
func printWarnings(cmd *cobra.Command, catalog string, found []*findings.Finding) {
	for _, f := range found[:min(len(found), warningsLimit)] {
		cmd.PrintErrf("warning: %s (%s)\n", f.Error(), f.Rule)
	}
	if more := len(found) - warningsLimit; more > 0 {
		cmd.PrintErrf("warning: and %d more; `%s` lists all\n", more, escape.Command("berth catalog validate %s", catalog))
	}
}

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
