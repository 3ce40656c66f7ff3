package build

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/oci"
)

// Image returns the content of a catalog folder's image.
func Image(ctx context.Context, dir string) (oci.Content, error) {
	c, found, err := fbc.Read(ctx, dir)
	if err != nil {
		return oci.Content{}, err
	}
	for _, f := range found {
		if f.Severity == findings.Error {
			return oci.Content{}, fmt.Errorf("%s is not a valid catalog: %w; `%s` lists all findings", dir, f, escape.Command("berth catalog validate %s", dir))
		}
	}
	content := oci.Content{Files: map[string][]byte{}, Labels: map[string]string{source.ConfigsLabel: "/" + source.ConfigsFolder}}
	for _, file := range c.Files {
		below, err := filepath.Rel(dir, file.Path)
		if err != nil {
			return oci.Content{}, err
		}
		if content.Files[path.Join(source.ConfigsFolder, filepath.ToSlash(below))], err = os.ReadFile(file.Path); err != nil {
			return oci.Content{}, fmt.Errorf("catalog %s: %w", dir, err)
		}
	}
	return content, nil
}
