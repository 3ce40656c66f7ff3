package opm

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/build"
)

func newDockerfileCommand() *cobra.Command {
	var d build.Dockerfile
	var labels []string
	cmd := &cobra.Command{
		Use:   "dockerfile DIR",
		Short: "Write the Dockerfile of a catalog's image beside its folder",
		Long: `Write DIR.Dockerfile beside the folder of a catalog. An image that is built with it serves the catalog. A file of that
name is not replaced.

"berth catalog image" builds the image itself, without a Dockerfile and a container engine.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("binary-image") && !cmd.Flags().Changed("builder-image") {
				d.Builder = d.Base
			}
			if d.Builder == "scratch" {
				return &usageError{errors.New("--builder-image is scratch, which has no program that could check the catalog; want an image with opm")}
			}
			d.Labels = map[string]string{}
			for _, text := range labels {
				key, value, is := strings.Cut(text, "=")
				if !is {
					return &usageError{fmt.Errorf("--extra-labels has %q, want KEY=VALUE", text)}
				}
				d.Labels[key] = value
			}
			_, err := d.Write(args[0])
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&d.Base, "base-image", "i", build.BaseImage, "`IMAGE` that the catalog's is based on, or scratch")
	flags.StringVarP(&d.Builder, "builder-image", "b", build.BaseImage, "`IMAGE` with opm, which checks the catalog while its image is built")
	flags.StringVar(&d.Base, "binary-image", build.BaseImage, "as --base-image and --builder-image")
	flags.StringSliceVarP(&labels, "extra-labels", "l", nil, "`KEY=VALUE` of labels of the image")
	if err := flags.MarkHidden("binary-image"); err != nil {
		panic(err) // no such flag
	}
	cmd.MarkFlagsMutuallyExclusive("binary-image", "base-image")
	return cmd
}
