package clusterstorage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
)

// olmBinding is a ClusterRoleBinding with which OLM gives an operator permissions.
func olmBinding(namespace, account string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "former-operator.v1.0.0-abc", Labels: map[string]string{"olm.owner.kind": "ClusterServiceVersion", "olm.owner": "former-operator.v1.0.0", "olm.owner.namespace": namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}
}

// defineOld creates the CustomResourceDefinition of an earlier operator's custom resource.
func (e *testEnv) defineOld(of drivers.CustomResource) {
	e.t.Helper()
	preserve := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	plural := of.Definition[:len(of.Definition)-len(of.Kind.Group)-1]
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: of.Definition}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: of.Kind.Group, Scope: apiextensionsv1.ClusterScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: of.Kind.Kind, Plural: plural},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: of.Kind.Version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: preserve}}},
	}}
	e.must(e.Client().Create(e.t.Context(), definition))
	e.t.Cleanup(func() { e.must(e.Client().Delete(context.Background(), definition)) })
}

// awaitReason waits until the condition of a driver in Storage has a reason, while storage is available.
func (e *testEnv) awaitReason(d drivers.Driver, reason string) {
	e.t.Helper()
	cluster.Eventually(e.t, limit, "the reason "+reason, func(ctx context.Context) error {
		storage := &operatorv1.Storage{}
		if err := e.Client().Get(ctx, client.ObjectKey{Name: "cluster"}, storage); err != nil {
			return err
		}
		for _, c := range storage.Status.Conditions {
			if c.Type == d.ConditionPrefix+"CSIDriverOperatorAvailable" && c.Reason == reason && c.Status == operatorv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", storage.Status.Conditions)
	})
}

// mustNotBeStarted fails the test if anything of the driver's operator exists.
func (e *testEnv) mustNotBeStarted(d drivers.Driver) {
	e.t.Helper()
	for _, object := range []client.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.ClusterStorageNamespace, Name: d.Operator.Name}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: d.SuccessorBinding()}},
		&operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d.CSIName}},
	} {
		err := e.Client().Get(e.t.Context(), client.ObjectKeyFromObject(object), object)
		assert.Truef(e.t, apierrors.IsNotFound(err), "%T %s: %v, want that it does not exist", object, object.GetName(), err)
	}
}

// TestPredecessor: while OLM runs an operator of the driver, none is started; nor while its pods end, nor while a
// person has to decide. Then one is started, with the log levels of the former one's custom resource, and storage is
// available throughout.
func TestPredecessor(t *testing.T) {
	e := newTestEnv(t, configv1.AWSPlatformType)
	d := e.driver("ebs")
	of := d.OldCustomResources()[0]
	namespace, account := e.Namespace(t), d.Predecessors()[0].Operator
	e.defineOld(of)
	binding := olmBinding(namespace, account)
	e.must(e.Client().Create(t.Context(), binding))
	e.must(e.Client().Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "former", Finalizers: []string{"example.com/test"}},
		Spec: corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "former", Image: "registry.example.com/former:1"}}}}
	e.must(e.Client().Create(t.Context(), pod))
	old := &unstructured.Unstructured{}
	old.SetGroupVersionKind(of.Kind)
	old.SetName(of.Name)
	old.Object["spec"] = map[string]any{"managementState": "Removed", "logLevel": "Trace", "operatorLogLevel": "Debug"}
	cluster.Eventually(t, limit, "the API of the former operator", func(ctx context.Context) error { return e.Client().Create(ctx, old) })

	operators := e.Record(t, &configv1.ClusterOperatorList{})
	e.start("1.0.0")
	e.awaitReason(d, "OperatorOfOLM")
	e.mustNotBeStarted(d)
	e.must(e.Client().Delete(t.Context(), binding))
	e.awaitReason(d, "OperatorOfOLMEnding")
	e.mustNotBeStarted(d)
	e.end() // a restarted operator still knows where the pod is, although nothing but the ClusterOperator says so
	e.start("1.0.1")
	cluster.Eventually(t, limit, "a sync of the restarted operator", func(context.Context) error {
		storage := &operatorv1.Storage{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		e.get(storage)
		if storage.Status.Version != "1.0.1" {
			return fmt.Errorf("the last one was of version %s", storage.Status.Version)
		}
		return nil
	})
	e.mustNotBeStarted(d)
	e.awaitReason(d, "OperatorOfOLMEnding")
	e.must(e.Client().Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	e.must(e.Client().Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	e.awaitReason(d, "OldResourceUnsettled")
	e.mustNotBeStarted(d)
	e.must(e.Client().Patch(t.Context(), old, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"managementState":"Managed"}}`))))
	e.awaitReason(d, "TakingOver")
	e.report(d, "1.0.1", settled...)
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: d.CSIName}}
	e.get(custom)
	if custom.Spec.LogLevel != operatorv1.Trace || custom.Spec.OperatorLogLevel != operatorv1.Debug || custom.Spec.ManagementState != operatorv1.Managed {
		t.Errorf("the ClusterCSIDriver has %+v, want the log levels of %s", custom.Spec.OperatorSpec, of)
	}
	for _, event := range operators() {
		for _, c := range event.Object.(*configv1.ClusterOperator).Status.Conditions {
			if c.Type == configv1.OperatorAvailable && c.Status != configv1.ConditionTrue {
				t.Errorf("Available=%s: %s: %s", c.Status, c.Reason, c.Message)
			}
		}
	}
}

// TestLatePredecessor: an operator that OLM installs beside ours does not stop ours, and is reported until it is gone.
func TestLatePredecessor(t *testing.T) {
	e := newTestEnv(t, configv1.AWSPlatformType)
	d := e.driver("ebs")
	e.start("1.0.0")
	e.report(d, "1.0.0", settled...)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.ClusterStorageNamespace, Name: d.Operator.Name}}
	cluster.Eventually(t, limit, "the operator of the driver", func(ctx context.Context) error {
		return e.Client().Get(ctx, client.ObjectKeyFromObject(deployment), deployment)
	})
	binding := olmBinding(e.Namespace(t), d.Predecessors()[0].Operator)
	e.must(e.Client().Create(t.Context(), binding))
	t.Cleanup(func() { e.must(client.IgnoreNotFound(e.Client().Delete(context.Background(), binding))) })
	ofOLM := func() *operatorv1.OperatorCondition {
		storage := &operatorv1.Storage{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		e.get(storage)
		return v1helpers.FindOperatorCondition(storage.Status.Conditions, d.ConditionPrefix+"CSIDriverOperatorOfOLMDegraded")
	}
	for _, restart := range []bool{false, true} {
		if restart {
			e.end()
			e.start("1.0.0")
		}
		e.must(e.Client().Delete(t.Context(), deployment))
		cluster.Eventually(t, limit, "the operator of the driver to come back", func(ctx context.Context) error {
			again := &appsv1.Deployment{}
			err := e.Client().Get(ctx, client.ObjectKeyFromObject(deployment), again)
			if err == nil && again.UID == deployment.UID {
				err = fmt.Errorf("it is still there")
			}
			if err == nil {
				deployment = again
			}
			return err
		})
		cluster.Eventually(t, limit, "the second operator to be reported", func(context.Context) error {
			if c := ofOLM(); c == nil || c.Status != operatorv1.ConditionTrue || !strings.Contains(c.Message, "former-operator.v1.0.0") || !strings.Contains(c.Message, "berth adopt plan ebs") {
				return fmt.Errorf("its condition is %+v", c)
			}
			return nil
		})
	}
	e.must(e.Client().Delete(t.Context(), binding))
	cluster.Eventually(t, limit, "nothing to be reported", func(context.Context) error {
		if c := ofOLM(); c != nil {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
}
