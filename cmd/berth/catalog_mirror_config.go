package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/mirror"
	"github.com/berth-csi/berth/catalog/mirror/imageset"
	"github.com/berth-csi/berth/cmd/internal/faults"
	"github.com/berth-csi/berth/internal/oci"
)

// notWithConfig are the flags that cannot be combined with --config, because the configuration has fields for the same settings.
var notWithConfig = []string{"package", "default-channel", "name", "tag", "platform"}

// platformName matches names of platforms.
var platformName = regexp.MustCompile(`^[a-z0-9]+/[a-z0-9]+(/[a-z0-9]+)?$`)

// takes checks the arguments. With --config, there is no SOURCE, because the configuration names the sources.
func (c *mirrorCommand) takes(cmd *cobra.Command, args []string) error {
	for _, p := range c.platforms {
		if !platformName.MatchString(p) {
			return fmt.Errorf("--platform is %q, want OS/ARCHITECTURE such as linux/amd64", p)
		}
	}
	if c.config == "" {
		return takes("SOURCE", "DESTINATION")(cmd, args)
	}
	for _, flag := range notWithConfig {
		if cmd.Flags().Changed(flag) {
			return fmt.Errorf("--%s is given with --config; want it in that file", flag)
		}
	}
	if err := takes("DESTINATION")(cmd, args); err != nil {
		return fmt.Errorf("%w, as --config names the sources", err)
	}
	if mirror.IsFolder(args[0]) {
		return fmt.Errorf("DESTINATION is %q, and a folder holds one catalog; with --config, want a path of a registry", args[0])
	}
	return nil
}

// runConfig mirrors the catalogs and images that a configuration names. If one fails, it still mirrors the others.
func (c *mirrorCommand) runConfig(cmd *cobra.Command, to string) error {
	set, err := imageset.Read(c.config, imageset.Mirror)
	if err != nil {
		return err
	}
	for _, warning := range set.Warnings {
		cmd.PrintErrf("warning: %s: %s\n", c.config, warning)
	}
	var failed []error
	for _, of := range set.Catalogs {
		one := *c
		one.chosen, one.name, one.tag, one.platforms, one.blocked = &of, of.Name, of.Tag, of.Platforms, set.Blocked
		one.resources = filepath.Join(c.resources, of.Name)
		failed = append(failed, one.run(cmd, of.Source, to))
		if cmd.Context().Err() != nil {
			return errors.Join(failed...)
		}
	}
	return errors.Join(append(failed, c.mirrorImages(cmd, set, to)...)...)
}

// mirrorImages mirrors the additional images of a configuration, in groups with the same platforms.
func (c *mirrorCommand) mirrorImages(cmd *cobra.Command, set *imageset.Set, to string) (failed []error) {
	for _, group := range set.ImagesByPlatforms() {
		one := *c
		one.name = group.Name
		one.resources = filepath.Join(c.resources, group.Name)
		failed = append(failed, one.images(cmd, group, set.Blocked, to))
	}
	return failed
}

func (c *mirrorCommand) images(cmd *cobra.Command, group imageset.Images, blocked []*regexp.Regexp, to string) error {
	if err := mirror.MayWrite(c.resources); err != nil {
		return err
	}
	from := strings.Join(group.References, " ")
	m, err := mirror.NewImages(group.References, mirror.Options{Name: group.Name, Jobs: c.jobs, Time: c.time, Text: from, Platforms: group.Platforms, Blocked: blocked, Policy: c.allowed})
	if err != nil {
		return &faults.Listed{Head: "cannot mirror the additional images of " + c.config + ":", Faults: err}
	}
	return c.transfer(cmd, m, oci.Registries(cmd.Context()), "the additional images of "+c.config, to)
}
