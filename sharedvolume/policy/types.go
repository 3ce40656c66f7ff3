package policy

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SharedVolumeGrant lists the access points that the SharedVolumes of its namespace may name. There is
// one for a namespace, called "default"; without it, no SharedVolume can be created there.
//
// Whoever may create SharedVolumeGrants in all namespaces may write it, and nobody else. A grant that
// is taken back ends no SharedVolume that exists already.
//
// +kubebuilder:resource:shortName=svg
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="the grant of a namespace is called default"
type SharedVolumeGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec lists what is granted.
	//
	// +required
	Spec SharedVolumeGrantSpec `json:"spec"`
}

// SharedVolumeGrantSpec lists what is granted.
type SharedVolumeGrantSpec struct {
	// FileSystems are the file systems of which access points are granted.
	//
	// +required
	// +listType=map
	// +listMapKey=fileSystemID
	// +kubebuilder:validation:MaxItems=100
	FileSystems []FileSystemGrant `json:"fileSystems"`
}

// FileSystemGrant lists the access points of one file system that are granted.
type FileSystemGrant struct {
	// FileSystemID is the ID of the EFS file system, such as "fs-0123456789abcdef0".
	//
	// +required
	// +kubebuilder:validation:Pattern=`^fs-[0-9a-f]+$`
	// +kubebuilder:validation:MaxLength=128
	FileSystemID string `json:"fileSystemID"`

	// AccessPointIDs are IDs of access points of that file system, such as "fsap-0123456789abcdef0".
	// "*" stands for all that it has and will have.
	//
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:Pattern=`^(fsap-[0-9a-f]+|\*)$`
	// +kubebuilder:validation:items:MaxLength=128
	AccessPointIDs []string `json:"accessPointIDs"`
}
