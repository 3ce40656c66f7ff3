// Package catalog speaks file-based catalogs: what the Operator Lifecycle Manager (OLM) reads to
// learn which packages there are, by which channels they are updated, and what a bundle holds.
//
// Build makes a catalog from bundle folders, Write stores it, Load reads a catalog folder and says
// everything that is wrong with it, and Serve answers OLM from it. The types are those of
// operator-registry. The package knows no driver: any bundle in the registry+v1 format will do.
//
// The catalogs that Berth ships live beside this package's code, one folder each.
package catalog

//go:generate go run ../cmd/berth catalog build ../bundle/aws-ebs-csi-driver-operator/1.0.0 --output certified
//go:generate go run ../cmd/berth catalog build ../bundle/aws-efs-operator/1.0.0 --output certified
//go:generate go run ../cmd/berth catalog build ../bundle/manila-csi-driver-operator/1.0.0 --output certified
