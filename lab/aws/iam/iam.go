// Package iam records who may call a fake AWS: users with key pairs, roles, and the sessions of roles.
package iam

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Principal is who makes a request.
type Principal struct {
	// ARN is the ARN of a user, or of a session of a role.
	ARN string
	// Account is the twelve digits of the account.
	Account string
	// UserID is unique, and for a session also has the session's name.
	UserID string

	role    string // the ARN of the role of a session
	actions []string
}

// May reports whether the principal's policies allow an action, such as "ec2:CreateVolume".
func (p Principal) May(action string) bool {
	return slices.ContainsFunc(p.actions, func(pattern string) bool {
		matched, _ := path.Match(strings.ToLower(pattern), strings.ToLower(action)) // the directory accepts only good patterns
		return matched
	})
}

// Credentials sign requests.
type Credentials struct {
	AccessKeyID, SecretAccessKey string
	// SessionToken and Expires are set for sessions only.
	SessionToken string
	Expires      time.Time
	Principal    Principal
}

// Role can be assumed by the principals that it trusts.
type Role struct {
	// ARN is like "arn:aws:iam::123456789012:role/NAME".
	ARN string
	// Actions are the patterns of the actions that its policy allows. Like in a policy, "*" stands for any characters.
	Actions []string
	// Trusted are ARNs of users, roles, and accounts ("arn:aws:iam::123456789012:root").
	Trusted []string
	// ExternalID must be in requests to assume the role, unless it is empty.
	ExternalID string
	// Issuer and Subjects select the tokens whose bearers may assume the role.
	Issuer   string
	Subjects []string
}

// IdentityProvider is an OpenID Connect provider that the account knows.
type IdentityProvider struct {
	// Issuer is the URL in the tokens.
	Issuer string
	// Audiences are the audiences that a token may be for.
	Audiences []string
	// KeySet returns the issuer's JSON Web Key Set, which a Kubernetes API server serves at /openid/v1/jwks.
	KeySet func() ([]byte, error)
}

// Directory is the users, roles and sessions of all accounts. Use NewDirectory.
type Directory struct {
	partition string

	mu          sync.Mutex
	credentials map[string]Credentials // by access key ID
	roles       map[string]Role        // by ARN
	providers   map[string]IdentityProvider
}

// NewDirectory returns an empty directory for a partition, such as "aws" or "aws-us-gov".
func NewDirectory(partition string) *Directory {
	return &Directory{partition: partition, credentials: map[string]Credentials{}, roles: map[string]Role{}, providers: map[string]IdentityProvider{}}
}

// AddUser adds a user whose policy allows the actions, and returns a key pair.
func (d *Directory) AddUser(account, name string, actions ...string) (Credentials, error) {
	return d.AddUserWith(account, name, id("AKIA"), rand.Text()+rand.Text()[:14], actions...)
}

// AddUserWith is AddUser with a key pair that was made elsewhere.
func (d *Directory) AddUserWith(account, name, accessKeyID, secretAccessKey string, actions ...string) (Credentials, error) {
	if err := check(actions); err != nil {
		return Credentials{}, err
	}
	made := Credentials{
		AccessKeyID: accessKeyID, SecretAccessKey: secretAccessKey,
		Principal: Principal{ARN: fmt.Sprintf("arn:%s:iam::%s:user/%s", d.partition, account, name), Account: account, UserID: id("AIDA"), actions: slices.Clone(actions)},
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.credentials[made.AccessKeyID] = made
	return made, nil
}

// Allow lets the owner of a key pair take further actions.
func (d *Directory) Allow(accessKeyID string, actions ...string) error {
	if err := check(actions); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.credentials[accessKeyID]
	if !ok {
		return fmt.Errorf("got the access key ID %q, want one that was added", accessKeyID)
	}
	found.Principal.actions = slices.Concat(found.Principal.actions, actions)
	d.credentials[accessKeyID] = found
	return nil
}

// AddRole adds a role, or replaces it.
func (d *Directory) AddRole(role Role) error {
	if parts := strings.SplitN(role.ARN, ":", 6); len(parts) != 6 || parts[1] != d.partition || parts[2] != "iam" || !strings.HasPrefix(parts[5], "role/") {
		return fmt.Errorf("role has ARN %q, want arn:%s:iam::ACCOUNT:role/NAME", role.ARN, d.partition)
	}
	if err := check(role.Actions); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.roles[role.ARN] = role
	return nil
}

// AddIdentityProvider makes an issuer of tokens known.
func (d *Directory) AddIdentityProvider(provider IdentityProvider) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.providers[provider.Issuer] = provider
}

// Find returns the credentials with the given access key ID.
func (d *Directory) Find(accessKeyID string) (Credentials, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.credentials[accessKeyID]
	return found, ok
}

// Remove removes the user or the session of a key pair.
func (d *Directory) Remove(accessKeyID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.credentials, accessKeyID)
}

// Provider returns the provider of an issuer.
func (d *Directory) Provider(issuer string) (IdentityProvider, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, ok := d.providers[issuer]
	return found, ok
}

// Trusts returns the role of an ARN, if it trusts a principal.
func (d *Directory) Trusts(arn string, p Principal, externalID string) (Role, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	role, ok := d.roles[arn]
	account := fmt.Sprintf("arn:%s:iam::%s:root", d.partition, p.Account)
	trusted := slices.ContainsFunc(role.Trusted, func(arn string) bool { return arn == p.ARN || arn == account || arn == p.role && p.role != "" })
	return role, ok && trusted && (role.ExternalID == "" || role.ExternalID == externalID)
}

// TrustsToken returns the role of an ARN, if it trusts tokens of the issuer for the subject.
func (d *Directory) TrustsToken(arn, issuer, subject string) (Role, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	role, ok := d.roles[arn]
	return role, ok && role.Issuer != "" && role.Issuer == issuer && slices.Contains(role.Subjects, subject)
}

// Assume starts a session of a role, and returns its credentials, which expire.
func (d *Directory) Assume(role Role, session string, duration time.Duration) Credentials {
	parts := strings.SplitN(role.ARN, ":", 6)
	account, name := parts[4], path.Base(parts[5])
	made := Credentials{
		AccessKeyID: id("ASIA"), SecretAccessKey: rand.Text() + rand.Text()[:14], SessionToken: rand.Text() + rand.Text(), Expires: time.Now().Add(duration),
		Principal: Principal{
			ARN: fmt.Sprintf("arn:%s:sts::%s:assumed-role/%s/%s", d.partition, account, name, session), Account: account, UserID: id("AROA") + ":" + session,
			role: role.ARN, actions: slices.Clone(role.Actions),
		},
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.credentials, func(_ string, c Credentials) bool { // for an hour, an expired session is refused as expired, and then as unknown
		return !c.Expires.IsZero() && time.Since(c.Expires) > time.Hour
	})
	d.credentials[made.AccessKeyID] = made
	return made
}

func check(actions []string) error {
	for _, pattern := range actions {
		if _, err := path.Match(pattern, ""); err != nil || strings.ContainsAny(pattern, `\[/`) {
			return fmt.Errorf("action %q is no pattern, want one such as ec2:Describe*", pattern)
		}
	}
	return nil
}

// id returns an identifier in AWS's form: a prefix for the kind, and 16 letters and digits.
func id(prefix string) string {
	random := make([]byte, 10)
	_, _ = rand.Read(random) // never fails
	return prefix + base32.StdEncoding.EncodeToString(random)
}
