package access

import (
	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/bundle/registryv1"
)

// Of returns the version of a bundle. It fails if its ClusterServiceVersion cannot be decoded.
func Of(b *registryv1.Contents) (v Version, err error) {
	v.CSV = &v1alpha1.ClusterServiceVersion{}
	if err := b.CSV.Decode(v.CSV); err != nil {
		return v, b.Blame(err)
	}
	for _, o := range b.Objects {
		v.Objects = append(v.Objects, o.Unstructured)
	}
	v.Images = ImagesOf(v.CSV)
	return v, nil
}
