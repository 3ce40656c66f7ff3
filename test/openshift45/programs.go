package openshift45

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/test/drivers/images"
)

// Cloud has the settings that pods need for a cloud that is not public.
type Cloud struct {
	// CA is the certificate authority of its servers, in PEM.
	CA string
	// Env are variables of the driver's containers. Those that name a file get the path of one with the CA.
	Env map[string]string
	// Login is the content of the Secret that volumes refer to, if they refer to one. The path of the CA is added.
	Login map[string]string
}

// CAFile stands for the path of the CA in Env.
const CAFile = "${CA_FILE}"

// Files and folders of the CA.
const (
	caKey     = "cloud-provider-ca-bundle.pem"
	caFolder  = "/usr/share/pki/ca-trust-source"
	caObject  = "openstack-certificates"
	caPathKey = "os-certAuthorityPath"
)

// refused are arguments of 4.5's pods that today's programs do not know: the provisioner asks the driver for its name.
var refused = []string{"--provisioner="}

// todaysRules permit requests of today's sidecars that the roles of 4.5 do not: they patch objects that 4.5's sidecars updated, and read
// more objects.
var todaysRules = []any{
	rule("", "persistentvolumes persistentvolumeclaims persistentvolumeclaims/status", "patch update"),
	rule("", "pods", "get list watch"),
	rule("storage.k8s.io", "volumeattachments volumeattributesclasses", "get list watch"),
	rule("storage.k8s.io", "volumeattachments/status", "patch"),
	rule("snapshot.storage.k8s.io", "volumesnapshots volumesnapshotcontents", "get list watch"),
	rule("snapshot.storage.k8s.io", "volumesnapshotcontents volumesnapshotcontents/status", "patch"),
}

func rule(group, resources, verbs string) any {
	list := func(words string) (all []any) {
		for word := range strings.FieldsSeq(words) {
			all = append(all, word)
		}
		return all
	}
	return map[string]any{"apiGroups": []any{group}, "resources": list(resources), "verbs": list(verbs)}
}

// Running returns the objects of Operand, changed so that its pods run in a cloud, with today's programs, because 4.5's are no longer
// available. The pods are the same as in 4.5, except for arguments that today's programs refuse, and for the cloud's address. Permissions
// permits what today's sidecars do beyond 4.5's roles.
func Running(t testing.TB, d drivers.Driver, cloud Cloud) []*unstructured.Unstructured {
	t.Helper()
	objects := Operand(t, d)
	mounted := slices.ContainsFunc(objects, isCA)
	if !mounted {
		objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": d.Namespace, "name": caObject},
		}})
	}
	for _, object := range objects {
		var err error
		switch {
		case isCA(object):
			err = unstructured.SetNestedStringMap(object.Object, map[string]string{caKey: cloud.CA}, "data")
		case object.GetKind() == "Secret":
			login := map[string]string{caPathKey: caFolder + "/" + caKey}
			for key, value := range cloud.Login {
				login[key] = value
			}
			err = unstructured.SetNestedStringMap(object.Object, login, "stringData")
		case object.GetKind() == "Deployment" || object.GetKind() == "DaemonSet":
			err = run(object, d, cloud, mounted)
		}
		require.NoErrorf(t, err, "%s %s", object.GetKind(), object.GetName())
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return order(a) - order(b) })
	return objects
}

func isCA(object *unstructured.Unstructured) bool {
	return object.GetKind() == "ConfigMap" && object.GetName() == caObject
}

// Permissions returns a role for the requests that only today's sidecars make, and its binding to the driver's pods.
func Permissions(d drivers.Driver) []*unstructured.Unstructured {
	const name, group = "todays-sidecars-in-pods-of-4.5", "rbac.authorization.k8s.io"
	object := func(kind string, more map[string]any) *unstructured.Unstructured {
		more["apiVersion"], more["kind"], more["metadata"] = group+"/v1", kind, map[string]any{"name": name}
		return &unstructured.Unstructured{Object: more}
	}
	return []*unstructured.Unstructured{
		object("ClusterRole", map[string]any{"rules": todaysRules}),
		object("ClusterRoleBinding", map[string]any{
			"subjects": []any{map[string]any{"kind": "Group", "apiGroup": group, "name": "system:serviceaccounts:" + d.Namespace}},
			"roleRef":  map[string]any{"apiGroup": group, "kind": "ClusterRole", "name": name},
		}),
	}
}

// run lets the pods of a workload run. mounted says that they have the CA already.
func run(object *unstructured.Unstructured, d drivers.Driver, cloud Cloud, mounted bool) error {
	template, _, err := unstructured.NestedMap(object.Object, "spec", "template")
	if err != nil {
		return err
	}
	pod := appsv1.Deployment{}.Spec.Template
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &pod); err != nil {
		return err
	}
	found := false
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		c.Args = slices.DeleteFunc(c.Args, func(arg string) bool {
			return slices.ContainsFunc(refused, func(flag string) bool { return strings.HasPrefix(arg, flag) })
		})
		switch repository, _, _ := strings.Cut(c.Image, ":"); {
		case strings.HasSuffix(repository, "/origin-csi-node-driver-registrar"):
			c.Image = images.RegistrarWithShell + ":latest"
		case strings.HasPrefix(d.Images[0].Default, repository+":"):
			found = true
			for name, value := range cloud.Env {
				c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: strings.ReplaceAll(value, CAFile, caFolder+"/"+caKey)})
			}
			if !mounted {
				c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "cloud-ca", MountPath: caFolder})
			}
		}
	}
	if found && !mounted {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "cloud-ca", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: caObject}}}})
	}
	if template, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&pod); err != nil {
		return fmt.Errorf("its pods: %w", err)
	}
	return unstructured.SetNestedMap(object.Object, template, "spec", "template")
}
