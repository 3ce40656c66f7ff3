package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/mirror/imageset"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/oci"
)

// unmirrorCommand holds the flags of the command catalog unmirror.
type unmirrorCommand struct{ config, confirm string }

func newCatalogUnmirrorCommand() *cobra.Command {
	u := &unmirrorCommand{}
	cmd := &cobra.Command{
		Use:   "unmirror (--config FILE | --confirm FILE) DESTINATION",
		Short: "List images of a mirror that are not needed any more, and delete those of a list",
		Long: `With --config, list the images that a file of oc-mirror v2 (DeleteImageSetConfiguration) chooses and DESTINATION has,
one a line, and delete nothing. An image that the same catalog in DESTINATION still names is kept: mirror the smaller catalog
first. Others that are to stay, such as images of other catalogs, go into blockedImages.

With --confirm, delete exactly the images of such a list, by their digests, if the catalogs are still those that the list
was made for. The registry frees their space when it collects garbage.`,
		Example: `  berth catalog unmirror --config delete.yaml registry.example.com/mirror > list
  berth catalog unmirror --confirm list registry.example.com/mirror`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := takes("DESTINATION")(cmd, args); err != nil {
				return err
			}
			if mirror.IsFolder(args[0]) {
				return fmt.Errorf("DESTINATION is %q, want a path of a registry; a folder loses what is not chosen when it is mirrored to again", args[0])
			}
			if (u.config == "") == (u.confirm == "") {
				return errors.New("want one of --config and --confirm: the first lists, the second deletes")
			}
			return nil
		},
		ValidArgsFunction: nothing,
		RunE: func(cmd *cobra.Command, args []string) error {
			to := strings.TrimSuffix(strings.TrimPrefix(args[0], source.InRegistry), "/")
			if u.confirm != "" {
				return u.delete(cmd, to)
			}
			return u.list(cmd, to)
		},
	}
	cmd.Flags().StringVarP(&u.config, "config", "c", "", "`file` of oc-mirror v2, a DeleteImageSetConfiguration, that says what to list")
	cmd.Flags().StringVar(&u.confirm, "confirm", "", "`file` with the list of images to delete")
	return cmd
}

// list prints the images that may be deleted.
func (u *unmirrorCommand) list(cmd *cobra.Command, to string) (err error) {
	ctx := cmd.Context()
	set, err := imageset.Read(u.config, imageset.Delete)
	if err != nil {
		return err
	}
	for _, warning := range set.Warnings {
		cmd.PrintErrf("warning: %s: %s\n", u.config, warning)
	}
	destination, err := mirror.OpenDestination(to, imageset.ImagesName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, destination.Close()) }()
	var chosen, present []*mirror.Mirror
	catalogs := map[string]string{}
	defer func() {
		for _, m := range append(chosen, present...) {
			err = errors.Join(err, m.Close())
		}
	}()
	for _, c := range set.Catalogs {
		options := mirror.Options{Choice: c.Choice, Name: c.Name, Jobs: listJobs, Blocked: set.Blocked}
		m, err := openMirror(ctx, c.Source, options)
		if err != nil {
			return err
		}
		chosen = append(chosen, m)
		there := to + "/" + c.Repository + ":" + c.Tag
		digest, err := oci.Find(ctx, there)
		if err != nil {
			return fmt.Errorf("looking for the catalog %s: %w", there, err)
		}
		if digest == "" {
			return fmt.Errorf("there is no catalog %s, which says what clusters still need: expected the smaller catalog that was mirrored there; "+
				"correct targetCatalog and targetTag in %s", there, u.config)
		}
		catalogs[there] = digest
		if m, err = openMirror(ctx, to+"/"+c.Repository+"@"+digest, mirror.Options{Name: c.Name, Jobs: listJobs}); err != nil {
			return err
		}
		present = append(present, m)
	}
	var references []string
	for _, image := range set.Images {
		references = append(references, image.Reference)
	}
	m, err := mirror.NewImages(references, mirror.Options{Jobs: listJobs, Blocked: set.Blocked})
	if err != nil {
		return fmt.Errorf("%s: %w", u.config, err)
	}
	d, err := mirror.PlanDeletion(ctx, destination, append(chosen, m), present)
	if err != nil {
		return err
	}
	d.Catalogs = catalogs
	return d.Write(cmd.OutOrStdout())
}

// listJobs is the number of images that are looked for at the same time.
const listJobs = 4

// openMirror returns a mirror of the packages that options choose from a catalog.
func openMirror(ctx context.Context, from string, options mirror.Options) (_ *mirror.Mirror, err error) {
	opened, err := source.Open(ctx, from)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	options.Text, options.Tag = from, "latest"
	m, err := mirror.New(ctx, opened.Dir, options)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, opened.Named(err))
	}
	return m, nil
}

// delete deletes the images that the list of --confirm names.
func (u *unmirrorCommand) delete(cmd *cobra.Command, to string) error {
	text, err := boundedyaml.ReadFile(u.confirm)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return fmt.Errorf("%s is empty; expected what `%s` prints; nothing is deleted", u.confirm, escape.Command("berth catalog unmirror --config FILE %s", to))
	}
	list, err := mirror.ReadDeletion(text, to)
	if err == nil {
		err = list.Check(cmd.Context())
	}
	if err != nil {
		return fmt.Errorf("%s: %w; nothing is deleted", u.confirm, err)
	}
	for i, image := range list.Images {
		if err := oci.Delete(cmd.Context(), image); err != nil {
			return fmt.Errorf("%w; before that, %d of %s were deleted; run the same command to continue", err, i, count(len(list.Images), "image"))
		}
	}
	fmt.Fprintf(cmd.OutOrStdout(), "deleted %s\n", count(len(list.Images), "image"))
	return nil
}
