package findings

// Edit replaces a part of a file to correct a finding.
type Edit struct {
	// Offset is where the part begins, in bytes from the beginning of the file.
	Offset int64 `json:"offset"`
	// Old is the part in the checked file, and New replaces it.
	Old string `json:"old"`
	New string `json:"new"`
}

// Fixed sets the edits that correct the finding mechanically, if any, and returns the finding.
func (f *Finding) Fixed(edits []Edit) *Finding {
	f.Fix = edits
	return f
}
