package gcp_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/gcp"
)

const (
	issuer  = "https://kubernetes.default.svc"
	subject = "system:serviceaccount:harbour:driver"
)

// TestWorkloadIdentity: a token of the trusted issuer for the right subject and audience lets its bearer act as the
// account.
func TestWorkloadIdentity(t *testing.T) {
	b := start(t, gcp.Options{})
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	require.NoError(t, err)
	audience := b.AddIdentityProvider("harbour-pool", gcp.IdentityProvider{Issuer: issuer, Audiences: []string{"openshift"}, KeySet: func() ([]byte, error) {
		return json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1"}}})
	}})
	for name, test := range map[string]struct {
		change  func(*jwt.Claims)
		problem string
	}{
		"trusted":          {change: func(*jwt.Claims) {}},
		"another audience": {func(c *jwt.Claims) { c.Audience = jwt.Audience{"sts.amazonaws.com"} }, "audience"},
		"another issuer":   {func(c *jwt.Claims) { c.Issuer = "https://example.com" }, "issuer"},
		"another subject":  {func(c *jwt.Claims) { c.Subject = "system:serviceaccount:harbour:other" }, "iam.serviceAccounts.getAccessToken"},
		"expired":          {func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(time.Now().Add(-time.Minute)) }, "stale"},
	} {
		t.Run(name, func(t *testing.T) {
			claims := jwt.Claims{Issuer: issuer, Subject: subject, Audience: jwt.Audience{"openshift"}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))}
			test.change(&claims)
			token, err := jwt.Signed(signer).Claims(claims).Serialize()
			require.NoError(t, err)
			file := filepath.Join(t.TempDir(), "token")
			require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
			api := b.client(b.Trust(t, audience, subject, b.email, file))
			_, err = api.Zones.List(b.Project()).Do()
			if test.problem == "" && err != nil || test.problem != "" && (err == nil || !strings.Contains(err.Error(), test.problem)) {
				t.Errorf("error %v, want %q in it", err, test.problem)
			}
		})
	}
	calls := b.Calls()
	for _, call := range calls {
		if call.Method == "compute.zones.list" && call.Principal != b.email {
			t.Errorf("the zones were listed by %q, want %s", call.Principal, b.email)
		}
	}
}
