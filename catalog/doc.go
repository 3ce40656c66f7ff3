// Package catalog speaks file-based catalogs: what the Operator Lifecycle Manager (OLM) reads to
// learn which packages there are, by which channels they are updated, and what a bundle holds.
//
// Build makes a catalog from bundle folders, package template one from a template, and Write stores it.
// Read reads a catalog folder, package rules says everything that is wrong with it, and package server
// answers OLM from it. The types are those of operator-registry. The package knows no driver: any
// bundle in the registry+v1 format will do.
//
// The catalogs that Berth ships live beside this package's code, one folder each.
package catalog

//go:generate go run ../cmd/berth catalog build ../bundle/aws-ebs-csi-driver-operator/1.0.0 --output certified
//go:generate go run ../cmd/berth catalog build ../bundle/aws-efs-operator/1.0.0 --output certified
//go:generate go run ../cmd/berth catalog build ../bundle/manila-csi-driver-operator/1.0.0 --output certified
