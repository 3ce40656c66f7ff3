package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SharedVolumeGrant lists the access points that the SharedVolumes of one namespace may mount. It has the
// name of that namespace. Without it, and as long as the SharedVolumePolicy asks for grants, a new
// SharedVolume of the namespace gets no volume.
//
// A name is no proof: somebody else may own the next namespace of that name. A grant is for the one
// namespace that its status names, and for no later one; see spec.namespaceUID.
//
// A grant that is changed or deleted ends no SharedVolume that has its volume already.
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

	// Spec lists what is granted.
	//
	// +required
	Spec SharedVolumeGrantSpec `json:"spec"`

	// Status says which namespace the grant is for, and whether that is there. It is written by the
	// operator.
	//
	// +optional
	Status SharedVolumeGrantStatus `json:"status,omitzero"`
}

// SharedVolumeGrantSpec lists what is granted.
type SharedVolumeGrantSpec struct {
	// NamespaceUID is the metadata.uid of the namespace that the grant is for. Without it, that is the
	// namespace that has the grant's name when the grant is created. Set it for a namespace that was
	// created later, or that replaces a deleted one, once you know who owns it.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	NamespaceUID string `json:"namespaceUID,omitempty"`

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

// AllAccessPoints stands in a grant for all access points of a file system.
const AllAccessPoints = "*"

// ConditionEffective is the type of the condition that is true while a grant is for the namespace that has
// its name.
const ConditionEffective = "Effective"

// SharedVolumeGrantStatus says which namespace a grant is for.
type SharedVolumeGrantStatus struct {
	// NamespaceUID is the metadata.uid of the namespace that the grant is for. A later namespace of the
	// same name has another one.
	//
	// +optional
	NamespaceUID string `json:"namespaceUID,omitempty"`

	// Conditions has one condition, Effective: true while the grant is for the namespace that has its
	// name, as last looked at. Its reason and message say why it is not, and what settles it.
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

// SharedVolumePolicy says who may mount what by SharedVolumes. There is one, called "cluster", which the
// operator creates. Without it, SharedVolumes need grants.
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

	// Spec says who may mount what.
	//
	// +required
	Spec SharedVolumePolicySpec `json:"spec"`

	// Status says what the operator makes of it. It is written by the operator.
	//
	// +optional
	Status SharedVolumePolicyStatus `json:"status,omitzero"`
}

// Access says what a SharedVolume needs to get a volume.
type Access string

const (
	// AccessGranted: a grant of its namespace that lists its access point.
	AccessGranted Access = "Granted"
	// AccessOpen: nothing. Whoever may create SharedVolumes may mount any access point.
	AccessOpen Access = "Open"
)

// SharedVolumePolicySpec says who may mount what.
type SharedVolumePolicySpec struct {
	// Access says what a SharedVolume needs to get a volume. With Granted, it needs a SharedVolumeGrant
	// of its namespace that lists its access point. With Open, it needs nothing: whoever has the role
	// edit or admin in any namespace can mount any access point of any file system that the nodes reach.
	// New installations begin with Granted, clusters that come from the community's operator with Open.
	// SharedVolumes that have their volume keep it, whatever is set here.
	//
	// +required
	// +kubebuilder:validation:Enum=Granted;Open
	Access Access `json:"access"`
}

// ConditionGrantsRequired is the type of the condition that is true while SharedVolumes need grants.
const ConditionGrantsRequired = "GrantsRequired"

// SharedVolumePolicyStatus says what the operator makes of a policy.
type SharedVolumePolicyStatus struct {
	// Conditions has one condition, GrantsRequired: true while new SharedVolumes get a volume only with
	// a grant. Its message says how to change that.
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
