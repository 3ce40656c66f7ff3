package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package's types.
var GroupVersion = schema.GroupVersion{Group: "aws-efs.managed.openshift.io", Version: "v1alpha1"}

// AddToScheme makes this package's types known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &SharedVolume{}, &SharedVolumeList{},
		&SharedVolumeGrant{}, &SharedVolumeGrantList{}, &SharedVolumePolicy{}, &SharedVolumePolicyList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
