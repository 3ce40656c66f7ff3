// Package tenant provides the attacker of the tests of attacks: a signed-in user who is nobody's administrator. On
// OpenShift, any signed-in user may request a project and becomes its admin.
package tenant

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/operators"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

// waitLimit is the time limit for everything that only the cluster itself does.
const waitLimit = time.Minute

// reserved are prefixes and names that OpenShift rejects in a project request.
var reserved = regexp.MustCompile(`^(openshift|kube)(-|$)|^(default|kubernetes)$`)

// Tenant is a signed-in user. It has the cluster role admin in its own projects, and no other permissions.
type Tenant struct {
	// Name is the user's name.
	Name string
	// Config connects to the cluster as the tenant.
	Config *rest.Config
	// Client reads and writes as the tenant.
	Client client.Client

	t       testing.TB
	cluster *cluster.Cluster
}

// New signs in a user. The name must be unique among the tests of a cluster.
func New(t testing.TB, c *cluster.Cluster) *Tenant {
	t.Helper()
	config := c.Config()
	tn := &Tenant{Name: "tenant-" + projectName(t.Name()), Config: config, t: t, cluster: c}
	config.Impersonate = rest.ImpersonationConfig{UserName: tn.Name, Groups: []string{"system:authenticated", "system:authenticated:oauth"}}
	api, err := client.New(config, client.Options{Scheme: c.Client().Scheme(), Mapper: c.Client().RESTMapper()})
	require.NoError(t, err)
	tn.Client = api
	return tn
}

// Project creates a namespace as a project request does: the tenant chooses the name and becomes its admin, but
// cannot choose labels. Without a name, it is derived from the test's name. Project returns the name. The project is
// deleted when the test ends.
func (tn *Tenant) Project(t testing.TB, name string) string {
	t.Helper()
	if name == "" {
		name = projectName(t.Name())
	}
	require.Falsef(t, reserved.MatchString(name), "a project request for %q is refused: no tenant may have that name", name)
	admin := tn.cluster.Client()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"openshift.io/requester": tn.Name}}}
	require.NoErrorf(t, admin.Create(t.Context(), namespace), "request project %s", name)
	t.Cleanup(func() {
		// Somebody may have recreated the namespace. Leave that one alone.
		if err := client.IgnoreNotFound(admin.Delete(context.Background(), namespace, client.Preconditions{UID: &namespace.UID})); err != nil && !apierrors.IsConflict(err) {
			t.Errorf("delete project %s: %v", name, err)
		}
	})
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: tn.Name}},
	}
	require.NoErrorf(t, admin.Create(t.Context(), binding), "make %s the admin of project %s", tn.Name, name)
	require.NoError(t, tn.cluster.EnsureNamespace(t.Context(), name))
	// The API server picks up bindings and aggregated rules with a small delay.
	cluster.Eventually(t, waitLimit, "the tenant's permissions in project "+name, func(ctx context.Context) error {
		for _, right := range tn.rights(name) {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
			if err := tn.Client.Create(ctx, review); err != nil {
				return err
			}
			if !review.Status.Allowed {
				return fmt.Errorf("may not %s %s", right.Verb, right.Resource)
			}
		}
		return nil
	})
	return name
}

// rights returns some of the permissions of a namespace's admin, including one that OLM adds if it is installed.
func (tn *Tenant) rights(namespace string) []authorizationv1.ResourceAttributes {
	some := []authorizationv1.ResourceAttributes{{Namespace: namespace, Verb: "create", Group: "apps", Resource: "daemonsets"}}
	if _, err := tn.cluster.Client().RESTMapper().RESTMapping(schema.GroupKind{Group: operators.GroupName, Kind: "Subscription"}); err == nil {
		some = append(some, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Group: operators.GroupName, Resource: "subscriptions"})
	}
	return some
}

var notInNames = regexp.MustCompile("[^a-z0-9]+")

// projectName turns a test's name into a project's. It keeps the end, which is more specific than the beginning.
func projectName(test string) string {
	name := notInNames.ReplaceAllString(strings.ToLower(test), "-")
	return strings.Trim(name[max(0, len(name)-50):], "-")
}
