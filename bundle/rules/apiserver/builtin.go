package apiserver

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsinstall "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	admissionregistrationv1 "k8s.io/kubernetes/pkg/apis/admissionregistration/v1"
	admissionregistrationvalidation "k8s.io/kubernetes/pkg/apis/admissionregistration/validation"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsv1 "k8s.io/kubernetes/pkg/apis/apps/v1"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	networkingv1 "k8s.io/kubernetes/pkg/apis/networking/v1"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	policyv1 "k8s.io/kubernetes/pkg/apis/policy/v1"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	"k8s.io/kubernetes/pkg/apis/rbac"
	rbacv1 "k8s.io/kubernetes/pkg/apis/rbac/v1"
	rbacvalidation "k8s.io/kubernetes/pkg/apis/rbac/validation"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	schedulingvalidation "k8s.io/kubernetes/pkg/apis/scheduling/validation"
	"k8s.io/kubernetes/pkg/capabilities"
	"sigs.k8s.io/json"
)

// scheme has the built-in kinds that OLM installs or makes from a ClusterServiceVersion.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		core.AddToScheme, corev1.AddToScheme, apps.AddToScheme, appsv1.AddToScheme, rbac.AddToScheme, rbacv1.AddToScheme,
		policy.AddToScheme, policyv1.AddToScheme, scheduling.AddToScheme, schedulingv1.AddToScheme,
		networking.AddToScheme, networkingv1.AddToScheme, admissionregistration.AddToScheme, admissionregistrationv1.AddToScheme,
	} {
		utilruntime.Must(add(s))
	}
	apiextensionsinstall.Install(s)
	return s
}()

// New returns an empty object of a kind, or nil if this package does not know it.
func New(kind schema.GroupVersionKind) runtime.Object {
	if kind.Version == runtime.APIVersionInternal {
		return nil
	}
	object, err := scheme.New(kind)
	if err != nil {
		return nil
	}
	return object
}

// Unknown returns a warning for each unknown field of an object in JSON, which the API server drops.
func Unknown(content []byte, kind schema.GroupVersionKind) (faults []Fault) {
	strict, err := json.UnmarshalStrict(content, New(kind))
	if err != nil {
		return nil // of the wrong type, which is reported
	}
	for _, err := range strict {
		path := ""
		if at, is := err.(interface{ FieldPath() string }); is {
			path = at.FieldPath()
		}
		faults = append(faults, Fault{Path: parse(path), Message: err.Error() + ", which the API server drops", Warning: true})
	}
	return faults
}

// Validate checks an object of a built-in kind in its versioned form, with the defaults of the API server. It changes the object.
func Validate(object runtime.Object) (faults []Fault) {
	capabilities.Setup(true, 0) // privileged pods are allowed, as by OpenShift and kubeadm
	if meta, is := object.(metav1.Object); is {
		meta.SetNamespace("default") // OLM chooses one
		if clusterScoped(object) {
			meta.SetNamespace("") // the API server clears it
		}
	}
	scheme.Default(object)
	internal, err := scheme.ConvertToVersion(object, runtime.InternalGroupVersioner)
	if err != nil {
		return []Fault{{Message: fmt.Sprintf("the API server cannot read it: %v", err)}}
	}
	if service, is := internal.(*core.Service); is && service.Spec.ClusterIP != "" && len(service.Spec.ClusterIPs) == 0 {
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP} // as the server does before it checks
	}
	for _, err := range errorsOf(internal) {
		if _, is := internal.(*apiextensions.CustomResourceDefinition); is {
			err.Field = inVersion.ReplaceAllStringFunc(err.Field, func(text string) string { return hoisted[text] })
		}
		faults = append(faults, faultOf(err))
	}
	return faults
}

// hoisted maps fields of the API server's internal form of a definition to the fields that people write. The internal form has such a
// field once for all versions if the versions agree.
var hoisted = map[string]string{"spec.validation": "spec.versions[0].schema", "spec.subresources": "spec.versions[0].subresources",
	"spec.additionalPrinterColumns": "spec.versions[0].additionalPrinterColumns"}

var inVersion = regexp.MustCompile(`^spec\.(validation|subresources|additionalPrinterColumns)`)

func clusterScoped(object runtime.Object) bool {
	kind := fmt.Sprintf("%T", object)
	for _, scoped := range []string{"ClusterRole", "ClusterRoleBinding", "PriorityClass", "CustomResourceDefinition", "WebhookConfiguration", "Namespace"} {
		if strings.HasSuffix(kind, scoped) {
			return true
		}
	}
	return false
}

// errorsOf returns the API server's errors for an object. It returns none for kinds that OLM does not install.
func errorsOf(internal runtime.Object) field.ErrorList {
	switch o := internal.(type) {
	case *apps.Deployment:
		return appsvalidation.ValidateDeployment(o, pod.GetValidationOptionsFromPodTemplate(&o.Spec.Template, nil))
	case *core.ServiceAccount:
		return corevalidation.ValidateServiceAccount(o)
	case *core.Service:
		return corevalidation.ValidateServiceCreate(o)
	case *core.Secret:
		return corevalidation.ValidateSecret(o)
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(o)
	case *rbac.Role:
		return rbacvalidation.ValidateRole(o)
	case *rbac.RoleBinding:
		return rbacvalidation.ValidateRoleBinding(o)
	case *rbac.ClusterRole:
		return rbacvalidation.ValidateClusterRole(o, rbacvalidation.ClusterRoleValidationOptions{})
	case *rbac.ClusterRoleBinding:
		return rbacvalidation.ValidateClusterRoleBinding(o)
	case *policy.PodDisruptionBudget:
		return policyvalidation.ValidatePodDisruptionBudget(o, policyvalidation.PodDisruptionBudgetValidationOptions{})
	case *scheduling.PriorityClass:
		return schedulingvalidation.ValidatePriorityClass(o)
	case *networking.NetworkPolicy:
		return networkingvalidation.ValidateNetworkPolicy(o, networkingvalidation.NetworkPolicyValidationOptions{})
	case *admissionregistration.ValidatingWebhookConfiguration:
		return admissionregistrationvalidation.ValidateValidatingWebhookConfiguration(o)
	case *admissionregistration.MutatingWebhookConfiguration:
		return admissionregistrationvalidation.ValidateMutatingWebhookConfiguration(o)
	case *apiextensions.CustomResourceDefinition:
		return definitionErrors(o)
	}
	return nil
}

// definitionErrors checks a definition with the status that the API server gives it.
func definitionErrors(definition *apiextensions.CustomResourceDefinition) field.ErrorList {
	definition = definition.DeepCopy()
	leaveLongRules(definition)
	definition.Status = apiextensions.CustomResourceDefinitionStatus{}
	for _, version := range definition.Spec.Versions {
		if version.Storage {
			definition.Status.StoredVersions = []string{version.Name}
			break
		}
	}
	var found field.ErrorList
	for _, err := range apiextensionsvalidation.ValidateCustomResourceDefinition(context.Background(), definition) {
		if !strings.HasPrefix(err.Field, "status") {
			found = append(found, err)
		}
	}
	return found
}
