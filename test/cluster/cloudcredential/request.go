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

// Namespace is where CredentialsRequests are served.
const Namespace = "openshift-cloud-credential-operator"

// Names that the real operator gives and others look for.
const (
	finalizer = "cloudcredential.openshift.io/deprovision"
	// ownerMark is the annotation of a Secret that names its request, and the label that says that
	// there is one.
	ownerMark = "cloudcredential.openshift.io/credentials-request"

	conditionMissingNamespace = "MissingTargetNamespace"
	reasonNamespaceMissing    = "NamespaceMissing"
	reasonNamespaceExists     = "NamespaceExists"

	// kindAWS and kindOpenStack are the providerSpecs of requests for these clouds. The real operator
	// serves those of the cloud that its cluster is on; here a request has the cloud that it asks for.
	kindAWS       = "AWSProviderSpec"
	kindOpenStack = "OpenStackProviderSpec"
)

var requestGroupVersion = schema.GroupVersion{Group: "cloudcredential.openshift.io", Version: "v1"}

// request is what the operator looks at in a CredentialsRequest.
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

// isServed tells whether the operator makes this request's Secret. In Manual mode administrators
// make key pairs themselves, and only a request that needs none is served.
func (r request) isServed(mode operatorv1.CloudCredentialsMode) bool {
	return slices.Contains([]string{kindAWS, kindOpenStack}, r.spec.ProviderSpec.Kind) && (mode != operatorv1.CloudCredentialsModeManual || r.usesToken())
}

// usesToken tells whether the program will assume a role by its service account token.
func (r request) usesToken() bool { return r.spec.ProviderSpec.STSIAMRoleARN != "" }

// usesRoot tells whether the Secret has what the cluster itself logs in to the cloud with.
func (r request) usesRoot() bool { return r.spec.ProviderSpec.Kind == kindOpenStack }

// withFinalizer is the request held back from deletion; nil if it is already.
func (r request) withFinalizer() *unstructured.Unstructured {
	if slices.Contains(r.object.GetFinalizers(), finalizer) {
		return nil
	}
	changed := r.object.DeepCopy()
	changed.SetFinalizers(append(changed.GetFinalizers(), finalizer))
	return changed
}

// withoutFinalizer is the request released for deletion; nil if it is already.
func (r request) withoutFinalizer() *unstructured.Unstructured {
	i := slices.Index(r.object.GetFinalizers(), finalizer)
	if i < 0 {
		return nil
	}
	changed := r.object.DeepCopy()
	changed.SetFinalizers(slices.Delete(changed.GetFinalizers(), i, i+1))
	return changed
}

// waiting is the request that says that its Secret's namespace is missing; nil if it does already.
func (r request) waiting(now metav1.Time) *unstructured.Unstructured {
	status := r.status
	status.Conditions = withCondition(status.Conditions, requestCondition{
		Type: conditionMissingNamespace, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now,
		Reason: reasonNamespaceMissing, Message: fmt.Sprintf("target namespace %s not found", r.spec.SecretRef.Namespace),
	})
	return r.withStatus(status)
}

// provisioned is the request that says that its Secret is there; nil if it does already.
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

// withStatus is the request with this status; nil if it has it already.
func (r request) withStatus(status requestStatus) *unstructured.Unstructured {
	if status.Provisioned == r.status.Provisioned && status.LastSyncGeneration == r.status.LastSyncGeneration && slices.Equal(status.Conditions, r.status.Conditions) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		panic(err) // It has only fields that JSON knows.
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

// ownerOf gives the name of the request that a Secret was made for.
func ownerOf(secret metav1.Object) (string, bool) {
	return strings.CutPrefix(secret.GetAnnotations()[ownerMark], Namespace+"/")
}
