package clusterstorage_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/admission"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
)

// TestRefusedObjectHoldsNothingElse: a policy refuses one object of a driver's operator. The operator is updated all the same,
// and a condition names the object and quotes the policy, until the policy is gone.
func TestRefusedObjectHoldsNothingElse(t *testing.T) {
	e := newTestEnv(t, configv1.AWSPlatformType)
	d := e.settle("1.0.0")
	e.end()
	const refusal = "frozen by the security team"
	service := e.operatorObject("Service", "v1", d.Operator.Name+"-metrics")
	e.get(service)
	e.must(e.Client().Delete(t.Context(), service))
	permit := admission.Refusal{Name: service.GetName(), Operation: admissionregistrationv1.Create, Object: service, Message: refusal}.Apply(t, e.Client())

	e.start("1.1.0")
	cluster.Eventually(t, limit, "the operator of 1.1.0", func(ctx context.Context) error {
		if got := e.operatorOf(d).Spec.Template.Spec.Containers[0].Image; got != image("OPERATOR_IMAGE", "1.1.0") {
			return fmt.Errorf("the image is %s", got)
		}
		return nil
	})
	e.awaitCondition(d.ConditionPrefix+"CSIDriverOperatorObjectsDegraded", operatorv1.ConditionTrue, "Service "+service.GetName(), refusal)
	e.report(d, "1.1.0", settled...)
	permit()
	e.awaitSummary(summarySettled)
}

// TestUnreadableKindHoldsNothingElse: the API server can neither list nor return objects of one kind, as while the conversion
// webhook of a CustomResourceDefinition does not answer. All others are applied, and a condition names the object.
func TestUnreadableKindHoldsNothingElse(t *testing.T) {
	e := newTestEnv(t, configv1.AWSPlatformType)
	d := e.driver("ebs")
	const failure = "the conversion webhook does not answer"
	e.wrap = func(cfg *rest.Config) {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return fault.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
				if strings.Contains(request.URL.Path, "/services") {
					return nil, errors.New(failure)
				}
				return next.RoundTrip(request)
			})
		})
	}
	e.start("1.0.0")
	e.operatorOf(d)
	e.awaitCondition(d.ConditionPrefix+"CSIDriverOperatorObjectsDegraded", operatorv1.ConditionTrue, "Service "+d.Operator.Name+"-metrics", failure)
}

// awaitCondition waits until a condition of Storage has a status, and a message with these phrases.
func (e *testEnv) awaitCondition(conditionType string, status operatorv1.ConditionStatus, phrases ...string) {
	e.t.Helper()
	cluster.Eventually(e.t, limit, fmt.Sprintf("condition %s=%s about %q", conditionType, status, phrases), func(ctx context.Context) error {
		storage := &operatorv1.Storage{}
		if err := e.Client().Get(ctx, client.ObjectKey{Name: "cluster"}, storage); err != nil {
			return err
		}
		for _, c := range storage.Status.Conditions {
			lacks := func(phrase string) bool { return !strings.Contains(c.Message, phrase) }
			if c.Type == conditionType && c.Status == status && !slices.ContainsFunc(phrases, lacks) {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", storage.Status.Conditions)
	})
}
