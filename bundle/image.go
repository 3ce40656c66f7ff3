package bundle

import (
	"path"

	"github.com/berth-csi/berth/image"
)

// Image returns what the bundle's image holds: the manifests, the metadata and, as labels, the annotations.
func (b *Bundle) Image() image.Content {
	content := image.Content{Files: map[string][]byte{}, Labels: b.Annotations()}
	for _, f := range b.Files {
		if folder := path.Dir(f.Path); folder == ManifestsDir || folder == MetadataDir {
			content.Files[f.Path] = f.Data
		}
	}
	return content
}
