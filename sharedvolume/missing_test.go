package sharedvolume_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/admission"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// TestMissingDefinitions: the controller waits for CustomResourceDefinitions that are missing when it starts, or
// deleted while it runs. Meanwhile it does not end, because the operator of the driver would end with it.
func TestMissingDefinitions(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t, cluster.Start(t, cluster.Options{}))
	namespace := env.Namespace(t)
	env.define("testdata/community-crd.yaml")
	constraints, _ := env.community()
	cfg := env.controllerConfig()
	decided, err := sharedvolume.Prepare(t.Context(), cfg)
	env.do("prepare", err)
	assert.EqualValues(t, v1alpha1.AccessOpen, decided, "Prepare decides on access")
	// From now on, nothing shows that.
	env.do("adopt", env.client.Patch(t.Context(), constraints, patch(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"berth"}}}`)))

	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.Verbosity(0), ktesting.BufferLogs(true)))
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	done := make(chan error, 1)
	go func() { done <- sharedvolume.Run(ctx, cfg, sharedvolume.Options{InitialAccess: decided}) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done, "the controller failed")
	})
	cluster.Eventually(t, waitLimit, "a report of what is missing", func(context.Context) error {
		text := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		for _, want := range []string{"CustomResourceDefinitions", "sharedvolumegrants.aws-efs.managed.openshift.io", "sharedvolumepolicies.aws-efs.managed.openshift.io"} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("the log is %q, want %s in it", text, want)
			}
		}
		return nil
	})
	env.defineAll()
	env.ready(env.create(namespace, "late"))
	env.mustHaveAccess(v1alpha1.AccessOpen)

	held := &v1alpha1.SharedVolume{}
	env.get(held, namespace, "late")
	env.do("delete", env.client.Delete(t.Context(), held))
	env.gone(held)
	for _, resource := range []string{"sharedvolumes", "sharedvolumegrants", "sharedvolumepolicies"} {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		env.get(definition, "", resource+".aws-efs.managed.openshift.io")
		env.do("delete", env.client.Delete(t.Context(), definition))
		env.gone(definition)
	}
	env.defineAll()
	env.mustHaveAccess(v1alpha1.AccessGranted) // as in any cluster that no longer shows the community operator's constraints
	env.setAccess(v1alpha1.AccessOpen)
	env.ready(env.create(namespace, "again"))
}

// TestRefusedPolicy: a policy of the cluster refuses the SharedVolumePolicy. Prepare does not fail, because the operator of the
// driver would end with it. It decides on the access, with which the controller creates the SharedVolumePolicy as soon as it can.
func TestRefusedPolicy(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t, cluster.Start(t, cluster.Options{}))
	env.defineAll()
	env.community()
	policy := &v1alpha1.SharedVolumePolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SharedVolumePolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}, Spec: v1alpha1.SharedVolumePolicySpec{Access: v1alpha1.AccessGranted},
	}
	permit := admission.Refusal{Name: "no-shared-volume-policy", Operation: admissionv1.Create, Object: policy, Message: "frozen by the security team"}.Apply(t, env.client)
	cfg := env.controllerConfig()
	decided, err := sharedvolume.Prepare(t.Context(), cfg)
	require.NoError(t, err)
	assert.Equal(t, v1alpha1.AccessOpen, decided, "Prepare returned")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sharedvolume.Run(ctx, cfg, sharedvolume.Options{InitialAccess: decided}) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done, "the controller failed")
	})
	permit()
	env.mustHaveAccess(v1alpha1.AccessOpen)

	// Nothing has been adopted yet. Once somebody has closed the cluster, a deleted policy does not open it again.
	env.setAccess(v1alpha1.AccessGranted)
	closed := &v1alpha1.SharedVolumePolicy{}
	env.get(closed, "", v1alpha1.PolicyName)
	env.do("delete", env.client.Delete(t.Context(), closed))
	again := &v1alpha1.SharedVolumePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}}
	env.eventually("another policy", again, func() error {
		if again.UID == closed.UID {
			return errors.New("it is the same")
		}
		return nil
	})
	assert.Equal(t, v1alpha1.AccessGranted, again.Spec.Access, "the access with which a deleted policy comes back")
}

// TestRestartBeforeAdoption: the operator restarts while the community operator's objects are not adopted, or just were. It still knows whether there
// was a policy, and which access it had decided on.
func TestRestartBeforeAdoption(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t, cluster.Start(t, cluster.Options{}))
	env.defineAll()
	cfg := env.controllerConfig()
	restart := func(want v1alpha1.Access) {
		t.Helper()
		decided, err := sharedvolume.Prepare(t.Context(), cfg)
		env.do("prepare", err)
		assert.Equal(t, want, decided, "the access of a policy that is created later")
	}
	deletePolicy := func() {
		t.Helper()
		policy := &v1alpha1.SharedVolumePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}}
		env.do("delete", env.client.Delete(t.Context(), policy))
		env.gone(policy)
	}

	// Before the first start, somebody who may write CSIDrivers, and no SecurityContextConstraints, makes one that looks like the community
	// operator's, and that records that the cluster is open.
	forged := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{
		Name: sharedvolume.DriverName, Labels: map[string]string{sharedvolume.OwnedLabel: "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: env.definition().Name, UID: env.definition().UID}},
		Annotations:     map[string]string{"berth.dev/next-shared-volume-access": string(v1alpha1.AccessOpen)},
	}}
	env.do("create", env.client.Create(t.Context(), forged))
	restart("")
	env.mustHaveAccess(v1alpha1.AccessGranted)
	deletePolicy()
	env.do("delete", env.client.Delete(t.Context(), forged))

	// An administrator closes the cluster, and the policy is deleted while no operator runs.
	constraints, driver := env.community()
	restart("")
	env.mustHaveAccess(v1alpha1.AccessOpen)
	env.setAccess(v1alpha1.AccessGranted)
	deletePolicy()
	restart("")
	env.mustHaveAccess(v1alpha1.AccessGranted)

	// The API server refuses the policy until the operator has adopted the driver and restarts.
	deletePolicy()
	for _, object := range []client.Object{constraints, driver} {
		env.do("delete", env.client.Delete(t.Context(), object))
	}
	constraints, driver = env.community()
	permit := admission.Refusal{Name: "no-shared-volume-policy-yet", Operation: admissionv1.Create, Object: &v1alpha1.SharedVolumePolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SharedVolumePolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}, Spec: v1alpha1.SharedVolumePolicySpec{Access: v1alpha1.AccessGranted},
	}, Message: "frozen by the security team"}.Apply(t, env.client)
	restart(v1alpha1.AccessOpen)
	env.do("adopt", env.client.Patch(t.Context(), driver, patch(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"berth"},"ownerReferences":null}}`)))
	restart(v1alpha1.AccessOpen)
	env.do("adopt", env.client.Patch(t.Context(), constraints, patch(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"berth"},"ownerReferences":null}}`)))
	restart(v1alpha1.AccessOpen)
	stop := env.runWith(cfg, sharedvolume.Options{InitialAccess: v1alpha1.AccessOpen})
	permit()
	env.mustHaveAccess(v1alpha1.AccessOpen)
	env.eventually("a record that the next policy does not open the cluster", constraints, func() error {
		if got := constraints.GetAnnotations()["berth.dev/next-shared-volume-access"]; got != string(v1alpha1.AccessGranted) {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	stop()
	deletePolicy()
	restart("")
	env.mustHaveAccess(v1alpha1.AccessGranted)
}

// mustHaveAccess waits until there is a policy with this access.
func (env testEnv) mustHaveAccess(want v1alpha1.Access) {
	env.t.Helper()
	policy := &v1alpha1.SharedVolumePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}}
	env.eventually("a policy with access "+string(want), policy, func() error {
		if policy.Spec.Access != want {
			return fmt.Errorf("its access is %s", policy.Spec.Access)
		}
		return nil
	})
}
