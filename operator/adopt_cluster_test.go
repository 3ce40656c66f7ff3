package operator_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/cluster"
)

// communityObjects are what the community operator leaves: the same names, another content, and the
// API that it served as their owner.
func (w *world) communityObjects(owner *apiextensionsv1.CustomResourceDefinition) []client.Object {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels: map[string]string{"openshift.io/aws-efs-operator-owned": "true"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: owner.Name, UID: owner.UID}},
		}
	}
	attach, podInfo := false, false
	labels := map[string]string{"app": "efs-csi-node"}
	scc := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "security.openshift.io/v1", "kind": "SecurityContextConstraints",
		"metadata":                 map[string]any{"name": "efs-csi-scc", "labels": map[string]any{"openshift.io/aws-efs-operator-owned": "true"}},
		"allowHostDirVolumePlugin": true, "allowHostIPC": true, "allowHostNetwork": true, "allowHostPID": true, "allowHostPorts": true,
		"allowPrivilegedContainer": true, "readOnlyRootFilesystem": false,
		"runAsUser": map[string]any{"type": "RunAsAny"}, "seLinuxContext": map[string]any{"type": "RunAsAny"},
		"fsGroup": map[string]any{"type": "RunAsAny"}, "supplementalGroups": map[string]any{"type": "RunAsAny"},
		"allowedCapabilities": nil, "defaultAddCapabilities": nil, "requiredDropCapabilities": nil, "priority": nil,
		"volumes": []any{"*"},
		"users":   []any{"system:admin", fmt.Sprintf("system:serviceaccount:%s:efs-csi-sa", w.namespace)},
		"groups":  []any{"system:cluster-admins", "system:nodes", "system:masters"},
	}}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta(w.namespace, "efs-csi-sa")},
		&storagev1.CSIDriver{ObjectMeta: meta("", "efs.csi.aws.com"), Spec: storagev1.CSIDriverSpec{
			AttachRequired: &attach, PodInfoOnMount: &podInfo,
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}}},
		&storagev1.StorageClass{ObjectMeta: meta("", "efs-sc"), Provisioner: "efs.csi.aws.com"},
		scc,
		&appsv1.DaemonSet{ObjectMeta: meta(w.namespace, "efs-csi-node"), Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{ServiceAccountName: "efs-csi-sa", HostNetwork: true, Containers: []corev1.Container{{
					Name: "efs-plugin", Image: "amazon/aws-efs-csi-driver:778131e"}}},
			},
		}},
	}
}

func TestObjectsOfTheCommunityOperatorAreTakenOver(t *testing.T) {
	w := newWorld(t)
	owner := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "relics.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "relics", Kind: "Relic"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}},
		},
	}
	w.create(owner)
	t.Cleanup(func() {
		if err := w.Client().Delete(context.Background(), owner); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	relics := w.communityObjects(owner)
	w.create(relics...)
	before := map[string]metav1.Object{}
	for _, relic := range relics {
		before[relic.GetName()] = relic.DeepCopyObject().(metav1.Object)
	}

	custom := w.customResource()
	custom.Finalizers = w.driver.History.Finalizers
	w.create(custom)
	w.startOperator()
	custom = w.waitForConditions(allWell)
	if want := []string{w.driver.Operator.Name + ".operator.openshift.io/uninstall"}; !slices.Equal(custom.Finalizers, want) {
		t.Errorf("finalizers are %q, want just %q", custom.Finalizers, want)
	}
	for _, relic := range relics {
		if err := w.Client().Get(t.Context(), client.ObjectKeyFromObject(relic), relic); err != nil {
			t.Fatal(err)
		}
		if relic.GetUID() != before[relic.GetName()].GetUID() {
			t.Errorf("%T %s was made anew", relic, relic.GetName())
		}
		if len(relic.GetOwnerReferences()) > 0 {
			t.Errorf("%T %s is still owned by %v", relic, relic.GetName(), relic.GetOwnerReferences())
		}
	}
	if ds := relics[4].(*appsv1.DaemonSet); ds.Spec.Template.Spec.Containers[0].Image == "amazon/aws-efs-csi-driver:778131e" {
		t.Error("the DaemonSet still runs the old image")
	}
	scc := relics[3].(*unstructured.Unstructured)
	if groups, _, _ := unstructured.NestedStringSlice(scc.Object, "groups"); len(groups) > 0 {
		t.Errorf("the SecurityContextConstraints still admit the groups %q", groups)
	}
	if users, _, _ := unstructured.NestedStringSlice(scc.Object, "users"); slices.Contains(users, "system:admin") {
		t.Errorf("the SecurityContextConstraints still admit the users %q", users)
	}

	// The API of the old operator goes; the driver must not.
	if err := w.Client().Delete(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, limit, "the old operator's API to be gone", w.Gone(owner))
	w.waitForGarbageCollector()
	if _, missing, err := w.existing(t.Context()); err != nil || len(missing) > 0 {
		t.Errorf("the old operator's API took these objects along: %q (%v)", missing, err)
	}
}

// waitForGarbageCollector waits until an object whose owner does not exist has been collected, and
// with it whatever was doomed before.
func (w *world) waitForGarbageCollector() {
	w.t.Helper()
	doomed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "doomed",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "never-was", UID: "7c9e6679-7425-40de-944b-e07fc1f90ae7"}}}}
	w.create(doomed)
	cluster.Eventually(w.t, limit, "the garbage collector to come by", w.Gone(doomed))
}
