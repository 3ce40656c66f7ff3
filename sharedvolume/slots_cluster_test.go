package sharedvolume_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// binderUser binds claims in Kubernetes' controller manager.
const binderUser = "system:serviceaccount:kube-system:persistent-volume-binder"

// createMany creates SharedVolumes name-0, name-1, and so on.
func (env testEnv) createMany(namespace, name string, n int) []*v1alpha1.SharedVolume {
	env.t.Helper()
	var created []*v1alpha1.SharedVolume
	for i := range n {
		created = append(created, env.create(namespace, fmt.Sprintf("%s-%d", name, i)))
	}
	return created
}

// TestFewClaimsInFlight: however many SharedVolumes a namespace has, only a few of its claims are in flight.
func TestFewClaimsInFlight(t *testing.T) {
	env := served(t)
	namespace := env.Namespace(t)
	const many, few = 80, 16
	for _, sv := range env.createMany(namespace, "logs", many) {
		env.ready(sv)
	}
	// The API server receives a request before anybody can see its effect. So this may count more claims as bound than the
	// controller knew of, but never fewer.
	events := env.Audit(t)
	slices.SortFunc(events, func(a, b cluster.AuditEvent) int { return a.Received.Compare(b.Received) })
	made, bound, most := 0, map[string]bool{}, 0
	for _, event := range events {
		if event.Namespace != namespace || event.Resource != "persistentvolumeclaims" {
			continue
		}
		switch {
		case event.User == controllerUser && event.Code == http.StatusCreated:
			made++
			most = max(most, made-len(bound))
		case event.User == binderUser && event.Subresource == "status":
			bound[event.Name] = true
		}
	}
	if made != many || len(bound) != many || most > few {
		t.Errorf("%d claims were created, %d bound, and up to %d were in flight at a time; want %d, %d and %d at most",
			made, len(bound), most, many, many, few)
	}
}

// TestRejectedClaimReleasesSlot: a SharedVolume whose claim cannot be created releases its slot. There are so many here that
// another one would wait for too long if each kept its slot until the timeout.
func TestRejectedClaimReleasesSlot(t *testing.T) {
	const many = 20
	for reason, block := range map[string]func(env testEnv, namespace string) (end func()){
		"QuotaExceeded": func(env testEnv, namespace string) func() {
			quota := env.noClaims(namespace)
			return func() { env.do("delete", env.client.Delete(env.t.Context(), quota)) }
		},
		"Conflict": func(env testEnv, namespace string) func() {
			for i := range many {
				env.do("create", env.client.Create(env.t.Context(), foreignClaim(namespace, fmt.Sprintf("pvc-blocked-%d", i))))
			}
			return func() {}
		},
	} {
		t.Run(reason, func(t *testing.T) {
			env := served(t)
			namespace := env.Namespace(t)
			end := block(env, namespace)
			for _, sv := range env.createMany(namespace, "blocked", many) {
				env.until(sv, reason)
			}
			end()
			env.ready(env.create(namespace, "free"))
		})
	}
}

// TestUnboundClaimLosesSlot: a SharedVolume whose claim is created and never bound loses its slot after the timeout.
func TestUnboundClaimLosesSlot(t *testing.T) {
	env := served(t)
	namespace := env.Namespace(t)
	env.keepUnbound(namespace, "pvc-never-")
	const initialSlots, slotTimeout = 4, 10 * time.Second
	never := env.createMany(namespace, "never", initialSlots)
	for _, sv := range never {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: sharedvolume.ClaimName(sv.Name)}}
		env.eventually("the claim", claim, func() error { return nil })
	}
	after := env.ready(env.create(namespace, "after"))
	waited := after.claim.CreationTimestamp.Sub(never[0].CreationTimestamp.Time)
	assert.GreaterOrEqual(t, waited, slotTimeout, "the time until the claim was created: those before it are not bound")
}

// keepUnbound makes the API server reject the binding of a namespace's claims whose names have a prefix.
func (env testEnv) keepUnbound(namespace, prefix string) {
	env.t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumeclaims"}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: fmt.Sprintf(
				"request.namespace != %q || !object.metadata.name.startsWith(%q) || !has(object.spec.volumeName)", namespace, prefix)}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	for _, object := range []client.Object{policy, binding} {
		env.do("create", env.client.Create(env.t.Context(), object))
		env.t.Cleanup(func() { env.do("delete", env.client.Delete(context.Background(), object)) })
	}
	probe := foreignClaim(namespace, prefix+"probe")
	env.do("create", env.client.Create(env.t.Context(), probe))
	cluster.Eventually(env.t, waitLimit, "the policy to be in force", func(ctx context.Context) error {
		bind := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"volumeName":"none"}}`))
		if err := env.client.Patch(ctx, probe.DeepCopy(), bind, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("binding a claim results in %v", err)
		}
		return nil
	})
}
