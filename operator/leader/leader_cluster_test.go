package leader

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubemetrics "k8s.io/component-base/metrics"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/metrics"
	"github.com/berth-csi/berth/test/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// TestWaitForLockIsReported: an operator in a pod waits for the lock before it does anything else.
func TestWaitForLockIsReported(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	driver := drivers.Driver{CSIName: "smb.csi.k8s.io", ConditionPrefix: "Lock", Operator: drivers.Operator{Name: "lock-operator", Lock: "lock"}}
	registry := kubemetrics.NewKubeRegistry()
	lock := NewLock(driver, c.Namespace(t), c.Config(), metrics.New(registry.MustRegister))
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver.CSIName},
		Spec: operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: lock.namespace, Name: "first"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "registry.example/operator:1"}}}}
	for _, object := range []client.Object{custom, pod} {
		if err := c.Client().Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = c.Client().Delete(context.Background(), custom) })
	custom.Status.Conditions = []operatorv1.OperatorCondition{{Type: "Available", Status: operatorv1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	if err := c.Client().Status().Update(t.Context(), custom); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lock.reportWait(ctx, c.Client())
	}()
	defer func() { stop(); <-ended }()
	reports := func(want string) {
		t.Helper()
		cluster.Eventually(t, time.Minute, "the condition to report "+want, func(ctx context.Context) error {
			if err := c.Client().Get(ctx, client.ObjectKeyFromObject(custom), custom); err != nil {
				return err
			}
			for _, condition := range custom.Status.Conditions {
				if condition.Type == "LockOperatorLockDegraded" && condition.Reason == "WaitingForLock" && strings.Contains(condition.Message, want) {
					return nil
				}
			}
			return fmt.Errorf("conditions are %v", custom.Status.Conditions)
		})
	}
	reports("belongs to no pod that runs")
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: lock.namespace, Name: "lock",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}}}
	if err := c.Client().Create(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	reports("pod first holds")
	if len(custom.Status.Conditions) != 2 {
		t.Errorf("other conditions have changed: %v", custom.Status.Conditions)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			if family.GetName() == "berth_operator_waiting_for_lock" && m.Label[1].GetValue() == lock.namespace && m.GetGauge().GetValue() == 1 {
				return
			}
		}
	}
	t.Error("berth_operator_waiting_for_lock is not 1")
}
