package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SharedVolume lets the pods of its namespace mount one access point of an Amazon EFS file system.
//
// Each SharedVolume has one PersistentVolume, which represents the access point, and one
// PersistentVolumeClaim "pvc-<name of the SharedVolume>", which is bound to the volume. Any number of
// pods can mount the claim at the same time, to read and write. Deleting the SharedVolume deletes the
// claim and the volume once no pod uses them; the data in EFS is never touched.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sv
// +kubebuilder:printcolumn:name="File System",type=string,JSONPath=`.spec.fileSystemID`
// +kubebuilder:printcolumn:name="Access Point",type=string,JSONPath=`.spec.accessPointID`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.status.claimRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.summary`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || has(self.spec)",message="spec is immutable: to use another access point, create another SharedVolume"
type SharedVolume struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec names the access point. It cannot be changed or removed: to use another access point,
	// create another SharedVolume.
	//
	// +optional
	Spec SharedVolumeSpec `json:"spec,omitzero"`

	// Status reports the state of the claim and its volume. The operator writes it and never reads it.
	//
	// +optional
	// +kubebuilder:default:={phase: Pending, reason: NotYetSeen, message: "No operator has reported on it yet", conditions: {{type: Ready, status: Unknown, reason: NotYetSeen, message: "No operator has reported on it yet, which is normal at first. If that does not change, a cluster administrator can run berth doctor to see whether the operator runs"}}}
	Status SharedVolumeStatus `json:"status,omitzero"`
}

// SharedVolumeSpec names one access point of an Amazon EFS file system.
//
// The community operator's CRD did not limit the length of the IDs. A maxLength would make a stored
// object with a longer ID invalid, and OLM would refuse to install the new CRD. Validation rules leave
// stored objects alone.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: to use another access point, create another SharedVolume"
type SharedVolumeSpec struct {
	// FileSystemID is the ID of the EFS file system, such as "fs-0123456789abcdef0". The file system
	// must exist and be reachable from the cluster's nodes. Required, immutable.
	//
	// +required
	// +kubebuilder:validation:Pattern=`^fs-[0-9a-f]+$`
	// +kubebuilder:validation:XValidation:rule="size(self) <= 128",message="an ID has at most 128 characters"
	FileSystemID string `json:"fileSystemID"`

	// AccessPointID is the ID of an access point of that file system, such as
	// "fsap-0123456789abcdef0". The access point determines which directory pods see, and which
	// user they act as. Required, immutable.
	//
	// +required
	// +kubebuilder:validation:Pattern=`^fsap-[0-9a-f]+$`
	// +kubebuilder:validation:XValidation:rule="size(self) <= 128",message="an ID has at most 128 characters"
	AccessPointID string `json:"accessPointID"`
}

// Phase is a SharedVolume's state in one word.
type Phase string

const (
	// Pending: the claim and the volume are being created and bound to each other.
	Pending Phase = "Pending"
	// Ready: the claim is bound to the volume, and pods can mount it.
	Ready Phase = "Ready"
	// Deleting: the SharedVolume was deleted, but its claim or its volume still exists.
	Deleting Phase = "Deleting"
	// Failed: a person must resolve the problem that the message describes.
	Failed Phase = "Failed"
)

// ConditionReady is the type of the condition that is true while pods can mount the claim.
const ConditionReady = "Ready"

// ConditionFileSystemAvailable is the type of the condition that is true if the file system and the access point exist
// in AWS and each zone with nodes has a mount target. It is absent if the operator cannot ask AWS, and before the
// SharedVolume is Ready.
const ConditionFileSystemAvailable = "FileSystemAvailable"

// SharedVolumeStatus reports the state of a SharedVolume's claim and volume.
type SharedVolumeStatus struct {
	// ClaimRef names the PersistentVolumeClaim that pods mount, in the SharedVolume's namespace. It
	// is set while the claim is bound to the volume and the SharedVolume is not being deleted.
	//
	// +optional
	ClaimRef corev1.TypedLocalObjectReference `json:"claimRef,omitzero"`

	// Phase is one of Pending (the claim and the volume are being created and bound), Ready (pods can
	// use the claim; the condition FileSystemAvailable says whether AWS has the file system), Deleting
	// (the claim or the volume still exists), and Failed (a person must resolve the problem that the
	// message describes).
	//
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Message says what the SharedVolume is waiting for, or what blocks it. It is empty if there is no
	// problem.
	//
	// +optional
	Message string `json:"message,omitempty"`

	// Reason is the status in one word: Ready, or the reason of the condition that is not true.
	//
	// +optional
	Reason string `json:"reason,omitempty"`

	// Summary is the message of the condition that is not true, or its beginning, in at most 120
	// characters. It is empty if there is no problem.
	//
	// +optional
	Summary string `json:"summary,omitempty"`

	// ObservedGeneration is the metadata.generation that the status describes.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions contains the condition Ready, which is true while the claim is bound to the volume
	// and neither is being deleted, and, if the operator can ask AWS about a granted access point, the
	// condition FileSystemAvailable, which is true if the file system and the access point exist and
	// each zone with nodes has a mount target. If one is not true, its reason and message say why.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SharedVolumeList is a list of SharedVolumes.
//
// +kubebuilder:object:root=true
type SharedVolumeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SharedVolume `json:"items"`
}
