package controller

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/efs/types"
)

// TestJudgeAccessPoint: the state of an access point counts before the zones do. AWS shows other states than available only for moments.
func TestJudgeAccessPoint(t *testing.T) {
	for _, tc := range []struct {
		state     types.LifeCycleState
		unreached []string
		want      string
	}{
		{"", nil, "AccessPointNotFound"},
		{types.LifeCycleStateCreating, nil, "AccessPointNotAvailable"},
		{types.LifeCycleStateDeleting, []string{"us-east-1a"}, "AccessPointNotAvailable"},
		{types.LifeCycleStateError, nil, "AccessPointNotAvailable"},
		{types.LifeCycleStateAvailable, []string{"us-east-1a"}, "MountTargetMissing"},
		{types.LifeCycleStateAvailable, nil, "Found"},
	} {
		got := judge(tc.state, tc.unreached)
		if got.reason != tc.want || got.present != (tc.want == "Found") || got.message == "" {
			t.Errorf("in state %q, without a mount target in %q: %+v, want %s", tc.state, tc.unreached, got, tc.want)
		}
	}
}
