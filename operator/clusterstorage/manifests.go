package clusterstorage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/permissions"
)

// OperatorImageVariable is the environment variable with the image of all operators.
const OperatorImageVariable = "OPERATOR_IMAGE"

// VersionVariable is the environment variable with the version of the release.
const VersionVariable = "RELEASE_VERSION"

// ImageVariable returns the name of the environment variable with the pull spec of a driver's image. Each CSI sidecar
// has one variable for all drivers. The variables of a driver's own images begin with its name.
func ImageVariable(d drivers.Driver, image drivers.Image) string {
	if slices.Contains(drivers.SidecarImages, image) {
		return image.Env
	}
	return strings.ToUpper(d.Name) + "_" + image.Env
}

// operatorObjects are the objects that run a driver's operator.
type operatorObjects struct {
	// objects are in the order of their application: the API server rejects a binding of a role that does not exist.
	// The release creates their namespace.
	objects    []*unstructured.Unstructured
	deployment *appsv1.Deployment
}

// render renders the objects of a driver's operator. If the environment lacks images, it fails and names them all.
func render(d drivers.Driver, version string, getenv func(string) string) (operatorObjects, error) {
	deployment, err := operatorDeployment(d, version, getenv)
	if err != nil {
		return operatorObjects{}, err
	}
	typed, err := accountAndRoles(d)
	if err != nil {
		return operatorObjects{}, err
	}
	r := operatorObjects{deployment: deployment}
	for _, object := range typed {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return operatorObjects{}, err
		}
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		unstructured.RemoveNestedField(content, "status")
		unstructured.RemoveNestedField(content, "spec")
		r.objects = append(r.objects, &unstructured.Unstructured{Object: content})
	}
	monitoring, err := d.OperatorMonitoring()
	if err != nil {
		return operatorObjects{}, err
	}
	for _, m := range monitoring {
		m.Object.SetNamespace(drivers.ClusterStorageNamespace)
		r.objects = append(r.objects, m.Object)
	}
	return r, nil
}

// DriversNamespace returns the namespace of the drivers' operators, and of most drivers. Only the cluster version
// operator applies it, because operators of different versions would not agree.
func DriversNamespace() *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name: drivers.ClusterStorageNamespace,
			Labels: map[string]string{
				drivers.MonitoringLabel:                          "true",
				"pod-security.kubernetes.io/enforce":             "privileged",
				"pod-security.kubernetes.io/audit":               "privileged",
				"pod-security.kubernetes.io/warn":                "privileged",
				"security.openshift.io/scc.podSecurityLabelSync": "false",
			},
			Annotations: map[string]string{
				"openshift.io/node-selector":    "", // drivers run on all nodes, whatever the cluster's default is
				"workload.openshift.io/allowed": "management",
			},
		},
	}
}

// accountAndRoles returns the service account of a driver's operator, and its permissions. They have the same names as
// in OpenShift's cluster storage operator, so that they replace its objects in place.
func accountAndRoles(d drivers.Driver) ([]runtime.Object, error) {
	rules, err := d.OperatorPolicyRules(permissions.Permanent)
	if err != nil {
		return nil, err
	}
	name := d.Operator.Name
	in := metav1.ObjectMeta{Namespace: drivers.ClusterStorageNamespace}
	named := func(meta metav1.ObjectMeta, suffix string) metav1.ObjectMeta { meta.Name = name + suffix; return meta }
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: in.Namespace, Name: name}}
	rbac := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	return []runtime.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: named(in, "")},
		&rbacv1.Role{TypeMeta: rbac("Role"), ObjectMeta: named(in, "-role"), Rules: rules.Permissions},
		&rbacv1.ClusterRole{TypeMeta: rbac("ClusterRole"), ObjectMeta: named(metav1.ObjectMeta{}, "-clusterrole"), Rules: rules.ClusterPermissions},
		&rbacv1.RoleBinding{TypeMeta: rbac("RoleBinding"), ObjectMeta: named(in, "-rolebinding"),
			RoleRef: ref("Role", name+"-role"), Subjects: subjects},
		&rbacv1.ClusterRoleBinding{TypeMeta: rbac("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: d.SuccessorBinding()},
			RoleRef: ref("ClusterRole", name+"-clusterrole"), Subjects: subjects},
	}, nil
}

// operatorDeployment returns the Deployment of a driver's operator, with images from the environment.
func operatorDeployment(d drivers.Driver, version string, getenv func(string) string) (*appsv1.Deployment, error) {
	deployment := d.OperatorDeployment()
	deployment.Namespace = drivers.ClusterStorageNamespace
	container := &deployment.Spec.Template.Spec.Containers[0]
	var missing []string
	image := func(variable string) string {
		pullSpec := getenv(variable)
		if pullSpec == "" {
			missing = append(missing, variable)
		}
		return pullSpec
	}
	container.Image = image(OperatorImageVariable)
	container.Args = append(container.Args, "--removable=false")
	for _, of := range d.Images {
		for i := range container.Env {
			if container.Env[i].Name == of.Env {
				container.Env[i].Value = image(ImageVariable(d, of))
			}
		}
	}
	container.Env = append(container.Env, corev1.EnvVar{Name: VersionVariable, Value: version})
	if len(missing) > 0 {
		return nil, fmt.Errorf("no image given for %s: set these environment variables of the cluster storage operator; the release's manifests set them",
			strings.Join(missing, ", "))
	}
	return deployment, nil
}

// withProxy returns the Deployment of a driver's operator with the cluster's proxy settings, which the operator needs
// to call the cloud. OLM sets the same variables for the operators that it runs.
func withProxy(deployment *appsv1.Deployment, proxy configv1.ProxyStatus) *appsv1.Deployment {
	deployment = deployment.DeepCopy()
	container := &deployment.Spec.Template.Spec.Containers[0]
	for _, variable := range []corev1.EnvVar{
		{Name: "HTTP_PROXY", Value: proxy.HTTPProxy}, {Name: "HTTPS_PROXY", Value: proxy.HTTPSProxy}, {Name: "NO_PROXY", Value: proxy.NoProxy},
	} {
		if variable.Value != "" {
			container.Env = append(container.Env, variable)
		}
	}
	return deployment
}

// customResource returns a driver's initial ClusterCSIDriver. It has the log levels of an earlier operator's custom
// resource. An administrator may change all of it.
func customResource(d drivers.Driver, old []oldCustomResource) *unstructured.Unstructured {
	level, operatorLevel := operatorv1.Normal, operatorv1.Normal
	for _, r := range old {
		level, operatorLevel = cmp.Or(r.LogLevel, level), cmp.Or(r.OperatorLogLevel, operatorLevel)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "operator.openshift.io/v1", "kind": "ClusterCSIDriver",
		"metadata": map[string]any{"name": d.CSIName},
		"spec":     map[string]any{"managementState": "Managed", "logLevel": string(level), "operatorLogLevel": string(operatorLevel)},
	}}
}
