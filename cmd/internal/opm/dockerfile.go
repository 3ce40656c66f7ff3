package opm

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/catalog/source"
)

// BaseImage is the base of catalog images: it has this program as /bin/opm, and grpc_health_probe.
const BaseImage = "quay.io/berth-csi/berth-opm:latest"

// cacheFolder is where images of catalogs keep what their server makes of them, as opm does.
const cacheFolder = "/tmp/cache"

func newDockerfileCommand() *cobra.Command {
	d := dockerfile{}
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
				d.builder = d.base
			}
			if d.builder == "scratch" {
				return &usageError{errors.New("--builder-image is scratch, which has no program that could check the catalog; want an image with opm")}
			}
			d.labels = map[string]string{}
			for _, text := range labels {
				key, value, is := strings.Cut(text, "=")
				if !is {
					return &usageError{fmt.Errorf("--extra-labels has %q, want KEY=VALUE", text)}
				}
				d.labels[key] = value
			}
			return d.write(filepath.Clean(args[0]))
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&d.base, "base-image", "i", BaseImage, "`IMAGE` that the catalog's is based on, or scratch")
	flags.StringVarP(&d.builder, "builder-image", "b", BaseImage, "`IMAGE` with opm, which checks the catalog while its image is built")
	flags.StringVar(&d.base, "binary-image", BaseImage, "as --base-image and --builder-image")
	flags.StringSliceVarP(&labels, "extra-labels", "l", nil, "`KEY=VALUE` of labels of the image")
	if err := flags.MarkHidden("binary-image"); err != nil {
		panic(err) // no such flag
	}
	cmd.MarkFlagsMutuallyExclusive("binary-image", "base-image")
	return cmd
}

// dockerfile is how the image of a catalog is built.
type dockerfile struct {
	base, builder string
	labels        map[string]string
}

// write writes the Dockerfile beside the folder of a catalog.
func (d dockerfile) write(dir string) (err error) {
	if info, err := os.Stat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is a file; expected the folder of a catalog", dir)
	}
	name := dir + ".Dockerfile"
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already; remove it first: %w", name, fs.ErrExist)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.WriteString(d.text(filepath.Base(dir)))
	return err
}

// text returns the Dockerfile for a folder beside it.
func (d dockerfile) text(folder string) string {
	lines := []string{
		"# This stage checks the catalog, and makes what its server keeps. Its image has /bin/opm.",
		"FROM " + d.builder + " AS builder",
		"ADD " + folder + " /" + source.ConfigsFolder,
		fmt.Sprintf(`RUN ["/bin/opm", "serve", "/%s", "--cache-dir=%s", "--cache-only"]`, source.ConfigsFolder, cacheFolder),
		"",
		"FROM " + d.base,
	}
	if d.base == "scratch" {
		lines = append(lines,
			"# There is no program in this image. A CatalogSource of OLM v0 needs, in spec.grpcPodConfig:",
			"#   extractContent: {catalogDir: /"+source.ConfigsFolder+", cacheDir: "+cacheFolder+"}")
	} else {
		lines = append(lines,
			"# This image has /bin/opm, and grpc_health_probe, which OLM runs.",
			`ENTRYPOINT ["/bin/opm"]`,
			fmt.Sprintf(`CMD ["serve", "/%s", "--cache-dir=%s"]`, source.ConfigsFolder, cacheFolder))
	}
	for _, path := range []string{"/" + source.ConfigsFolder, cacheFolder} {
		lines = append(lines, "COPY --from=builder "+path+" "+path)
	}
	lines = append(lines, "LABEL "+source.ConfigsLabel+"=/"+source.ConfigsFolder)
	for _, key := range slices.Sorted(maps.Keys(d.labels)) {
		lines = append(lines, fmt.Sprintf("LABEL %q=%q", key, d.labels[key]))
	}
	return strings.Join(lines, "\n") + "\n"
}
