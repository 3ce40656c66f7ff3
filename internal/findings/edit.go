package findings

// Edit is a part of a file that the correction of a finding replaces.
type Edit struct {
	// Offset is where the part begins, in bytes from the beginning of the file.
	Offset int64 `json:"offset"`
	// Old is the part as it was when the file was checked, and New replaces it.
	Old string `json:"old"`
	New string `json:"new"`
}

// Fixed sets what corrects the finding mechanically, if anything does, and returns the finding.
func (f *Finding) Fixed(edits []Edit) *Finding {
	f.Fix = edits
	return f
}
