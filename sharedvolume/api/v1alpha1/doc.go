// Package v1alpha1 is the SharedVolume API, group aws-efs.managed.openshift.io.
//
// A SharedVolume asks for one access point of an Amazon EFS file system as a PersistentVolumeClaim.
// The API came with the community aws-efs-operator; every object that was ever stored stays valid.
//
// SharedVolumeGrants and the SharedVolumePolicy say who may have which access point. They are
// cluster-scoped: OLM gives whoever has edit or admin in a namespace the same of each namespaced API that
// a bundle brings.
//
// +kubebuilder:object:generate=true
// +groupName=aws-efs.managed.openshift.io
package v1alpha1

//go:generate go tool -modfile=../../../hack/tools/go.mod controller-gen object crd:headerFile=header.yaml.txt paths=. output:crd:dir=../../../drivers/efs/assets/crd
