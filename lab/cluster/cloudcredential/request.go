package cloudcredential

import (
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Namespace is the namespace of CredentialsRequests.
const Namespace = "openshift-cloud-credential-operator"

// Names that the real operator uses and others depend on.
const (
	finalizer = "cloudcredential.openshift.io/deprovision"
	// OwnerMark is both the annotation of a Secret that names its request, and the label that marks such a Secret.
	OwnerMark = "cloudcredential.openshift.io/credentials-request"

	conditionMissingNamespace = "MissingTargetNamespace"
	reasonNamespaceMissing    = "NamespaceMissing"
	reasonNamespaceExists     = "NamespaceExists"

	// The kinds of providerSpecs. The real operator serves only its cluster's cloud; here a request's providerSpec selects
	// the cloud.
	kindAWS       = "AWSProviderSpec"
	kindOpenStack = "OpenStackProviderSpec"
	kindGCP       = "GCPProviderSpec"
	kindAzure     = "AzureProviderSpec"
	kindVSphere   = "VSphereProviderSpec"
)

var requestGroupVersion = schema.GroupVersion{Group: "cloudcredential.openshift.io", Version: "v1"}

// request is the relevant part of a CredentialsRequest.
type request struct {
	object *unstructured.Unstructured
	spec   requestSpec
	status requestStatus
}

type requestSpec struct {
	SecretRef      corev1.ObjectReference `json:"secretRef"`
	CloudTokenPath string                 `json:"cloudTokenPath"`
	ProviderSpec   struct {
		Kind          string `json:"kind"`
		STSIAMRoleARN string `json:"stsIAMRoleARN"`
	} `json:"providerSpec"`
}

type requestStatus struct {
	Provisioned        bool               `json:"provisioned"`
	LastSyncGeneration int64              `json:"lastSyncGeneration"`
	LastSyncTimestamp  *metav1.Time       `json:"lastSyncTimestamp,omitempty"`
	Conditions         []requestCondition `json:"conditions,omitempty"`
}

type requestCondition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	LastProbeTime      metav1.Time            `json:"lastProbeTime"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime"`
	Reason             string                 `json:"reason"`
	Message            string                 `json:"message"`
}

func parse(object *unstructured.Unstructured) (request, error) {
	var parsed struct {
		Spec   requestSpec   `json:"spec"`
		Status requestStatus `json:"status"`
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &parsed)
	return request{object, parsed.Spec, parsed.Status}, err
}

// isServed reports whether the operator creates this request's Secret. In Manual mode administrators create key pairs
// themselves, and the operator serves only requests that need none.
func (r request) isServed(mode operatorv1.CloudCredentialsMode) bool {
	return slices.Contains([]string{kindAWS, kindOpenStack, kindGCP, kindAzure, kindVSphere}, r.spec.ProviderSpec.Kind) && (mode != operatorv1.CloudCredentialsModeManual || r.usesToken())
}

// usesToken reports whether the program assumes a role with its service account token.
func (r request) usesToken() bool { return r.spec.ProviderSpec.STSIAMRoleARN != "" }

// root returns the name of the Secret with the cluster's own credentials if the request's Secret is a copy of that.
func (r request) root() string { return roots[r.spec.ProviderSpec.Kind] }

// withFinalizer returns the request with the finalizer; nil if it already has it.
func (r request) withFinalizer() *unstructured.Unstructured {
	if slices.Contains(r.object.GetFinalizers(), finalizer) {
		return nil
	}
	changed := r.object.DeepCopy()
	changed.SetFinalizers(append(changed.GetFinalizers(), finalizer))
	return changed
}

// withoutFinalizer returns the request without the finalizer, or nil if it has no finalizer.
func (r request) withoutFinalizer() *unstructured.Unstructured {
	i := slices.Index(r.object.GetFinalizers(), finalizer)
	if i < 0 {
		return nil
	}
	changed := r.object.DeepCopy()
	changed.SetFinalizers(slices.Delete(changed.GetFinalizers(), i, i+1))
	return changed
}

// waiting returns the request with a status that says that its Secret's namespace is missing; nil if it already has that status.
func (r request) waiting(now metav1.Time) *unstructured.Unstructured {
	status := r.status
	status.Conditions = withCondition(status.Conditions, requestCondition{
		Type: conditionMissingNamespace, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now,
		Reason: reasonNamespaceMissing, Message: fmt.Sprintf("target namespace %s not found", r.spec.SecretRef.Namespace),
	})
	return r.withStatus(status)
}

// provisioned returns the request with a status that says that its Secret exists; nil if it already has that status.
func (r request) provisioned(now metav1.Time) *unstructured.Unstructured {
	status := r.status
	if !status.Provisioned || status.LastSyncGeneration != r.object.GetGeneration() {
		status.Provisioned, status.LastSyncGeneration, status.LastSyncTimestamp = true, r.object.GetGeneration(), &now
	}
	if slices.ContainsFunc(status.Conditions, func(c requestCondition) bool { return c.Type == conditionMissingNamespace }) {
		status.Conditions = withCondition(status.Conditions, requestCondition{
			Type: conditionMissingNamespace, Status: corev1.ConditionFalse, LastProbeTime: now, LastTransitionTime: now,
			Reason: reasonNamespaceExists, Message: fmt.Sprintf("target namespace %s found", r.spec.SecretRef.Namespace),
		})
	}
	return r.withStatus(status)
}

// withCondition replaces the condition of this type, unless its status is the same.
func withCondition(conditions []requestCondition, condition requestCondition) []requestCondition {
	i := slices.IndexFunc(conditions, func(c requestCondition) bool { return c.Type == condition.Type })
	if i < 0 {
		return append(slices.Clone(conditions), condition)
	}
	if conditions[i].Status == condition.Status {
		return conditions
	}
	changed := slices.Clone(conditions)
	changed[i] = condition
	return changed
}

// withStatus returns the request with this status; nil if it already has it.
func (r request) withStatus(status requestStatus) *unstructured.Unstructured {
	if status.Provisioned == r.status.Provisioned && status.LastSyncGeneration == r.status.LastSyncGeneration && slices.Equal(status.Conditions, r.status.Conditions) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		panic(err) // Its fields are all valid JSON.
	}
	changed := r.object.DeepCopy()
	previous, _, _ := unstructured.NestedMap(changed.Object, "status")
	if previous == nil {
		previous = map[string]any{}
	}
	for field, value := range content {
		previous[field] = value
	}
	changed.Object["status"] = previous
	return changed
}

// ownerOf returns the name of the request of a Secret.
func ownerOf(secret metav1.Object) (string, bool) {
	return strings.CutPrefix(secret.GetAnnotations()[OwnerMark], Namespace+"/")
}
