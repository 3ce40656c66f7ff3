package opm

import (
	"fmt"
	"io"
	"os"

	"github.com/h2non/filetype"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	_ "github.com/operator-framework/operator-registry/alpha/model" // registers SVG with filetype
	"github.com/spf13/cobra"
)

// writers write documents, by their format.
var writers = map[string]func(declcfg.DeclarativeConfig, io.Writer) error{"json": declcfg.WriteJSON, "yaml": declcfg.WriteYAML}

// maxRead is the maximum size of a description or an icon, in bytes.
const maxRead = 16 << 20

func newInitCommand() *cobra.Command {
	var output, icon, description string
	pkg := declcfg.Package{Schema: declcfg.SchemaPackage}
	cmd := &cobra.Command{
		Use:   "init PACKAGE",
		Short: "Print the document of a package",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pkg.Name = args[0]
			if description != "" {
				text, err := readAll(description)
				if err != nil {
					return fmt.Errorf("description: %w", err)
				}
				pkg.Description = string(text)
			}
			if icon != "" {
				var err error
				if pkg.Icon, err = readIcon(icon); err != nil {
					return err
				}
			}
			return writers[output](declcfg.DeclarativeConfig{Packages: []declcfg.Package{pkg}}, cmd.OutOrStdout())
		},
	}
	addOutputFlag(cmd, &output, "json", "json", "yaml")
	cmd.Flags().StringVarP(&pkg.DefaultChannel, "default-channel", "c", "", "`CHANNEL` of Subscriptions that name none")
	cmd.Flags().StringVarP(&icon, "icon", "i", "", "`FILE` with the icon of the package")
	cmd.Flags().StringVarP(&description, "description", "d", "", "`FILE` with the description of the package, such as README.md")
	return cmd
}

// readAll reads a file that is not too large.
func readAll(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxRead+1))
	if err == nil && len(text) > maxRead {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxRead>>20)
	}
	return text, err
}

// readIcon reads an icon. It detects the media type by the content.
func readIcon(path string) (*declcfg.Icon, error) {
	data, err := readAll(path)
	if err != nil {
		return nil, fmt.Errorf("icon: %w", err)
	}
	kind, err := filetype.Match(data)
	if err != nil {
		return nil, fmt.Errorf("icon %s: %w", path, err)
	}
	if kind.MIME.Type != "image" {
		return nil, fmt.Errorf("icon %s is no image; expected one, such as SVG or PNG", path)
	}
	return &declcfg.Icon{Data: data, MediaType: kind.MIME.Value}, nil
}
