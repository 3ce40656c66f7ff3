// Package admission makes the API server refuse requests, as an administrator's policy does.
package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

// limit is how long the API server may take to follow a policy.
const limit = 2 * time.Minute

// A Refusal is a ValidatingAdmissionPolicy that refuses one operation on one object.
type Refusal struct {
	Name      string // of the policy
	Operation admissionregistrationv1.OperationType
	Object    client.Object // its kind must be set
	Message   string        // the policy's message
}

// Apply creates the policy, and returns once it is in force. It is deleted when the test ends or permit is called.
func (r Refusal) Apply(t testing.TB, c client.Client) (permit func()) {
	t.Helper()
	gvk := r.Object.GetObjectKind().GroupVersionKind()
	mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		t.Fatal(err)
	}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Fail),
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				ResourceNames: []string{r.Object.GetName()},
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{r.Operation},
					Rule: admissionregistrationv1.Rule{APIGroups: []string{gvk.Group}, APIVersions: []string{gvk.Version},
						Resources: []string{mapping.Resource.Resource}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: r.Message}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: r.Name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
	}
	for _, object := range []client.Object{policy, binding} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	permit = sync.OnceFunc(func() {
		for _, object := range []client.Object{binding, policy} {
			if err := c.Delete(context.Background(), object); err != nil {
				t.Error(err)
			}
		}
		r.await(t, c, false)
	})
	t.Cleanup(permit)
	r.await(t, c, true)
	return permit
}

// await waits until the API server refuses the operation, or no longer refuses it.
func (r Refusal) await(t testing.TB, c client.Client, refused bool) {
	t.Helper()
	what := fmt.Sprintf("the API server to refuse %s %s %s: %v", r.Operation, r.Object.GetObjectKind().GroupVersionKind().Kind, r.Object.GetName(), refused)
	cluster.Eventually(t, limit, what, func(ctx context.Context) error {
		err := r.try(ctx, c)
		if (err != nil && strings.Contains(err.Error(), r.Message)) != refused {
			return cmp.Or(err, errors.New("it succeeds"))
		}
		return nil
	})
}

// try sends the operation as a dry run.
func (r Refusal) try(ctx context.Context, c client.Client) error {
	trial := r.Object.DeepCopyObject().(client.Object)
	switch r.Operation {
	case admissionregistrationv1.Create:
		trial.SetResourceVersion("")
		return c.Create(ctx, trial, client.DryRunAll)
	case admissionregistrationv1.Delete:
		return c.Delete(ctx, trial, client.DryRunAll)
	default:
		return c.Patch(ctx, trial, client.RawPatch("application/merge-patch+json", []byte(`{}`)), client.DryRunAll)
	}
}
