package aws

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"

	"github.com/berth-csi/berth/lab/aws/iam"
)

// Configure sets the environment of the test so that SDKs use the cloud with the credentials, and returns the SDK's
// configuration from it. Clients with this configuration do not retry.
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

// Config returns a configuration for clients of one service, such as "efs", with the credentials. It depends on no
// environment variables, so parallel tests can use it. The clients do not retry.
func (c *Cloud) Config(service string, made iam.Credentials) sdk.Config {
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(c.CA())
	return sdk.Config{
		Region: c.options.Region, BaseEndpoint: sdk.String(c.URL(service)),
		HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}},
		Retryer:    func() sdk.Retryer { return sdk.NopRetryer{} },
		Credentials: sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
			return sdk.Credentials{AccessKeyID: made.AccessKeyID, SecretAccessKey: made.SecretAccessKey, SessionToken: made.SessionToken}, nil
		}),
	}
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
