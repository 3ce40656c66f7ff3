// Package catalog speaks file-based catalogs: what the Operator Lifecycle Manager (OLM) reads to
// learn which packages there are, by which channels they are updated, and what a bundle holds.
//
// Package build makes catalogs from bundles and templates, and Write stores them. Read reads a catalog
// folder, package rules says everything that is wrong with it, and package server answers OLM from it.
// The types are those of operator-registry. The package knows no driver: any bundle in the registry+v1
// format will do.
//
// The catalogs that Berth ships live beside this package's code, one folder each, and what they are made
// of in the folder templates.
package catalog

//go:generate go run ../cmd/berth catalog build templates/certified/aws-ebs-csi-driver-operator.yaml templates/certified/aws-efs-operator.yaml templates/certified/manila-csi-driver-operator.yaml --output certified
//go:generate go run ../cmd/berth catalog build templates/community/aws-ebs-csi-driver-operator.yaml templates/community/aws-efs-operator.yaml templates/community/manila-csi-driver-operator.yaml --output community
