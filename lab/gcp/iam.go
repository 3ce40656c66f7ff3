package gcp

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// account is a service account.
type account struct {
	email       string
	permissions []string // a permission that ends with a dot is a prefix
	keys        map[string]*rsa.PublicKey
	// subjects are the subjects of an identity provider that may act as the account, as "POOL#SUBJECT".
	subjects []string
}

// token is the identity behind an access token: a service account or, if subject is set, an identity of a pool.
type token struct {
	account, subject string
	expires          time.Time
}

// roles are the permissions of Google's roles, as far as the cloud knows them.
var roles = map[string][]string{
	"roles/compute.storageAdmin": {"compute.disks.", "compute.diskTypes.", "compute.snapshots.", "compute.images.", "compute.zones.", "compute.regions.",
		"compute.zoneOperations.get", "compute.regionOperations.get", "compute.globalOperations.get"},
	"roles/iam.serviceAccountUser": {"iam.serviceAccounts.actAs"},
	"roles/resourcemanager.tagUser": {"resourcemanager.tagValues.get", "resourcemanager.tagValueBindings.create", "compute.disks.createTagBinding",
		"compute.snapshots.createTagBinding", "compute.images.createTagBinding", "compute.disks.listEffectiveTags", "compute.snapshots.listEffectiveTags", "compute.images.listEffectiveTags"},
}

// AddServiceAccount adds a service account with permissions and roles, and returns its email. They replace the
// permissions and roles of an existing account.
func (c *Cloud) AddServiceAccount(name string, permissions []string, of ...string) string {
	email := name + "@" + c.options.Project + ".iam.gserviceaccount.com"
	all := slices.Clone(permissions)
	for _, role := range of {
		all = append(all, roles[role]...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.accounts[email]; ok {
		known.permissions = all
		return email
	}
	c.accounts[email] = &account{email: email, permissions: all, keys: map[string]*rsa.PublicKey{}}
	return email
}

// tokenURI is where clients with a key of a service account get access tokens.
const tokenURI = "https://oauth2.googleapis.com/token"

// NewKey returns a new key of a service account, in the form of the file that Google gives.
func (c *Cloud) NewKey(t testing.TB, email string) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	id := rand.Text()
	c.mu.Lock()
	c.accounts[email].keys[id] = &key.PublicKey
	c.mu.Unlock()
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": c.options.Project, "private_key_id": id, "client_email": email, "client_id": "100000000000000000001",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})), "token_uri": tokenURI, "universe_domain": "googleapis.com",
	})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// IdentityProvider is a provider of a workload identity pool, whose tokens are exchanged for access tokens.
type IdentityProvider struct {
	Issuer    string
	Audiences []string
	// KeySet returns the provider's public keys, as a JSON Web Key Set.
	KeySet func() ([]byte, error)
}

// AddIdentityProvider adds a pool with a provider, and returns the audience of clients' token exchanges.
func (c *Cloud) AddIdentityProvider(pool string, provider IdentityProvider) (audience string) {
	audience = fmt.Sprintf("//iam.googleapis.com/projects/%d/locations/global/workloadIdentityPools/%s/providers/%[2]s", projectNumber, pool)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pools[audience] = provider
	return audience
}

// Trust lets a subject of a pool's tokens act as a service account. It returns the clients' credentials file, which
// refers to the file of the token.
func (c *Cloud) Trust(t testing.TB, audience, subject, email, tokenFile string) []byte {
	t.Helper()
	c.mu.Lock()
	c.accounts[email].subjects = append(c.accounts[email].subjects, audience+"#"+subject)
	c.mu.Unlock()
	file, err := json.Marshal(map[string]any{
		"type": "external_account", "audience": audience, "subject_token_type": jwtType, "token_url": "https://sts.googleapis.com/v1/token",
		"service_account_impersonation_url": "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/" + email + ":generateAccessToken",
		"credential_source":                 map[string]any{"file": tokenFile, "format": map[string]string{"type": "text"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// newToken returns an access token. The caller holds the lock.
func (c *Cloud) newToken(of token) (string, time.Time) {
	text := "ya29." + rand.Text()
	of.expires = time.Now().Add(c.options.TokenLifetime)
	c.tokens[text] = of
	return text, of.expires
}

// authenticate returns the identity behind a request's access token.
func (c *Cloud) authenticate(r *http.Request) (token, *fault) {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return token{}, faultf(http.StatusUnauthorized, "required", "Login Required.")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.tokens[text]
	if !ok || time.Now().After(found.expires) {
		return token{}, faultf(http.StatusUnauthorized, "authError", "Invalid Credentials")
	}
	return found, nil
}

// may returns an error unless a service account has a permission for a resource. The caller holds the lock.
func (c *Cloud) may(email, permission, resource string) *fault {
	of, ok := c.accounts[email]
	if ok && slices.ContainsFunc(of.permissions, func(p string) bool {
		return p == permission || strings.HasSuffix(p, ".") && strings.HasPrefix(permission, p)
	}) {
		return nil
	}
	return faultf(http.StatusForbidden, "forbidden", "Required '%s' permission for '%s'", permission, resource)
}
