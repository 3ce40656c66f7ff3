package credentialsrequest

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestProgressOf(t *testing.T) {
	condition := func(conditionType, status, message string) any {
		return map[string]any{"type": conditionType, "status": status, "message": message}
	}
	for _, tc := range []struct {
		name    string
		status  map[string]any
		waiting bool
		reason  string
		message []string // parts of it
	}{
		{name: "just created", waiting: true, reason: "CredentialsNotProvisionedYet", message: []string{"CredentialsRequest volumes"}},
		{name: "provisioned", status: map[string]any{"provisioned": true}, reason: "AsExpected"},
		{
			name: "failed",
			status: map[string]any{"provisioned": false, "conditions": []any{
				condition("MissingTargetNamespace", "False", "found"),
				condition("InsufficientCloudCreds", "True", "may not create users"),
				condition("CredentialsProvisionFailure", "True", "failed to grant"),
			}},
			waiting: true, reason: "CredentialsNotProvisionedYet",
			message: []string{"which reports: InsufficientCloudCreds: may not create users; CredentialsProvisionFailure: failed to grant"},
		},
		{
			name: "provisioned despite an old failure", reason: "AsExpected",
			status: map[string]any{"provisioned": true, "conditions": []any{condition("CredentialsProvisionFailure", "True", "once")}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			request := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "volumes"}}}
			if tc.status != nil {
				request.Object["status"] = tc.status
			}
			got := progressOf(request)
			if got.waiting != tc.waiting || got.reason != tc.reason || (len(tc.message) == 0) != (got.message == "") {
				t.Errorf("progress = %+v, want waiting %v, reason %s", got, tc.waiting, tc.reason)
			}
			for _, part := range tc.message {
				if !strings.Contains(got.message, part) {
					t.Errorf("message %q, want %q in it", got.message, part)
				}
			}
		})
	}
}
