package build

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/findings"
	"github.com/berth-csi/berth/findings/escape"
	"github.com/berth-csi/berth/image"
)

// Image returns the content of a catalog folder's image.
func Image(ctx context.Context, dir string) (image.Content, error) {
	c, found, err := fbc.Read(ctx, dir)
	if err != nil {
		return image.Content{}, err
	}
	for _, f := range found {
		if f.Severity == findings.Error {
			return image.Content{}, fmt.Errorf("%s is not a valid catalog: %w; `%s` lists all findings", dir, f, escape.Command("berth catalog validate %s", dir))
		}
	}
	content := image.Content{Files: map[string][]byte{}, Labels: map[string]string{source.ConfigsLabel: "/" + source.ConfigsFolder}}
	for _, file := range c.Files {
		below, err := filepath.Rel(dir, file.Path)
		if err != nil {
			return image.Content{}, err
		}
		if content.Files[path.Join(source.ConfigsFolder, filepath.ToSlash(below))], err = os.ReadFile(file.Path); err != nil {
			return image.Content{}, fmt.Errorf("catalog %s: %w", dir, err)
		}
	}
	return content, nil
}
