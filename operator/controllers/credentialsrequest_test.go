package controllers

import (
	"context"
	"strings"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
				assert.Contains(t, got.message, part, "message")
			}
		})
	}
}

// TestWaitingTooLong: a driver that waits for credentials does not progress for ever. Other waits do not degrade a
// driver.
func TestWaitingTooLong(t *testing.T) {
	waiting := progress{waiting: true, reason: "CredentialsNotProvisionedYet", message: "which reports: may not create users"}
	for name, tc := range map[string]struct {
		progress progress
		optional bool
		since    time.Duration // how long the condition Progressing has been true, 0 if it is not
		want     operatorv1.ConditionStatus
	}{
		"it begins to wait":             {progress: waiting, want: operatorv1.ConditionFalse},
		"it waits":                      {progress: waiting, since: 14 * time.Minute, want: operatorv1.ConditionFalse},
		"it waits too long":             {progress: waiting, since: 16 * time.Minute, want: operatorv1.ConditionTrue},
		"it works without":              {progress: waiting, optional: true, since: 16 * time.Minute, want: operatorv1.ConditionFalse},
		"there are credentials at last": {progress: progress{reason: "AsExpected"}, since: 16 * time.Minute, want: operatorv1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			client := &recordingClient{status: &operatorv1.OperatorStatus{}}
			if tc.since > 0 {
				client.status.Conditions = []operatorv1.OperatorCondition{{Type: "VolumesProgressing", Status: operatorv1.ConditionTrue,
					LastTransitionTime: metav1.NewTime(time.Now().Add(-tc.since))}}
			}
			c := &credentialsRequest{CredentialsRequestOptions: CredentialsRequestOptions{Name: "Volumes", OperatorClient: client, Optional: tc.optional}}
			require.NoError(t, c.report(t.Context(), tc.progress))
			var got *applyoperatorv1.OperatorConditionApplyConfiguration
			for i, condition := range client.applied.Conditions {
				if strings.HasSuffix(*condition.Type, operatorv1.OperatorStatusTypeDegraded) {
					got = &client.applied.Conditions[i]
				}
			}
			if got == nil || *got.Status != tc.want {
				t.Fatalf("conditions are %+v, want one that is degraded: %s", client.applied.Conditions, tc.want)
			}
			if degraded := tc.want == operatorv1.ConditionTrue; (*got.Message == waiting.message) != degraded || (*got.Reason == waiting.reason) != degraded {
				t.Errorf("degraded %s because of %s: %q", *got.Status, *got.Reason, *got.Message)
			}
		})
	}
}

// A recordingClient shows a status, and records the last applied one.
type recordingClient struct {
	v1helpers.OperatorClient
	status  *operatorv1.OperatorStatus
	applied *applyoperatorv1.OperatorStatusApplyConfiguration
}

func (c *recordingClient) GetOperatorState() (*operatorv1.OperatorSpec, *operatorv1.OperatorStatus, string, error) {
	return &operatorv1.OperatorSpec{}, c.status, "", nil
}

func (c *recordingClient) ApplyOperatorStatus(_ context.Context, _ string, status *applyoperatorv1.OperatorStatusApplyConfiguration) error {
	c.applied = status
	return nil
}
