package aws_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	efssdk "github.com/aws/aws-sdk-go-v2/service/efs"
	stssdk "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/iam"
)

const (
	issuer  = "https://issuer.example"
	subject = "system:serviceaccount:openshift-operators:aws-efs-csi-driver-controller-sa"
	role    = "arn:aws:iam::111122223333:role/efs"
)

// signer signs tokens like an API server, and knows the keys that the API server serves.
type signer struct {
	key *ecdsa.PrivateKey
	id  string
}

func newSigner(t *testing.T, id string) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return signer{key, id}
}

func (s signer) keySet() ([]byte, error) {
	return json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: s.key.Public(), KeyID: s.id, Algorithm: "ES256", Use: "sig"}}})
}

func (s signer) token(t *testing.T, change map[string]any) string {
	t.Helper()
	claims := map[string]any{"iss": issuer, "sub": subject, "aud": []string{"openshift"}, "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(claims, change)
	with, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: s.key, KeyID: s.id}}, nil)
	require.NoError(t, err)
	token, err := jwt.Signed(with).Claims(claims).Serialize()
	require.NoError(t, err)
	return token
}

func TestWebIdentity(t *testing.T) {
	apiServer := newSigner(t, "key-1")
	c := aws.Start(t, aws.Options{TLS: true})
	c.IAM.AddIdentityProvider(iam.IdentityProvider{Issuer: issuer, Audiences: []string{"openshift"}, KeySet: apiServer.keySet})
	require.NoError(t, c.IAM.AddRole(iam.Role{ARN: role, Actions: []string{"elasticfilesystem:Describe*"}, Issuer: issuer, Subjects: []string{subject}}))
	client := stssdk.NewFromConfig(c.Configure(t, iam.Credentials{}))
	for name, tc := range map[string]struct {
		token, role, code, message string
	}{
		"another key":         {newSigner(t, "key-1").token(t, nil), role, "InvalidIdentityToken", "Couldn't verify the signature"},
		"another issuer":      {apiServer.token(t, map[string]any{"iss": "https://other.example"}), role, "InvalidIdentityToken", "No OpenIDConnect provider found in your account for https://other.example"},
		"another audience":    {apiServer.token(t, map[string]any{"aud": []string{"sts.amazonaws.com"}}), role, "InvalidIdentityToken", "Incorrect token audience"},
		"another account":     {apiServer.token(t, map[string]any{"sub": "system:serviceaccount:tenant:default"}), role, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"},
		"another role":        {apiServer.token(t, nil), role + "-admin", "AccessDenied", "Not authorized"},
		"an expired token":    {apiServer.token(t, map[string]any{"exp": time.Now().Add(-time.Second).Unix()}), role, "ExpiredTokenException", "expired"},
		"what is not a token": {"secret", role, "InvalidIdentityToken", "not a valid JWT"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := client.AssumeRoleWithWebIdentity(t.Context(), &stssdk.AssumeRoleWithWebIdentityInput{RoleArn: &tc.role, RoleSessionName: sdk.String("test"), WebIdentityToken: &tc.token})
			assert.Contains(t, aws.WantCode(t, err, tc.code), tc.message, "the message")
		})
	}

	// As the SDK in a driver's pod does it.
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(apiServer.token(t, nil)), 0o600))
	for name, value := range map[string]string{"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": file, "AWS_ROLE_SESSION_NAME": "driver"} {
		t.Setenv(name, value)
	}
	cfg, err := config.LoadDefaultConfig(t.Context())
	require.NoError(t, err)
	identity, err := stssdk.NewFromConfig(cfg).GetCallerIdentity(t.Context(), &stssdk.GetCallerIdentityInput{})
	require.NoError(t, err)
	require.Equalf(t, "arn:aws:sts::111122223333:assumed-role/efs/driver", *identity.Arn, "got %+v", identity)
	_, err = efssdk.NewFromConfig(cfg).DescribeFileSystems(t.Context(), &efssdk.DescribeFileSystemsInput{})
	assert.NoError(t, err)
	for _, call := range c.Calls() {
		_, ok := call.Parameters["WebIdentityToken"]
		assert.Falsef(t, ok, "the token is in the record of the call %+v", call)
	}
}

// TestSessions: a role of another account is assumed, and its session ends.
func TestSessions(t *testing.T) {
	const other = "arn:aws:iam::444455556666:role/shared"
	c := aws.Start(t, aws.Options{SessionLifetime: time.Hour})
	user := c.AddUser(t, "driver", "sts:AssumeRole")
	require.NoError(t, c.IAM.AddRole(iam.Role{ARN: other, Actions: []string{"*"}, Trusted: []string{"arn:aws:iam::111122223333:root"}, ExternalID: "harbour"}))
	cfg := c.Configure(t, user)
	assume := func(externalID string) sdk.Config {
		assumed := cfg.Copy()
		assumed.Credentials = sdk.NewCredentialsCache(stscreds.NewAssumeRoleProvider(stssdk.NewFromConfig(cfg), other, func(o *stscreds.AssumeRoleOptions) { o.ExternalID = &externalID }))
		return assumed
	}
	describe := func(cfg sdk.Config) error {
		_, err := efssdk.NewFromConfig(cfg).DescribeFileSystems(t.Context(), &efssdk.DescribeFileSystemsInput{})
		return err
	}
	aws.WantCode(t, describe(assume("guessed")), "AccessDenied")
	aws.WantCode(t, describe(cfg), "AccessDeniedException")
	assert.NoError(t, describe(assume("harbour")), "the session of the other account fails")
	calls := c.Calls()
	last := calls[len(calls)-1]
	assert.Truef(t, strings.HasPrefix(last.Principal, "arn:aws:sts::444455556666:assumed-role/shared/"), "the last call is by %s", last.Principal)

	short := aws.Start(t, aws.Options{SessionLifetime: time.Nanosecond})
	require.NoError(t, short.IAM.AddRole(iam.Role{ARN: other, Actions: []string{"*"}}))
	ended := short.IAM.Assume(iam.Role{ARN: other, Actions: []string{"*"}}, "driver", time.Nanosecond)
	aws.WantCode(t, describe(short.Configure(t, ended)), "ExpiredTokenException")
}
