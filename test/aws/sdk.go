package aws

import (
	"errors"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"

	"github.com/berth-csi/berth/test/aws/iam"
)

// Configure sets the environment of the test so that SDKs use the cloud with the credentials, and returns what the SDK
// reads from it. Clients with this configuration do not retry.
func (c *Cloud) Configure(t testing.TB, made iam.Credentials) sdk.Config {
	t.Helper()
	for _, variable := range slices.Concat(c.Environment(t, nil), Variables(made)) {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRetryer(func() sdk.Retryer { return sdk.NopRetryer{} }))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// WantCode fails the test unless err is an error of AWS with the code, and returns its message.
func WantCode(t testing.TB, err error, code string) string {
	t.Helper()
	var got smithy.APIError
	if !errors.As(err, &got) || got.ErrorCode() != code {
		t.Fatalf("got the error %v, want one with code %s", err, code)
	}
	return got.ErrorMessage()
}
