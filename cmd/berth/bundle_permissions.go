package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/bundle/registryv1/access"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/findings/outline"
)

// permissionsSchema is the name and version of the JSON of a permissionsDocument.
const permissionsSchema = "berth.bundle-permissions.v1"

// permissionsDocument lists the access that a bundle requests, in JSON.
type permissionsDocument struct {
	Schema string `json:"schema"`
	// Bundle is the folder or the image, and Against the one that it is compared with. Without Against, Content has all that the bundle
	// asks for, as a difference from nothing.
	Bundle  string          `json:"bundle"`
	Against string          `json:"against,omitempty"`
	Content *access.Content `json:"content"`
}

// newBundlePermissionsCommand returns the command bundle permissions, which prints the results of package bundle/registryv1/access.
func newBundlePermissionsCommand() *cobra.Command {
	var against, output string
	cmd := &cobra.Command{
		Use:   "permissions BUNDLE",
		Short: "Show what a bundle asks for on a cluster, the worst first",
		Long: `Show what a bundle asks for on a cluster. First come permissions that can be used for more than it seems, the worst
first; pods with rights on nodes; webhooks; and images without a digest. Then all permissions, images,
CustomResourceDefinitions and install modes.

With --against, it shows only the differences from another version: what the bundle newly asks for, what it no
longer asks for, and versions of CustomResourceDefinitions that are gone. "berth catalog diff" shows the same of the heads of
channels, if the catalogs carry the bundles' objects.

A bundle is a folder or an image: docker://REFERENCE, or just REFERENCE. Long lists and digests are shortened, but not
in JSON.`,
		Example: `  berth bundle permissions bundle/aws-efs-operator/1.0.0

  # What an update asks for, for the description of a pull request
  berth bundle permissions operators/tide/1.1.0 --against operators/tide/1.0.0 -o markdown

  # Against what is published
  berth bundle permissions operators/tide/1.1.0 --against quay.io/example/tide-bundle:v1.0.0`,
		Args:              takes("BUNDLE"),
		ValidArgsFunction: completing(folders, nothing),
		RunE: func(cmd *cobra.Command, args []string) error {
			defer startProgress(cmd.ErrOrStderr(), "reading "+args[0])()
			after, err := openVersion(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var before access.Version
			if against != "" {
				if before, err = openVersion(cmd.Context(), against); err != nil {
					return err
				}
			}
			content, err := access.Compare(before, after)
			if err != nil {
				return err
			}
			return writePermissions(cmd.OutOrStdout(), output, permissionsDocument{permissionsSchema, args[0], against, content})
		},
	}
	cmd.Flags().StringVar(&against, "against", "", "`bundle` to compare with, such as the version before")
	completeFlag(cmd, "against", folders)
	addOutputFlag(cmd, &output, "text", []string{"text", "json", "markdown"})
	return cmd
}

// openVersion reads a bundle in a folder or an image.
func openVersion(ctx context.Context, text string) (v access.Version, err error) {
	opened, err := source.OpenAny(ctx, text)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	var contents *registryv1.Contents
	if pulled := opened.Bundle; pulled != nil {
		contents, err = registryv1.LoadImage(pulled.Reference, pulled.Files)
	} else {
		contents, err = registryv1.Load(opened.Dir)
	}
	if err != nil {
		return v, cmp.Or(source.Mistaken(text, source.WantBundle), err)
	}
	return access.Of(contents)
}

// writePermissions writes the access that a bundle requests.
func writePermissions(w io.Writer, format string, d permissionsDocument) error {
	lines, title, nothing := d.Content.Asked(), outline.Say("What %s asks for", d.Bundle), "nothing"
	if d.Against != "" {
		lines, title, nothing = d.Content.Lines(), outline.Say("What %s asks for, against %s", d.Bundle, d.Against), "the same"
	}
	if len(lines) == 0 {
		lines = []outline.Line{{Text: outline.Say(nothing)}}
	}
	var text string
	switch format {
	case "json":
		return escape.JSON(w, d)
	case "markdown":
		text = fmt.Sprintf("%s:\n\n%s", title.In(outline.Markdown), outline.Markdown.Render(lines, 0))
	default:
		text = outline.Plain.Render(lines, 0)
	}
	_, err := io.WriteString(w, text)
	return err
}
