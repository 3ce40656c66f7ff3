// Package walk leads an operator through its life, and compares the operator's API requests with its permissions.
package walk

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/berth-csi/berth/drivers/permissions"
	"github.com/berth-csi/berth/lab/cluster"
)

// limit is for each step.
const limit = 2 * time.Minute

// An Account is the service account of an operator.
type Account struct {
	Cluster *cluster.Cluster
	// Namespace is the operator's own.
	Namespace, Name string
}

// User returns the account's user name.
func (a Account) User() string { return "system:serviceaccount:" + a.Namespace + ":" + a.Name }

// Requests returns the operator's requests so far.
func (a Account) Requests(t testing.TB) []cluster.AuditEvent {
	t.Helper()
	return a.Cluster.AuditOf(t, cluster.Requests{User: a.User()})
}

// AwaitRequest waits until the operator has sent a request.
func (a Account) AwaitRequest(t testing.TB, what string, is func(cluster.AuditEvent) bool) {
	t.Helper()
	cluster.Eventually(t, limit, "the operator to "+what, func(context.Context) error {
		if !slices.ContainsFunc(a.Requests(t), is) {
			return fmt.Errorf("the audit log has no such request of %s", a.User())
		}
		return nil
	})
}

// CheckRefusals fails the test for each request that was refused, except requests that others would have had to permit. It also fails if
// there were no requests.
func CheckRefusals(t testing.TB, requests []cluster.AuditEvent, byOthers func(cluster.AuditEvent) bool) {
	t.Helper()
	for _, request := range requests {
		if request.Code == http.StatusForbidden && !byOthers(request) {
			t.Errorf("not permitted to %s: %s %s", request.User, request.Verb, request.URI)
		}
	}
	assert.NotEmpty(t, requests, "the audit log has no request of the operator")
}

// Exercise returns which permissions of the rules the requests have used. It fails the test for each request that the rules
// do not allow, though the API server answered it: somebody else permitted it. Requests that others permit do not count.
func Exercise(t testing.TB, rules []permissions.Rule, namespace string, requests []cluster.AuditEvent, byOthers func(cluster.AuditEvent) bool) permissions.Set {
	t.Helper()
	var needed []permissions.Permission
	for _, request := range requests {
		if request.Code != http.StatusForbidden && !byOthers(request) {
			needed = append(needed, needsOf(request, namespace)...)
		}
	}
	used, unforeseen := permissions.Exercise(rules, needed)
	for _, p := range unforeseen {
		t.Errorf("no rule is for %q: somebody else permits it", p)
	}
	return used
}

// Discovers reports whether a request discovers the APIs, as everybody may.
func Discovers(request cluster.AuditEvent) bool { return request.Resource == "" }

// needsOf returns the permissions that an operator in a namespace needs for a request.
func needsOf(request cluster.AuditEvent, namespace string) []permissions.Permission {
	need := permissions.Permission{
		Own: request.Namespace == namespace, Group: request.Group, Resource: request.Resource, Name: request.Name, Verb: request.Verb,
	}
	if request.Subresource != "" {
		need.Resource += "/" + request.Subresource
	}
	switch {
	case need.Verb == "create" && request.Subresource == "":
		need.Name = "" // It stands in the body, which nobody has read when the permission is looked for.
	case request.Code == http.StatusCreated:
		create := need
		create.Verb = "create"
		return []permissions.Permission{need, create}
	}
	return []permissions.Permission{need}
}
