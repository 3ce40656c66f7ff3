package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/bundle/registryv1/cache"
	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/openshift"
)

// catalogBuild holds the flags of "berth catalog build".
type catalogBuild struct {
	output       string
	migrateLevel string
	openshift    []string
	strandNobody bool
	updateGraph  string
	against      string

	name func([]*findings.Finding) // names the files of --against in findings, or is nil
}

// newCatalogBuildCommand returns the command catalog build, which runs package catalog/build.
func newCatalogBuildCommand() *cobra.Command {
	o := &catalogBuild{}
	cmd := &cobra.Command{
		Use:   "build (TEMPLATE... | BUNDLE_DIR...) --output-dir DIR",
		Short: "Build a catalog from templates, or from the bundle folders of one package",
		Long: `Write DIR/PACKAGE/catalog.yaml for each package, from its template or from its bundles alone. Other
packages in DIR are left unchanged. The same input always gives the same bytes. A catalog.yaml that this
command wrote before is replaced; anything else in its place is left alone and reported as an error.

A template is a file, - for standard input, or a folder of templates. It lists the bundles and says what the
channels offer:

  schema: berth.template
  package: tide
  defaultChannel: stable             # optional if there is one channel
  bundles:
  - folder: bundles/0.1.0            # relative to the template
  - folder: bundles/0.2.0
  - image: quay.io/example/tide-bundle:v0.3.0
  channels:
  - name: preview                    # without entries: all bundles
  - name: stable
    skipRange: '>=0.1.0-0 <0.2.0'    # the default for entries
    entries:
    - version: 0.1.0                 # or name: tide.v0.1.0
    - version: 0.2.0
  deprecations:                      # of the package, a channel or a bundle
  - bundle: 0.1.0
    message: tide 0.1.0 forgets the moon. Update to 0.2.0.

An entry replaces the latest earlier version that it does not skip. The first entry replaces what its
ClusterServiceVersion says, in this catalog or in another. skips and skipRange are those of the
ClusterServiceVersion. The fields replaces, skips and skipRange of an entry override these; '' and [] mean
none. The package has the icon and the description of the default channel's head, unless the template has
an icon (a file) or a description.

Templates of opm are built as well, of the schemas olm.template.basic, olm.semver and
olm.template.substitutes. The documents are the same as from "opm alpha render-template". An image may also
be a folder relative to the template. Entries that OLM never installs get a warning; --strand-nobody corrects
the graph.

All faults of a template are printed to standard error as
  FILE:LINE:COLUMN: SEVERITY: MESSAGE (RULE)
and nothing is written if one of them is an error. The rules of "berth catalog validate" apply, too, and with
--against those for a catalog that replaces another one.

A bundle from a folder carries all its objects, so that OLM installs it from the catalog alone. For a
bundle from an image, OLM pulls the image, and the catalog has a description, or all objects:
--migrate-level chooses, as in opm. A template of Berth has the image by digest, and one of opm as it is
written. Credentials for registries come from ~/.docker/config.json or Podman's auth.json. Registries on loopback are accessed
without encryption. Bundles that were pulled are kept in the user's cache, at most 1 GiB of them.

With --openshift, there is a catalog for each of these versions, DIR/vVERSION/PACKAGE/catalog.yaml, with
the bundles that the version offers by their annotation com.redhat.openshift.versions, in the format of its
catalogs.

Without a template, name the folders of all bundles of one package, in any order. Their annotations name
their channels and the default channel, and their ClusterServiceVersions define the upgrade edges:
spec.replaces, spec.skips and the annotation olm.skipRange. With --update-graph=semver-mode, as ci.yaml has
it in operator repositories, each version replaces the one before it.`,
		Example: `  # Write catalog/tide/catalog.yaml and catalog/moon/catalog.yaml
  berth catalog build tide.yaml moon.yaml --output-dir catalog

  # From the templates of an operator repository, the catalogs for two versions of OpenShift
  berth catalog build operators/tide/catalog-templates/semver.yaml \
    --openshift 4.16,4.18 --output-dir catalogs

  # Without a template: list every version that the catalog offers
  berth catalog build bundles/1.0.0 bundles/1.0.1 --output-dir catalog`,
		Args:              cobra.MatchAll(takes("(TEMPLATE... | BUNDLE_DIR...)"), o.checkOutput),
		ValidArgsFunction: files,
		RunE:              o.run,
	}
	flags := cmd.Flags()
	addOutputDir(cmd, &o.output, "`DIR` folder of the catalog; created if it does not exist (required)")
	flags.StringVar(&o.migrateLevel, "migrate-level", "", "`level` of bundles from images: "+strings.Join(migrateLevels, ", ")+" (default none for templates of opm, as there, and the other for those of Berth)")
	flags.StringSliceVar(&o.openshift, "openshift", nil, "`versions` of OpenShift that get a catalog each, such as 4.16,4.18")
	flags.BoolVar(&o.strandNobody, "strand-nobody", false, "make heads skip the entries that templates of opm leave without an update")
	flags.StringVar(&o.updateGraph, "update-graph", string(build.ByReplaces), "`mode` of bundle folders: "+strings.Join(graphModes, " or "))
	flags.StringVar(&o.against, "against", "", "`catalog` that the new one replaces: nobody who installed from it may be stranded")
	completeFlag(cmd, "against", folders)
	completeFlag(cmd, "migrate-level", oneOf(migrateLevels...))
	completeFlag(cmd, "update-graph", oneOf(graphModes...))
	return cmd
}

func (o *catalogBuild) checkOutput(*cobra.Command, []string) error {
	if o.output == "" {
		return errors.New("--output-dir is missing: want the folder of the catalog")
	}
	return nil
}

// migrateLevels are the values of --migrate-level.
var migrateLevels = texts(render.BundleFormats)

// graphModes are the values of --update-graph.
var graphModes = texts(build.Graphs)

// texts converts values of a string type to strings.
func texts[T ~string](values []T) (all []string) {
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}

func (o *catalogBuild) run(cmd *cobra.Command, args []string) (err error) {
	options, err := o.options()
	if err != nil {
		return &usageError{command: cmd.CommandPath(), err: err}
	}
	bundles, err := areBundles(args)
	if err != nil {
		return err
	}
	if o.against == "" {
		return o.build(cmd, args, bundles, options)
	}
	opened, err := source.Open(cmd.Context(), o.against)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	part, err := rules.LoadPart(cmd.Context(), opened.Dir, rules.Look)
	if err != nil {
		return cmp.Or(source.Mistaken(o.against, source.WantCatalog), notValid(o.against, opened.Named(err)))
	}
	options.Against = part.Catalog
	o.name = opened.NameFindings
	return opened.Named(o.build(cmd, args, bundles, options))
}

func (o *catalogBuild) build(cmd *cobra.Command, args []string, bundles bool, options build.Options) error {
	if bundles {
		return o.fromBundles(cmd, args, options)
	}
	return o.fromTemplates(cmd, args, options)
}

// options converts the flags to the options of package build.
func (o *catalogBuild) options() (options build.Options, err error) {
	if o.migrateLevel != "" && !slices.Contains(migrateLevels, o.migrateLevel) {
		return options, fmt.Errorf("--migrate-level is %q, want one of %s", o.migrateLevel, strings.Join(migrateLevels, ", "))
	}
	if !slices.Contains(graphModes, o.updateGraph) {
		return options, fmt.Errorf("--update-graph is %q, want one of %s", o.updateGraph, strings.Join(graphModes, ", "))
	}
	if o.migrateLevel != "" && len(o.openshift) > 0 {
		return options, errors.New("--openshift chooses the level of each version; leave --migrate-level out")
	}
	options.Format, options.StrandNobody = render.Format(o.migrateLevel), o.strandNobody
	for _, text := range o.openshift {
		v, err := openshift.Parse(text)
		if err != nil {
			return options, fmt.Errorf("--openshift: %w", err)
		}
		if !slices.Contains(options.Versions, v) {
			options.Versions = append(options.Versions, v)
		}
	}
	return options, nil
}

// areBundles reports whether arguments are folders of bundles, and not templates.
func areBundles(args []string) (bundles bool, err error) {
	var folder, template string // the first ones
	for _, arg := range args {
		if arg == build.Stdin {
			template = cmp.Or(template, arg)
			continue
		}
		info, err := os.Stat(arg)
		if err != nil {
			return false, fmt.Errorf("expected a template or a bundle folder: %w", err)
		}
		if info.IsDir() && (registryv1.IsFolder(arg) || !build.HasTemplates(arg)) {
			folder = cmp.Or(folder, arg)
		} else {
			template = cmp.Or(template, arg)
		}
	}
	if folder != "" && template != "" {
		return false, fmt.Errorf("%s is a bundle folder, and %s is not; want templates only, or bundle folders only", folder, template)
	}
	return folder != "", nil
}

func (o *catalogBuild) fromBundles(cmd *cobra.Command, args []string, options build.Options) error {
	stop := startProgress(cmd.ErrOrStderr(), "reading bundles")
	defer stop()
	for _, flag := range []string{"migrate-level", "openshift", "strand-nobody"} {
		if cmd.Flags().Changed(flag) {
			return &usageError{command: cmd.CommandPath(), err: fmt.Errorf("--%s is for templates, and %s is a bundle folder; write a template that lists the folders", flag, args[0])}
		}
	}
	built, err := build.Folders(cmd.Context(), args, build.Graph(o.updateGraph), options.Against)
	stop()
	if err != nil {
		if other := mistaken(args, source.WantContent); other != nil {
			return other
		}
	}
	if err := errors.Join(err, o.report(cmd, built)); err != nil {
		return err
	}
	return o.write(cmd, built.Catalogs)
}

func (o *catalogBuild) fromTemplates(cmd *cobra.Command, args []string, options build.Options) (err error) {
	if cmd.Flags().Changed("update-graph") {
		return &usageError{command: cmd.CommandPath(), err: errors.New("--update-graph is for bundle folders; a template says what its entries replace")}
	}
	if dir, err := cache.Dir(); err == nil { // without a cache folder, bundles are pulled each time
		kept := cache.New(dir, cache.Limit)
		options.Keeper = kept
		defer func() {
			if err := kept.Close(); err != nil {
				cmd.PrintErrf("warning: %v\n", err)
			}
		}()
	}
	var read, all atomic.Int64
	options.Stdin = cmd.InOrStdin()
	options.Progress = func(done, of int) {
		read.Store(int64(done))
		all.Store(int64(of))
	}
	stop := startLive(cmd.ErrOrStderr(), func(taken time.Duration) string {
		return fmt.Sprintf("reading bundles: %d of %d … %ds", read.Load(), all.Load(), int(taken.Seconds()))
	})
	defer stop()
	built, err := build.Templates(cmd.Context(), args, options)
	stop()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, built.Close()) }()
	if findings.Count(built.Found, findings.Error) > 0 {
		if err := mistaken(args, source.WantContent); err != nil {
			return err
		}
	}
	if err := o.report(cmd, built); err != nil {
		return err
	}
	if len(built.Catalogs) == 0 {
		return fmt.Errorf("no catalog is written: no bundle is for OpenShift %s", strings.Join(o.openshift, ", "))
	}
	for _, v := range options.Versions {
		if !slices.ContainsFunc(built.Catalogs, func(c *build.Catalog) bool { return c.Folder == v.Folder() }) {
			cmd.PrintErrf("no catalog for OpenShift %s: no bundle is for it\n", v)
		}
	}
	return o.write(cmd, built.Catalogs)
}

// report prints what was found in templates or bundles. If one of the findings is an error, report fails.
func (o *catalogBuild) report(cmd *cobra.Command, built *build.Built) error {
	if o.name != nil {
		o.name(built.Found)
	}
	printFindings(cmd, built.Found)
	if faults := findings.Count(built.Found, findings.Error); faults > 0 {
		return errors.Join(fmt.Errorf("no catalog is written: %s", count(faults, "error")), built.Advice)
	}
	return nil
}

func (o *catalogBuild) write(cmd *cobra.Command, catalogs []*build.Catalog) error {
	for _, c := range catalogs {
		file, err := c.Write(o.output)
		if err != nil {
			return err
		}
		cmd.PrintErrf("wrote %s: %s, %s, %s\n", file, count(len(c.Config.Packages), "package"),
			count(len(c.Config.Channels), "channel"), count(len(c.Config.Bundles), "bundle"))
	}
	return nil
}
