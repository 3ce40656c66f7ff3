package gcp

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Types of tokens and grants.
const (
	jwtType      = "urn:ietf:params:oauth:token-type:jwt"
	accessType   = "urn:ietf:params:oauth:token-type:access_token"
	jwtGrant     = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	exchangeType = "urn:ietf:params:oauth:grant-type:token-exchange"
)

// scopes are the scopes that let a token be used here; any will do.
var scopes = []string{"https://www.googleapis.com/auth/cloud-platform", "https://www.googleapis.com/auth/compute"}

func usable(scope string) bool {
	return slices.ContainsFunc(strings.Fields(scope), func(s string) bool { return slices.Contains(scopes, s) })
}

// maxLife is how long an assertion of a service account may be valid.
const maxLife = time.Hour

// refuse answers a request for a token with an OAuth error.
func refuse(w http.ResponseWriter, kind, description string) {
	writeJSON(w, http.StatusBadRequest, map[string]string{"error": kind, "error_description": description})
}

// grantToken gives an access token for an assertion that a service account has signed.
func (c *Cloud) grantToken(w http.ResponseWriter, r *http.Request) {
	if r.PostFormValue("grant_type") != jwtGrant {
		refuse(w, "unsupported_grant_type", "Invalid grant_type: "+r.PostFormValue("grant_type"))
		return
	}
	email, problem := c.checkAssertion(r.PostFormValue("assertion"))
	c.mu.Lock()
	defer c.mu.Unlock()
	call := Call{Method: "oauth2.token", Principal: email, Path: r.URL.Path}
	if problem != "" {
		call.Error = "invalid_grant"
		c.calls = append(c.calls, call)
		refuse(w, "invalid_grant", problem)
		return
	}
	c.calls = append(c.calls, call)
	text, expires := c.newToken(token{account: email})
	writeJSON(w, http.StatusOK, map[string]any{"access_token": text, "expires_in": seconds(expires), "token_type": "Bearer"})
}

func seconds(until time.Time) int { return int(time.Until(until).Round(time.Second).Seconds()) }

// checkAssertion returns the service account that has signed an assertion, or its problem.
func (c *Cloud) checkAssertion(text string) (email, problem string) {
	parsed, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil || len(parsed.Headers) != 1 {
		return "", "Invalid JWT: it cannot be read."
	}
	var claims struct {
		jwt.Claims
		Scope string `json:"scope"`
	}
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		return "", "Invalid JWT: its claims cannot be read."
	}
	c.mu.Lock()
	of := c.accounts[claims.Issuer]
	c.mu.Unlock()
	if of == nil {
		return "", "Invalid grant: account not found"
	}
	key, ok := of.keys[parsed.Headers[0].KeyID]
	now := time.Now()
	switch {
	case !ok || parsed.Claims(key, &claims) != nil:
		return of.email, "Invalid JWT Signature."
	case !claims.Audience.Contains(tokenURI):
		return of.email, "Invalid JWT: Failed audience check."
	case claims.Expiry == nil || claims.IssuedAt == nil || now.After(claims.Expiry.Time()) || claims.Expiry.Time().Sub(claims.IssuedAt.Time()) > maxLife:
		return of.email, "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim."
	case !usable(claims.Scope):
		return of.email, "Invalid OAuth scope or ID token audience provided."
	}
	return of.email, ""
}

// exchangeToken gives an access token of a pool for a token of its provider.
func (c *Cloud) exchangeToken(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuse(w, "invalid_request", err.Error())
		return
	}
	subject, problem := c.checkIdentity(r.PostForm)
	c.mu.Lock()
	defer c.mu.Unlock()
	call := Call{Method: "sts.token", Principal: subject, Path: r.URL.Path}
	if problem != "" {
		call.Error = "invalid_grant"
		c.calls = append(c.calls, call)
		refuse(w, "invalid_grant", problem)
		return
	}
	c.calls = append(c.calls, call)
	text, expires := c.newToken(token{subject: r.PostFormValue("audience") + "#" + subject})
	writeJSON(w, http.StatusOK, map[string]any{"access_token": text, "issued_token_type": accessType, "token_type": "Bearer", "expires_in": seconds(expires)})
}

// checkIdentity returns the subject of a provider's token, or its problem.
func (c *Cloud) checkIdentity(form url.Values) (subject, problem string) {
	c.mu.Lock()
	provider, known := c.pools[form.Get("audience")]
	c.mu.Unlock()
	switch {
	case form.Get("grant_type") != exchangeType || form.Get("subject_token_type") != jwtType:
		return "", "Invalid grant_type or subject_token_type."
	case !known:
		return "", "Invalid value for \"audience\". This value should be the full resource name of the Identity Provider."
	case !usable(form.Get("scope")):
		return "", "Invalid scope."
	}
	parsed, err := jwt.ParseSigned(form.Get("subject_token"), []jose.SignatureAlgorithm{jose.RS256, jose.ES256})
	if err != nil {
		return "", "The subject token is no JWT."
	}
	document, err := provider.KeySet()
	if err != nil {
		return "", "Error connecting to the given credential's issuer."
	}
	var keys jose.JSONWebKeySet
	var claims jwt.Claims
	if json.Unmarshal(document, &keys) != nil || parsed.Claims(&keys, &claims) != nil {
		return "", "Invalid JWT signature."
	}
	switch {
	case claims.Issuer != provider.Issuer:
		return claims.Subject, "The issuer in ID Token " + claims.Issuer + " does not match the expected ones."
	case !slices.ContainsFunc(provider.Audiences, claims.Audience.Contains):
		return claims.Subject, "The audience in ID Token does not match the expected audience."
	case claims.Expiry == nil || time.Now().After(claims.Expiry.Time()):
		return claims.Subject, "ID Token is stale to sign-in."
	}
	return claims.Subject, ""
}

// impersonate gives an access token of a service account to an identity that may act as it.
func (c *Cloud) impersonate(w http.ResponseWriter, r *http.Request) {
	email, method, _ := strings.Cut(r.PathValue("account"), ":")
	if method != "generateAccessToken" {
		notFound(r.URL.Path).write(w)
		return
	}
	caller, refusal := c.authenticate(r)
	if refusal != nil {
		refusal.write(w)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	call := Call{Method: "iamcredentials.generateAccessToken", Principal: email, Path: r.URL.Path}
	of := c.accounts[email]
	if of == nil || caller.subject == "" || !slices.Contains(of.subjects, caller.subject) {
		call.Error = "forbidden"
		c.calls = append(c.calls, call)
		faultf(http.StatusForbidden, "forbidden", "Permission 'iam.serviceAccounts.getAccessToken' denied on resource (or it may not exist).").write(w)
		return
	}
	c.calls = append(c.calls, call)
	text, expires := c.newToken(token{account: email})
	writeJSON(w, http.StatusOK, map[string]string{"accessToken": text, "expireTime": expires.UTC().Format(time.RFC3339)})
}
