package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/oci"
)

// destination holds the flags that say where a command writes the image that it builds.
type destination struct {
	layout, push string
	// others are the names of the command's other flags of this kind. Exactly one flag must be set: layout, push or one of these.
	others []string
}

func (w *destination) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.layout, "layout", "", "`DIR` folder to write the image to, in the OCI layout")
	cmd.Flags().StringVar(&w.push, "push", "", "`reference` to push the image to, such as quay.io/example/image:v1.0.0")
	completeFlag(cmd, "layout", folders)
	completeFlag(cmd, "push", nothing)
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		names := append([]string{"layout", "push"}, w.others...)
		chosen := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			value := cmd.Flags().Lookup(name).Value.String()
			return value == "" || value == "false"
		})
		if len(chosen) != 1 {
			return fmt.Errorf("want one of --%s and --%s", strings.Join(names[:len(names)-1], ", --"), names[len(names)-1])
		}
		return check(cmd, args)
	}
}

// put writes or pushes an image and prints its digest.
func (w *destination) put(cmd *cobra.Command, content oci.Content) error {
	index, err := content.Index()
	if err != nil {
		return err
	}
	stop := startProgress(cmd.ErrOrStderr(), "writing the image")
	defer stop()
	var digest string
	if w.layout != "" {
		digest, err = oci.WriteLayout(w.layout, index)
	} else {
		digest, err = oci.Push(cmd.Context(), w.push, index)
	}
	stop()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), digest)
	return err
}

const aboutImages = `
One image serves all architectures. It is built without a container engine and without root. The same
folder always gives the same digest, which is printed to standard output. Credentials for registries come
from ~/.docker/config.json or Podman's auth.json. Registries on loopback are accessed without encryption.`

func newBundleImageCommand() *cobra.Command {
	to := &destination{}
	cmd := &cobra.Command{
		Use:   "image DIR (--push REFERENCE | --layout DIR)",
		Short: "Build the image of a bundle",
		Long: `Build an image from a bundle folder. The image contains the manifests, the metadata and, as labels, the
annotations. A catalog may refer to such an image instead of carrying the bundle's objects.
` + aboutImages,
		Example: `  # To a registry
  berth bundle image bundle/aws-efs-operator/1.0.0 --push quay.io/example/efs-bundle:v1.0.0

  # To a folder
  berth bundle image bundle/aws-efs-operator/1.0.0 --layout image`,
		Args:              takes("DIR"),
		ValidArgsFunction: completing(folders, nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := registryv1.Load(args[0])
			if err != nil {
				return cmp.Or(source.Mistaken(args[0], source.WantBundle), err)
			}
			return to.put(cmd, b.Image())
		},
	}
	to.addFlags(cmd)
	return cmd
}

func newCatalogImageCommand() *cobra.Command {
	to := &destination{others: []string{"dockerfile"}}
	var dockerfile bool
	cmd := &cobra.Command{
		Use:   "image DIR (--push REFERENCE | --layout DIR | --dockerfile)",
		Short: "Build the image of a catalog",
		Long: `Build an image from a catalog folder. The image contains nothing but the catalog, in /configs. OLM v1 reads
such an image directly. In a CatalogSource of OLM v0, set spec.grpcPodConfig.extractContent.catalogDir to
/configs: OLM then serves the catalog with an image of its own.

With --dockerfile, no image is built. Instead, the command writes DIR.Dockerfile beside the folder. From this file, a
container engine builds an image that serves the catalog itself, based on ` + build.BaseImage + `.

A catalog that cannot be read is rejected; if opm rejects it, there is a warning. Files that an .indexignore file excludes are left out.
` + aboutImages,
		Example: `  # To a registry
  berth catalog image catalog/certified --push quay.io/example/catalog:v1

  # To a folder
  berth catalog image catalog/certified --layout image

  # With a container engine
  berth catalog image catalog --dockerfile
  podman build -f catalog.Dockerfile -t quay.io/example/catalog:v1`,
		Args:              takes("DIR"),
		ValidArgsFunction: completing(folders, nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			stop := startProgress(cmd.ErrOrStderr(), "reading "+args[0])
			content, err := build.Image(cmd.Context(), args[0])
			var fault error
			if err == nil {
				_, fault = rules.Load(cmd.Context(), args[0])
			}
			stop()
			if err != nil {
				return cmp.Or(source.Mistaken(args[0], source.WantCatalog), err)
			}
			if fault != nil {
				first, _, _ := strings.Cut(fault.Error(), "\n")
				cmd.PrintErrf("warning: opm and berth catalog serve reject this catalog: %s; `%s` lists all findings\n",
					escape.Line(first), escape.Command("berth catalog validate %s", args[0]))
			}
			if !dockerfile {
				return to.put(cmd, content)
			}
			file, err := build.Dockerfile{Base: build.BaseImage, Builder: build.BaseImage}.Write(args[0])
			if err == nil {
				cmd.PrintErrf("wrote %s\n", file)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&dockerfile, "dockerfile", false, "write the Dockerfile of an image that serves the catalog")
	to.addFlags(cmd)
	return cmd
}
