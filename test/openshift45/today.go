package openshift45

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers"
)

// Today returns the objects that OpenShift 4.5's operator of the EBS driver had created, with the namespace, names, selectors, service
// accounts, credentials and permissions of 4.5. The containers are today's, because the images of 4.5 are gone. Today needs no files from
// outside of this repository.
func Today(d drivers.Driver, cluster drivers.Cluster) ([]*unstructured.Unstructured, error) {
	manifests, err := d.Operand(drivers.Values{Namespace: d.Namespace, Image: func(env string) string {
		return d.Images[slices.IndexFunc(d.Images, func(i drivers.Image) bool { return i.Env == env })].Default
	}})
	if err != nil {
		return nil, err
	}
	request, err := Request(d)
	if err != nil {
		return nil, err
	}
	credentials := request.credentials
	filled := strings.NewReplacer("${LOG_LEVEL}", "2", "${CLUSTER_ID}", cluster.Infrastructure.Status.InfrastructureName,
		"${LEADER_ELECTION_LEASE_DURATION}", "137s", "${LEADER_ELECTION_RENEW_DEADLINE}", "107s", "${LEADER_ELECTION_RETRY_PERIOD}", "26s",
		d.Secrets[0], credentials.Secret)
	objects := []*unstructured.Unstructured{request.Object}
	for _, m := range manifests {
		object := m.Object
		switch object.GetKind() {
		case "Service", "ServiceMonitor", "PodDisruptionBudget", "CredentialsRequest", "VolumeSnapshotClass": // these came later
			continue
		case "ConfigMap":
			if object.GetName() == d.CloudConfig.ConfigMap {
				if err := unstructured.SetNestedStringMap(object.Object, cluster.CloudConfig, "data"); err != nil {
					return nil, err
				}
			}
		case "CSIDriver":
			object.SetAnnotations(map[string]string{"csi.openshift.io/managed": "true"})
		case "Deployment", "DaemonSet":
			object = &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(filled.Replace(string(m.YAML))), &object.Object); err != nil {
				return nil, err
			}
			if err := age(object, d, cluster); err != nil {
				return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
		objects = append(objects, object)
	}
	leftovers, err := d.Leftovers(d.Namespace)
	if err != nil {
		return nil, err
	}
	for _, l := range leftovers {
		if l.Kind == drivers.ClusterRoleBindingKind {
			objects = append(objects, privileged(l.Name, d))
		}
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return order(a) - order(b) })
	return objects, nil
}

// privileged returns the binding that let the controller run as a privileged container.
func privileged(name string, d drivers.Driver) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": name},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": d.Namespace, "name": "aws-ebs-csi-driver-controller-sa"}},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "ebs-privileged-role"},
	}}
}

// age removes from a workload the fields that it lacked in 4.5, and configures it for the cluster.
func age(object *unstructured.Unstructured, d drivers.Driver, cluster drivers.Cluster) error {
	object.SetAnnotations(nil)
	template, _, err := unstructured.NestedMap(object.Object, "spec", "template")
	if err != nil {
		return err
	}
	pod := appsv1.Deployment{}.Spec.Template
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &pod); err != nil {
		return err
	}
	pod.Annotations = nil
	pod.Spec.Containers = slices.DeleteFunc(pod.Spec.Containers, func(c corev1.Container) bool { return strings.HasSuffix(c.Name, "kube-rbac-proxy") })
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "metrics-serving-cert" })
	d.Configure(&pod.Spec, cluster)
	if template, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&pod); err != nil {
		return err
	}
	return unstructured.SetNestedMap(object.Object, template, "spec", "template")
}

// CredentialsRequest is the CredentialsRequest of OpenShift 4.5's operator.
type CredentialsRequest struct {
	Object      *unstructured.Unstructured
	credentials drivers.OldCredentials
}

// Request returns a driver's CredentialsRequest, with the permissions of today's driver.
func Request(d drivers.Driver) (*CredentialsRequest, error) {
	manifests, err := d.Manifests(drivers.Values{Namespace: d.Namespace, Image: func(env string) string { return env }})
	if err != nil {
		return nil, err
	}
	leftovers, err := d.Leftovers(d.Namespace)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(leftovers, func(l drivers.Leftover) bool { return l.Credentials != nil })
	today := drivers.OfKind(manifests, drivers.CredentialsRequestKind.Kind)
	if i < 0 || len(today) == 0 {
		return nil, fmt.Errorf("driver %s has no CredentialsRequest, or its predecessors left none", d.Name)
	}
	l, object := leftovers[i], today[0].Object.DeepCopy()
	object.SetName(l.Name)
	secret := map[string]string{"namespace": d.Namespace, "name": l.Credentials.Secret}
	return &CredentialsRequest{object, *l.Credentials}, unstructured.SetNestedStringMap(object.Object, secret, "spec", "secretRef")
}
