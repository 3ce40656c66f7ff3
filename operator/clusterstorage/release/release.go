// Package release has the manifests with which the cluster version operator runs the cluster storage operator. They are
// generated from the definitions of the drivers, into the folder deploy/manifests of the repository.
//
// The names of the files have a run level, and the cluster version operator applies the files in the order of their names. A release puts
// its own images in place of those in image-references, and its version in place of snapshot.
package release

import (
	"fmt"
	"maps"
	"path"
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
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/operator/dashboard"
)

//go:generate go run ../../../hack/manifests -output ../../../deploy/manifests

// snapshot stands for the version of a release.
const snapshot = "0.0.1-snapshot"

// The names of files begin with a run level and the name of the component.
const (
	// early is for objects that other components of storage's run level need.
	early = "0000_49_cluster-storage-operator_"
	level = "0000_50_cluster-storage-operator_"
	// late is for objects that need these components' APIs.
	late = "0000_90_cluster-storage-operator_"
)

// capability is the annotation that names the cluster capability to which a manifest belongs.
const capability = "capability.openshift.io/name"

// createOnly makes the cluster version operator create an object, and leave it alone afterwards.
const createOnly = "release.openshift.io/create-only"

// always are the annotations of all manifests: the kinds of clusters that get them.
var always = map[string]string{
	"include.release.openshift.io/self-managed-high-availability": "true",
	"include.release.openshift.io/single-node-developer":          "true",
}

// included are the annotations of most manifests. Clusters can be installed without the capability, see
// https://github.com/openshift/enhancements/blob/master/enhancements/installer/component-selection.md.
var included = with(always, map[string]string{capability: "Storage"})

// with returns both maps' annotations.
func with(annotations, more map[string]string) map[string]string {
	merged := maps.Clone(annotations)
	maps.Copy(merged, more)
	return merged
}

// File is a file of the folder deploy/manifests.
type File struct {
	Name string
	Data []byte
}

// Files returns all files for the drivers, sorted by name.
func Files(all []drivers.Driver) ([]File, error) {
	all = clusterstorage.OfPlatforms(all)
	roles, err := roles(all)
	if err != nil {
		return nil, err
	}
	requests, err := credentialsRequests(all)
	if err != nil {
		return nil, err
	}
	monitoring, err := monitoring()
	if err != nil {
		return nil, err
	}
	// The two digits after the component order the files of a level.
	objects := map[string]runtime.Object{
		early + "00_namespace":         namespace(),
		level + "00_namespace_drivers": clusterstorage.DriversNamespace(),
		level + "01_storage":           storage(),
		level + "02_clusteroperator":   clusterOperator(),
		level + "04_serviceaccount": &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
			ObjectMeta: metav1.ObjectMeta{Namespace: clusterstorage.Namespace, Name: clusterstorage.Name}},
		level + "10_deployment": deployment(all),
		late + "02_dashboard":   dashboard.ConfigMap(),
	}
	maps.Copy(objects, roles)
	maps.Copy(objects, requests)
	maps.Copy(objects, monitoring)
	if objects[late+"03_prometheusrule"], err = Rule(); err != nil {
		return nil, fmt.Errorf("alerts: %w", err)
	}
	files := []File{}
	for name, object := range objects {
		annotations := included
		if strings.HasPrefix(name, early) {
			annotations = always // other components need it even without the capability
		}
		data, err := marshal(object, annotations)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files = append(files, File{Name: name + ".yaml", Data: data})
	}
	references, err := imageReferences(all)
	if err != nil {
		return nil, err
	}
	files = append(files, File{Name: "image-references", Data: references})
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// marshal returns an object as YAML with more annotations. The object's own annotations take precedence.
func marshal(object runtime.Object, annotations map[string]string) ([]byte, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAnnotations(with(annotations, u.GetAnnotations()))
	for _, field := range [][]string{{"metadata", "creationTimestamp"}, {"spec", "template", "metadata", "creationTimestamp"}} {
		unstructured.RemoveNestedField(u.Object, field...)
	}
	isClusterOperator := u.GetKind() == "ClusterOperator" // its spec is required, and its status is read
	if !isClusterOperator {
		unstructured.RemoveNestedField(u.Object, "status")
	}
	for _, field := range []string{"spec", "status"} {
		values, _ := u.Object[field].(map[string]any)
		maps.DeleteFunc(values, func(_ string, value any) bool { return value == nil })
		if len(values) == 0 && !isClusterOperator {
			unstructured.RemoveNestedField(u.Object, field)
		}
	}
	if strategy, found, _ := unstructured.NestedMap(u.Object, "spec", "strategy"); found && len(strategy) == 0 {
		unstructured.RemoveNestedField(u.Object, "spec", "strategy")
	}
	return document(u.Object)
}

// document returns a generated document.
func document(content map[string]any) ([]byte, error) {
	data, err := boundedyaml.Marshal(content)
	return append([]byte("# Generated by hack/manifests. DO NOT EDIT.\n"), data...), err
}

// namespace returns the namespace of the operator, and of the snapshot controller and its operator, which do not create it.
func namespace() *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name:   clusterstorage.Namespace,
			Labels: map[string]string{drivers.MonitoringLabel: "true", "pod-security.kubernetes.io/enforce": "restricted"},
			Annotations: map[string]string{
				"openshift.io/node-selector":    "",
				"workload.openshift.io/allowed": "management",
			},
		},
	}
}

// storage returns the object for the operator's reports. An administrator's settings in it stay.
func storage() *operatorv1.Storage {
	return &operatorv1.Storage{
		TypeMeta:   metav1.TypeMeta{APIVersion: operatorv1.GroupVersion.String(), Kind: "Storage"},
		ObjectMeta: metav1.ObjectMeta{Name: "cluster", Annotations: map[string]string{createOnly: "true"}},
		Spec: operatorv1.StorageSpec{OperatorSpec: operatorv1.OperatorSpec{
			ManagementState: operatorv1.Managed, LogLevel: operatorv1.Normal, OperatorLogLevel: operatorv1.Normal}},
	}
}

// clusterOperator returns the object that the cluster version operator waits for. An update is complete only when the
// operator reports this version in it.
func clusterOperator() *configv1.ClusterOperator {
	return &configv1.ClusterOperator{
		TypeMeta:   metav1.TypeMeta{APIVersion: configv1.GroupVersion.String(), Kind: "ClusterOperator"},
		ObjectMeta: metav1.ObjectMeta{Name: clusterstorage.ClusterOperatorName},
		Status: configv1.ClusterOperatorStatus{
			Versions:       []configv1.OperandVersion{{Name: "operator", Version: snapshot}},
			RelatedObjects: clusterstorage.CommonRelatedObjects(),
		},
	}
}

// roles returns the operator's roles and their bindings.
func roles(all []drivers.Driver) (map[string]runtime.Object, error) {
	rules, err := clusterstorage.OperatorPolicyRules(all)
	if err != nil {
		return nil, err
	}
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: name}
	}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: clusterstorage.Name}
	}
	in := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: clusterstorage.Name}
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: clusterstorage.Namespace, Name: clusterstorage.Name}}
	return map[string]runtime.Object{
		level + "05_clusterrole":         &rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: in(""), Rules: rules.Cluster},
		level + "05_role":                &rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: in(clusterstorage.Namespace), Rules: rules.Own},
		level + "05_role_drivers":        &rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: in(drivers.ClusterStorageNamespace), Rules: rules.Drivers},
		level + "06_clusterrolebinding":  &rbacv1.ClusterRoleBinding{TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: in(""), RoleRef: ref("ClusterRole"), Subjects: subjects},
		level + "06_rolebinding":         &rbacv1.RoleBinding{TypeMeta: kind("RoleBinding"), ObjectMeta: in(clusterstorage.Namespace), RoleRef: ref("Role"), Subjects: subjects},
		level + "06_rolebinding_drivers": &rbacv1.RoleBinding{TypeMeta: kind("RoleBinding"), ObjectMeta: in(drivers.ClusterStorageNamespace), RoleRef: ref("Role"), Subjects: subjects},
	}, nil
}

// credentialsRequests returns the CredentialsRequests of all drivers. Administrators who create credentials by hand
// extract them from a release before they install a cluster. The drivers' operators apply the same objects.
func credentialsRequests(all []drivers.Driver) (map[string]runtime.Object, error) {
	requests := map[string]runtime.Object{}
	for _, d := range all {
		manifests, err := d.Operand(drivers.Values{Namespace: d.Namespace, Image: func(env string) string { return env }})
		if err != nil {
			return nil, err
		}
		for _, m := range drivers.OfKind(manifests, "CredentialsRequest") {
			if err := drivers.CheckRendered(m.YAML); err != nil {
				return nil, fmt.Errorf("driver %s: %w", d.Name, err)
			}
			// A cluster without the cloud credential operator cannot have the object.
			m.Object.SetAnnotations(with(map[string]string{capability: included[capability] + "+CloudCredential"}, m.Object.GetAnnotations()))
			requests[fmt.Sprintf(level+"03_credentialsrequest_%s_%s", d.Name, path.Dir(m.File))] = m.Object
		}
	}
	return requests, nil
}

// monitoring returns the objects with which the cluster's monitoring reads the operator's metrics. The Service comes
// with the operator, because it requests the operator's certificate.
func monitoring() (map[string]runtime.Object, error) {
	manifests, err := drivers.Monitoring(clusterstorage.Name)
	if err != nil {
		return nil, err
	}
	objects := map[string]runtime.Object{}
	for _, m := range manifests {
		if err := drivers.CheckRendered(m.YAML); err != nil {
			return nil, fmt.Errorf("%s: %w", m.File, err)
		}
		m.Object.SetNamespace(clusterstorage.Namespace)
		switch kind := m.Object.GetKind(); kind {
		case "Service":
			objects[level+"09_service"] = m.Object
		case "ServiceMonitor":
			objects[late+"01_servicemonitor"] = m.Object
		default:
			objects[late+"00_prometheus_"+strings.ToLower(kind)] = m.Object
		}
	}
	return objects, nil
}

// operatorImage returns the image of all operators, which every definition names.
func operatorImage(all []drivers.Driver) string { return all[0].Operator.Image }

func deployment(all []drivers.Driver) *appsv1.Deployment {
	labels := map[string]string{"name": clusterstorage.Name}
	// OpenShift's own cluster storage operator leaves NetworkPolicies in the namespace. They cut off pods without these labels.
	podLabels := with(labels, drivers.NetworkPolicyLabels("api-server", "dns", "operator-metrics"))
	pod := drivers.OperatorPod(clusterstorage.Name, operatorImage(all), "cluster-storage")
	container := &pod.Containers[0]
	container.Env = append(container.Env, corev1.EnvVar{Name: clusterstorage.VersionVariable, Value: snapshot})
	for variable, image := range images(all) {
		container.Env = append(container.Env, corev1.EnvVar{Name: variable, Value: image})
	}
	slices.SortFunc(container.Env, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterstorage.Namespace, Name: clusterstorage.Name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: podLabels, Annotations: map[string]string{
					"openshift.io/required-scc":               "restricted-v2",
					"target.workload.openshift.io/management": `{"effect": "PreferredDuringScheduling"}`,
				}},
				Spec: pod,
			},
		},
	}
}

// images returns the images by environment variable.
func images(all []drivers.Driver) map[string]string {
	found := map[string]string{clusterstorage.OperatorImageVariable: operatorImage(all)}
	for _, d := range all {
		for _, image := range d.Images {
			found[clusterstorage.ImageVariable(d, image)] = image.Default
		}
	}
	return found
}

// imageReferences lists the images that a release replaces, with their names in the release.
func imageReferences(all []drivers.Driver) ([]byte, error) {
	var tags []any
	for _, image := range slices.Sorted(maps.Values(images(all))) {
		name, _, _ := strings.Cut(path.Base(image), ":")
		tag := map[string]any{"name": strings.TrimPrefix(name, "origin-"), "from": map[string]any{"kind": "DockerImage", "name": image}}
		if !slices.ContainsFunc(tags, func(other any) bool { return other.(map[string]any)["name"] == tag["name"] }) {
			tags = append(tags, tag)
		}
	}
	return document(map[string]any{"apiVersion": "image.openshift.io/v1", "kind": "ImageStream", "spec": map[string]any{"tags": tags}})
}
