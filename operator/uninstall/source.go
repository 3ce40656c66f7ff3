package uninstall

import (
	"encoding/json"

	"github.com/berth-csi/berth/drivers"
)

// sourced is a part of an object that has a volume source: the spec of a PersistentVolume, or a volume of a pod. T has
// the other fields to decode, with JSON names.
type sourced[T any] struct {
	Of     T
	fields map[string]json.RawMessage
}

// UnmarshalJSON decodes the part. The driver's definition says which field has the volume source.
func (s *sourced[T]) UnmarshalJSON(document []byte) error {
	if err := json.Unmarshal(document, &s.Of); err != nil {
		return err
	}
	return json.Unmarshal(document, &s.fields)
}

// csi reports whether the source is a CSI volume of a driver.
func (s sourced[T]) csi(d drivers.Driver) bool {
	var csi struct{ Driver string }
	document, ok := s.fields["csi"]
	return ok && json.Unmarshal(document, &csi) == nil && csi.Driver == d.CSIName
}

// inTree reports whether the source is an in-tree one whose volumes CSI migration hands to a driver.
func (s sourced[T]) inTree(d drivers.Driver) bool {
	_, ok := s.fields[d.InTree.Source]
	return ok && d.InTree.Source != ""
}
