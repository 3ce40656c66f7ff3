package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/mirror/imageset"
	"github.com/berth-csi/berth/catalog/mirror/policy"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/cmd/internal/faults"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/oci"
)

// mirrorCommand holds the flags of the command catalog mirror.
type mirrorCommand struct {
	config    string
	platforms []string
	blocked   []*regexp.Regexp
	// chosen has the packages to mirror, and where to mirror the catalog to, from a file of --config. It is nil if flags say that.
	chosen     *imageset.Catalog
	packages   []string
	defaults   map[string]string
	name, tag  string
	namespace  string
	resources  string
	jobs       int
	time       time.Duration
	hosts      []string
	overwrite  []string
	dryRun     bool
	policy     string
	registries string
	allowed    *policy.Policy // what --policy names
	output     string
}

func newCatalogMirrorCommand() *cobra.Command {
	m := &mirrorCommand{}
	cmd := &cobra.Command{
		Use:   "mirror [SOURCE] DESTINATION",
		Short: "Copy chosen packages of a catalog, with all their images, for disconnected clusters",
		Long: `Copy a smaller catalog, and every image that its bundles need, to a registry that a disconnected cluster
can reach, or to a folder that can be carried there.

SOURCE is the folder of a catalog, the image of one (docker://REFERENCE, or just REFERENCE), or oci:DIR, a
folder that was mirrored to. DESTINATION is a path of a registry (docker://REGISTRY/PATH, or just
REGISTRY/PATH), below which each image has a place with the name of its registry and its repository, or oci:DIR.

--package chooses PACKAGE[/CHANNEL][@RANGE], and may be repeated: without /CHANNEL, all channels; without @RANGE,
all versions. @head is the head of each channel. Without --package, everything is mirrored. Updates between
the chosen versions still work: versions that they go through are added, entries keep what they replace and
skip, and a choice that would strand versions or leave a channel with several heads is refused, with what to
do instead. The rules of "berth catalog validate" apply to the smaller catalog. Its other documents are passed
through.

With --config, a file of oc-mirror v2 (ImageSetConfiguration) names the catalogs, what is chosen of each, additional
images, and images to leave out. Releases of OpenShift and Helm charts in it are left out, with a warning.

Images are copied by digest and unchanged, for all platforms or those of --platform, with what is attached to them: signatures,
SBOMs and provenance, as referrers of OCI or by the tags of cosign. Only what the destination lacks is copied.
If the command is interrupted, repeat it: it continues. An image that its registry does not deliver does not hold up the
others. The catalog comes last, when all images are there.

With --policy, it copies only images with the signatures that the file demands: OpenPGP's (signedBy), found where
--registries-d says, and cosign's with keys (sigstoreSigned). OpenPGP's signatures go to the folder signatures, below
--resources or in oci:DIR, whose files a lookaside server can serve.

A tag of DESTINATION that names something else is set only if this catalog has set it before, which DESTINATION
records, or if --overwrite names it. A catalog from a registry may name no registries at addresses of this machine,
its cloud or private networks, except for its own and those of --allow-host. --dry-run lists registries that are new.

When DESTINATION is a registry, the folder of --resources gets what a cluster needs to use it:
an ImageDigestMirrorSet (and an ImageTagMirrorSet for images that the catalog names by tag), a CatalogSource,
a ClusterCatalog, the smaller catalog, and mirror.json, the same document as -o json.

Credentials for registries come from ~/.docker/config.json or Podman's auth.json. Registries on loopback are
accessed without encryption. The environment variable SSL_CERT_FILE names further CA certificates.`,
		Example: `  # What would be copied, and how large is it?
  berth catalog mirror quay.io/operatorhubio/catalog:latest registry.example.com/mirror \
    --package aws-efs-operator --dry-run

  # From registry to registry
  berth catalog mirror quay.io/operatorhubio/catalog:latest registry.example.com/mirror \
    --package 'aws-efs-operator/stable@>=1.0.0'
  oc apply -f mirror/imagedigestmirrorset.yaml -f mirror/catalogsource.yaml

  # What a file of oc-mirror v2 names
  berth catalog mirror --config imageset.yaml registry.example.com/mirror --dry-run

  # By a folder, which is carried
  berth catalog mirror catalog/certified oci:/media/usb/mirror --package aws-efs-operator
  berth catalog mirror oci:/media/usb/mirror registry.example.com/mirror`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := m.takes(cmd, args); err != nil {
				return err
			}
			if m.time <= 0 {
				return fmt.Errorf("--image-timeout is %s, want more than 0", m.time)
			}
			if m.jobs < 1 || m.jobs > 64 {
				return fmt.Errorf("--jobs is %d, want 1 to 64", m.jobs)
			}
			return nil
		},
		ValidArgsFunction: completing(folders, folders, nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			if m.policy != "" {
				var err error
				if m.allowed, err = policy.Read(m.policy, m.registries); err != nil {
					return err
				}
			}
			if m.config != "" {
				return m.runConfig(cmd, args[0])
			}
			return m.run(cmd, args[0], args[1])
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&m.packages, "package", nil, "`PACKAGE[/CHANNEL][@RANGE]` what to mirror, such as tide, tide/stable or 'tide@>=1.2.0 <2.0.0' (repeatable)")
	flags.StringVarP(&m.config, "config", "c", "", "`file` of oc-mirror v2, an ImageSetConfiguration, that says what to mirror")
	flags.StringArrayVar(&m.platforms, "platform", nil, "`OS/ARCHITECTURE` platform whose images are mirrored, such as linux/amd64 (default all; repeatable)")
	flags.StringToStringVar(&m.defaults, "default-channel", nil, "`PACKAGE=CHANNEL` default channel of a package whose own is not mirrored")
	flags.StringVar(&m.name, "name", "", "`name` of the mirrored catalog, for its image and the objects (default: the source's name)")
	flags.StringVar(&m.tag, "tag", "latest", "`tag` of the catalog's image, under which clusters look for a new one")
	flags.StringVar(&m.namespace, "namespace", "openshift-marketplace", "`namespace` of the CatalogSource")
	flags.StringVar(&m.resources, "resources", "mirror", "`DIR` folder for the objects and the smaller catalog; replaced")
	flags.IntVar(&m.jobs, "jobs", 4, "`number` of images that are copied at a time")
	flags.DurationVar(&m.time, "image-timeout", 2*time.Hour, "longest `time` for each image")
	flags.StringArrayVar(&m.hosts, "allow-host", nil, "`host` of a registry, with its port if it has one, that the catalog may name although it is at an address of this machine or of a private network (repeatable)")
	flags.StringArrayVar(&m.overwrite, "overwrite", nil, "`reference` of a tag in DESTINATION to set although it names something that does not belong to this catalog (repeatable)")
	flags.StringVar(&m.policy, "policy", "", "`file` of containers-policy.json(5), such as /etc/containers/policy.json, that says which signatures images need (default none)")
	flags.StringVar(&m.registries, "registries-d", "/etc/containers/registries.d", "`DIR` folder of containers-registries.d(5), which says where simple signatures for --policy are")
	flags.BoolVar(&m.dryRun, "dry-run", false, "list the images, their sizes and which of them the destination lacks, and copy nothing")
	for flag, by := range map[string]cobra.CompletionFunc{"platform": nothing, "package": completeSelection, "resources": folders, "registries-d": folders, "name": nothing, "tag": nothing, "namespace": nothing, "jobs": nothing, "default-channel": nothing,
		"image-timeout": nothing, "allow-host": nothing, "overwrite": nothing} {
		completeFlag(cmd, flag, by)
	}
	addOutputFlag(cmd, &m.output, "text", []string{"text", "json"})
	return cmd
}

// completeSelection completes PACKAGE and PACKAGE/CHANNEL of a catalog's folder.
func completeSelection(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	pkg, _, inChannel := strings.Cut(typed, "/")
	if !inChannel {
		return packagesOf(0)(cmd, args, typed)
	}
	var all []string
	for _, c := range packageOf(cmd.Context(), args, pkg).Channels {
		all = append(all, pkg+"/"+c.Name)
	}
	return offered(all, typed), cobra.ShellCompDirectiveNoFileComp
}

func (c *mirrorCommand) run(cmd *cobra.Command, from, to string) (err error) {
	options := mirror.Options{Choice: mirror.Choice{DefaultChannels: c.defaults}, Name: c.name, Tag: c.tag, Namespace: c.namespace, Jobs: c.jobs,
		Time: c.time, Text: from, Overwrite: c.overwrite, Policy: c.allowed, Last: mirror.Last(c.resources), Platforms: c.platforms, Blocked: c.blocked}
	if c.chosen != nil {
		options.Choice, options.Repository = c.chosen.Choice, c.chosen.Repository
	}
	for _, text := range c.packages {
		s, err := mirror.ParseSelection(text)
		if err != nil {
			return err
		}
		options.Selections = append(options.Selections, s)
	}
	if err := mirror.MayWrite(c.resources); err != nil && !mirror.IsFolder(to) {
		return err
	}
	stop := startProgress(cmd.ErrOrStderr(), "reading "+from)
	defer func() { stop() }()
	opened, err := source.Open(cmd.Context(), from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	if c.allowed != nil {
		if err := opened.Check(cmd.Context(), c.allowed.Check); err != nil {
			return fmt.Errorf("cannot mirror %s: %w", from, err)
		}
	}
	options.Name, options.Origin, options.Host = cmp.Or(c.name, mirror.NameOf(opened.Name)), opened.Origin, opened.Host
	m, err := mirror.New(cmd.Context(), opened.Dir, options)
	if err != nil {
		return cmp.Or[error](source.Mistaken(from, source.WantCatalog), &faults.Listed{Head: "cannot mirror " + from + ":", Faults: opened.Named(err)})
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	opened.NameFindings(m.Others)
	printWarnings(cmd, from, m.Others)
	stop()
	return c.transfer(cmd, m, opened.Images(cmd.Context(), c.hosts), from, to)
}

// transfer copies the images that a mirror lacks or, in a dry run, prints what it would copy.
func (c *mirrorCommand) transfer(cmd *cobra.Command, m *mirror.Mirror, images oci.Source, from, to string) (err error) {
	destination, err := mirror.OpenDestination(to, m.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, destination.Close()) }()
	stop := startProgress(cmd.ErrOrStderr(), "searching for missing images")
	defer func() { stop() }()
	if err := m.Inspect(cmd.Context(), images, destination); err != nil {
		return &faults.Listed{Head: "cannot mirror " + from + " to " + to + ":", Faults: err}
	}
	stop()
	d := m.Document(from, to, c.dryRun)
	for _, warning := range d.Warnings {
		cmd.PrintErrf("warning: %s\n", warning)
	}
	if c.dryRun {
		err := c.show(cmd.OutOrStdout(), d)
		if fault := m.Fault(); fault != nil {
			err = errors.Join(err, &faults.Listed{Head: "cannot mirror " + from + " to " + to + ":", Faults: fault})
		}
		return err
	}
	if fault := m.Fault(); fault != nil {
		cmd.PrintErrln("warning: all other images are copied now, but not the catalog, because these images cannot be copied:")
		for _, line := range faults.Lines(fault) {
			cmd.PrintErrln(line)
		}
	}
	if err := c.copy(cmd.Context(), cmd, m, d); err != nil {
		return err
	}
	if folder, is := strings.CutPrefix(to, source.InFolder); is {
		if c.allowed != nil {
			if err := c.allowed.Write(folder, nil); err != nil {
				return err
			}
		}
		cmd.PrintErrf("carry %s, and run: %s\n", to, escape.Command("berth catalog mirror %s REGISTRY/PATH", to))
		return c.show(cmd.OutOrStdout(), d)
	}
	files, err := m.Write(c.resources, d)
	if err != nil {
		return fmt.Errorf("the images and the catalog are copied, but the objects for clusters are not written to %s: %w", c.resources, err)
	}
	for _, file := range files {
		cmd.PrintErrf("wrote %s\n", file)
	}
	return c.show(cmd.OutOrStdout(), d)
}

// copy copies the images and the catalog, and prints its progress.
func (c *mirrorCommand) copy(ctx context.Context, cmd *cobra.Command, m *mirror.Mirror, d mirror.Document) error {
	begin, images := time.Now(), len(d.Images)
	if d.Catalog.Digest != "" {
		images++
	}
	var done atomic.Int64
	progress := func() string {
		return progressOf(m.Copied(), d.Missing, int(done.Load()), images, time.Since(begin))
	}
	stop := startLive(cmd.ErrOrStderr(), func(time.Duration) string { return cut(progress(), columnsOf(cmd.ErrOrStderr())) })
	defer stop()
	var printing sync.Mutex
	err := m.Copy(ctx, func(i mirror.Image) {
		done.Add(1)
		if isTerminal(cmd.ErrOrStderr()) || i.Missing == 0 {
			return // on a terminal, startLive shows the progress
		}
		printing.Lock()
		defer printing.Unlock()
		cmd.PrintErrf("%s; copied %s\n", progress(), mirror.Shown(i.Destination))
	})
	stop()
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %s; run the same command again to continue", errInterrupted, progress())
	}
	if err != nil {
		return fmt.Errorf("%w; copied before that: %s", err, progress())
	}
	cmd.PrintErrf("%s\n", progress())
	return nil
}

// progressOf describes the progress of copying, its speed, and the remaining time.
func progressOf(copied, missing int64, images, allImages int, taken time.Duration) string {
	text := fmt.Sprintf("%s of %s, %d of %s", size(min(copied, missing)), size(missing), images, count(allImages, "image"))
	rate := float64(copied) / max(taken.Seconds(), 0.001)
	if copied == 0 {
		return text
	}
	text += fmt.Sprintf(", %s/s", size(int64(rate)))
	if left := missing - copied; left > 0 {
		text += fmt.Sprintf(", %s left", time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))
	}
	return text
}

// size returns a number of bytes as people write it.
func size(bytes int64) string {
	for _, unit := range []struct {
		name string
		of   int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= unit.of {
			return fmt.Sprintf("%.1f %s", float64(bytes)/float64(unit.of), unit.name)
		}
	}
	return fmt.Sprintf("%d B", bytes)
}

// show prints the result of the mirror, or of its dry run.
func (c *mirrorCommand) show(w io.Writer, d mirror.Document) error {
	if c.output == "json" {
		return escape.JSON(w, d)
	}
	for _, p := range d.Packages {
		fmt.Fprintf(w, "%s, default channel %s%s\n", escape.Cell(p.Name), escape.Cell(p.DefaultChannel), instead(p.FormerDefaultChannel))
		for _, ch := range p.Channels {
			fmt.Fprintf(w, "  %s: %s, head %s%s\n", escape.Cell(ch.Name), entries(len(ch.Entries)), escape.Cell(ch.Head), instead(ch.FormerHead))
			if len(ch.Between) > 0 {
				fmt.Fprintf(w, "    added, as updates go through them: %s\n", escape.Cell(strings.Join(ch.Between, ", ")))
			}
			if len(ch.Skips) > 0 {
				fmt.Fprintf(w, "    skipped by the head, as its skipRange has them: %s\n", escape.Cell(strings.Join(ch.Skips, ", ")))
			}
		}
	}
	if !d.DryRun && d.Catalog.Digest == "" {
		_, err := fmt.Fprintln(w, count(len(d.Images), "image"))
		return err
	}
	if !d.DryRun {
		_, err := fmt.Fprintf(w, "catalog %s, %s, with %s\n", escape.Cell(mirror.Shown(d.Catalog.Destination)), d.Catalog.Digest, count(len(d.Images), "image"))
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SIZE\tMISSING\tATTACHED\tIMAGE")
	largest := slices.SortedFunc(slices.Values(d.Images), func(a, b mirror.Image) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Source, b.Source))
	})
	for _, i := range largest {
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", size(i.Size), size(i.Missing), i.Attached, escape.Cell(i.Source))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, blocked := range d.Blocked {
		fmt.Fprintf(w, "blocked: %s\n", escape.Cell(blocked))
	}
	for _, host := range d.NewHosts {
		fmt.Fprintf(w, "new registry: %s\n", escape.Cell(host))
	}
	moved := map[string]string{}
	for _, i := range d.Images {
		if i.Former != "" {
			moved[i.Former] = repositoryIn(i.Destination)
		}
	}
	for _, former := range slices.Sorted(maps.Keys(moved)) {
		fmt.Fprintf(w, "moves: %s to %s; images that are there stay, and the objects for clusters name both\n", escape.Cell(former), escape.Cell(moved[former]))
	}
	what := count(len(d.Images), "image")
	if d.Catalog.Digest != "" {
		what += " and the catalog"
	}
	_, err := fmt.Fprintf(w, "%s of %s would be copied, %s\n", size(d.Missing), size(d.Size), what)
	return err
}

// repositoryIn returns the repository of a full reference.
func repositoryIn(reference string) string {
	reference, _, _ = strings.Cut(reference, "@")
	if colon := strings.LastIndex(reference, ":"); colon > strings.LastIndex(reference, "/") {
		reference = reference[:colon]
	}
	return reference
}

func instead(former string) string {
	if former == "" {
		return ""
	}
	return " instead of " + escape.Cell(former)
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}
