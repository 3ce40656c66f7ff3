// Package policy is an opt-in for clusters whose teams do not all trust each other: a namespace may
// use only the access points that an administrator granted it.
//
// It is no code but two files to apply: the definition of SharedVolumeGrants, and the
// ValidatingAdmissionPolicies that hold SharedVolumes to them, which the API server itself evaluates.
// The operator neither reads nor needs them, and the bundle does not carry them: OLM gives teams the
// right to change objects of each API that a bundle defines, and installs no admission policies.
//
// A grant is an object of the namespace that it is for, so that it ends with the namespace, and a
// later one of the same name begins without.
//
// +groupName=aws-efs.managed.openshift.io
// +versionName=v1alpha1
package policy

//go:generate go tool -modfile=../../hack/tools/go.mod controller-gen crd:headerFile=header.yaml.txt paths=. output:crd:dir=.
