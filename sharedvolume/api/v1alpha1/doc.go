// Package v1alpha1 is the SharedVolume API, group aws-efs.managed.openshift.io.
//
// A SharedVolume requests one access point of an Amazon EFS file system as a PersistentVolumeClaim.
// The API comes from the community aws-efs-operator; every object that was ever stored stays valid.
//
// SharedVolumeGrants and the SharedVolumePolicy control who may use which access point. They are
// cluster-scoped, because OLM gives anyone with edit or admin in a namespace the same role for each
// namespaced API of a bundle.
//
// +kubebuilder:object:generate=true
// +groupName=aws-efs.managed.openshift.io
package v1alpha1

//go:generate go tool -modfile=../../../hack/tools/go.mod controller-gen object crd:headerFile=header.yaml.txt paths=. output:crd:dir=../../../drivers/efs/assets/crd

// A SharedVolume's default status has a condition without a time, because nothing has happened yet, so the CRD must not require the time.
//go:generate sed -i.tmp "/^ *- lastTransitionTime$/d" ../../../drivers/efs/assets/crd/aws-efs.managed.openshift.io_sharedvolumes.yaml
//go:generate rm ../../../drivers/efs/assets/crd/aws-efs.managed.openshift.io_sharedvolumes.yaml.tmp
