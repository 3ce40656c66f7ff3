package mirror

import (
	"errors"
	"fmt"
	"strings"

	"github.com/berth-csi/berth/catalog/source"
	"github.com/berth-csi/berth/internal/oci"
)

// IsFolder reports whether a place is a folder of images.
func IsFolder(place string) bool { return strings.HasPrefix(place, source.InFolder) }

// OpenDestination opens a destination for the named catalog: a path in a registry, or oci: and a folder. The folder must not hold the
// mirror of another catalog.
func OpenDestination(text, catalog string) (oci.Destination, error) {
	dir, is := strings.CutPrefix(text, source.InFolder)
	if !is {
		return oci.Below(strings.TrimPrefix(text, source.InRegistry))
	}
	folder, err := oci.NewFolder(dir)
	if err != nil {
		return nil, err
	}
	if other, _, _ := folder.Catalog(); other != "" && other != catalog {
		return nil, errors.Join(fmt.Errorf("image folder %s holds the catalog %q, which would be lost; choose another folder, or --name %s to replace it", dir, other, other), folder.Close())
	}
	return folder, nil
}
