package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SharedVolumeGrant lists the access points that the SharedVolumes of one namespace may mount. It has the
// name of that namespace. While the SharedVolumePolicy requires grants, a new SharedVolume in a
// namespace without a grant gets no volume.
//
// A name proves nothing: somebody else may own the next namespace of that name. A grant is only for the
// namespace that its status identifies, and for no later one; see spec.namespaceUID.
//
// Changing or deleting a grant does not affect a SharedVolume that already has a volume.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=svg
// +kubebuilder:printcolumn:name="Effective",type=string,JSONPath=`.status.conditions[?(@.type=="Effective")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Effective")].reason`
// +kubebuilder:printcolumn:name="Namespace UID",type=string,priority=1,JSONPath=`.status.namespaceUID`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="a grant has the name of the namespace that it is for"
type SharedVolumeGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec lists the access points that are granted.
	//
	// +required
	Spec SharedVolumeGrantSpec `json:"spec"`

	// Status says which namespace the grant is for, and whether that namespace exists. The operator
	// writes it.
	//
	// +optional
	Status SharedVolumeGrantStatus `json:"status,omitzero"`
}

// SharedVolumeGrantSpec lists the access points that are granted.
type SharedVolumeGrantSpec struct {
	// NamespaceUID is the metadata.uid of the namespace that the grant is for. If it is not set, the
	// grant is for the namespace that has its name when the grant is created. Set it for a namespace
	// that was created later, or that replaces a deleted one, once you know who owns it.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	NamespaceUID string `json:"namespaceUID,omitempty"`

	// FileSystems lists the file systems whose access points are granted.
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
	// "*" means all of its access points, including future ones.
	//
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:Pattern=`^(fsap-[0-9a-f]+|\*)$`
	// +kubebuilder:validation:items:MaxLength=128
	AccessPointIDs []string `json:"accessPointIDs"`
}

// AllAccessPoints, in a grant, means all access points of a file system.
const AllAccessPoints = "*"

// ConditionEffective is the type of the condition that is true while a grant is for the namespace that has
// its name.
const ConditionEffective = "Effective"

// SharedVolumeGrantStatus says which namespace a grant is for.
type SharedVolumeGrantStatus struct {
	// NamespaceUID is the metadata.uid of the namespace that the grant is for. A later namespace of the
	// same name has another UID.
	//
	// +optional
	NamespaceUID string `json:"namespaceUID,omitempty"`

	// Conditions contains one condition, Effective, which is true while the grant is for the namespace
	// that has its name, as last observed. If it is not true, its reason and message say why, and how
	// to fix it.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SharedVolumeGrantList is a list of SharedVolumeGrants.
//
// +kubebuilder:object:root=true
type SharedVolumeGrantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SharedVolumeGrant `json:"items"`
}

// PolicyName is the name of the one SharedVolumePolicy.
const PolicyName = "cluster"

// SharedVolumePolicy controls who may mount what through SharedVolumes. There is only one, named "cluster",
// which the operator creates. Without it, SharedVolumes need grants.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=sharedvolumepolicies,shortName=svp
// +kubebuilder:printcolumn:name="Access",type=string,JSONPath=`.spec.access`
// +kubebuilder:printcolumn:name="Grants Required",type=string,JSONPath=`.status.conditions[?(@.type=="GrantsRequired")].status`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="GrantsRequired")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'cluster'",message="the one SharedVolumePolicy is called cluster"
type SharedVolumePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec controls who may mount what.
	//
	// +required
	Spec SharedVolumePolicySpec `json:"spec"`

	// Status reports the effect of the policy. The operator writes it.
	//
	// +optional
	Status SharedVolumePolicyStatus `json:"status,omitzero"`
}

// Access says what a SharedVolume needs to get a volume.
type Access string

const (
	// AccessGranted: a grant for its namespace that lists its access point.
	AccessGranted Access = "Granted"
	// AccessOpen: nothing. Anybody who may create SharedVolumes may mount any access point.
	AccessOpen Access = "Open"
)

// SharedVolumePolicySpec controls who may mount what.
type SharedVolumePolicySpec struct {
	// Access says what a SharedVolume needs to get a volume. With Granted, it needs a SharedVolumeGrant
	// for its namespace that lists its access point. With Open, it needs nothing: anybody with the role
	// edit or admin in any namespace can mount any access point of any file system that the nodes can
	// reach. New installations start with Granted, clusters that ran the community operator with Open.
	// A SharedVolume that already has a volume keeps it, whatever is set here.
	//
	// +required
	// +kubebuilder:validation:Enum=Granted;Open
	Access Access `json:"access"`
}

// ConditionGrantsRequired is the type of the condition that is true while SharedVolumes need grants.
const ConditionGrantsRequired = "GrantsRequired"

// SharedVolumePolicyStatus reports the effect of a policy.
type SharedVolumePolicyStatus struct {
	// Conditions contains one condition, GrantsRequired, which is true while new SharedVolumes get a
	// volume only with a grant. Its message says how to change that.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SharedVolumePolicyList is a list of SharedVolumePolicies.
//
// +kubebuilder:object:root=true
type SharedVolumePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SharedVolumePolicy `json:"items"`
}
