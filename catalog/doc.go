// Package catalog speaks file-based catalogs: what the Operator Lifecycle Manager (OLM) reads to
// learn which packages there are, by which channels they are updated, and what a bundle holds.
//
// Build makes a catalog from bundle folders, Write stores it, Load reads a catalog folder and says
// everything that is wrong with it, and Serve answers OLM from it. The types are those of
// operator-registry. The package knows no driver: any bundle in the registry+v1 format will do.
//
// The catalogs that Berth ships live beside this package's code, one folder each.
package catalog

import "fmt"

//go:generate go run ../cmd/berth catalog build ../bundle/aws-ebs-csi-driver-operator/1.0.0 --output certified
//go:generate go run ../cmd/berth catalog build ../bundle/aws-efs-operator/1.0.0 --output certified
//go:generate go run ../cmd/berth catalog build ../bundle/manila-csi-driver-operator/1.0.0 --output certified

// Finding is one fault, and the place where it stands.
type Finding struct {
	// File is the path of the file, under the folder as the caller named it.
	File string
	// Line counts from 1; it is 0 where the fault is not one of a line.
	Line int
	// Message says what was found and what was expected.
	Message string
}

func (f *Finding) Error() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.File, f.Message)
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Message)
}
