package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// grantsCluster returns a client of a cluster with namespace shop, of UID ns-1, and objects.
func grantsCluster(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "ns-1", CreationTimestamp: metav1.NewTime(time.Unix(1000, 0))}}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, shop)...).Build()
}

// shopGrant returns the grant of namespace shop, for a UID, written at a time.
func shopGrant(uid types.UID, at int64, points ...string) *v1alpha1.SharedVolumeGrant {
	grant := &v1alpha1.SharedVolumeGrant{ObjectMeta: metav1.ObjectMeta{Name: "shop", CreationTimestamp: metav1.NewTime(time.Unix(at, 0))}}
	grant.Status.NamespaceUID = string(uid)
	grant.Spec.FileSystems = []v1alpha1.FileSystemGrant{{FileSystemID: "fs-01", AccessPointIDs: points}}
	return grant
}

// TestGrant: a grant is created or extended, never for a namespace that it was not written for, and never twice.
func TestGrant(t *testing.T) {
	for _, test := range []struct {
		name   string
		args   string
		before *v1alpha1.SharedVolumeGrant
		want   string // the grant, as fs:points, and what was added
		err    string
	}{
		{"the first", "shop fs-01 fsap-01 fsap-02", nil, "ns-1 fs-01:fsap-01,fsap-02 added fsap-01,fsap-02", ""},
		{"named twice", "shop fs-01 fsap-01 fsap-01", nil, "ns-1 fs-01:fsap-01 added fsap-01", ""},
		{"one more", "shop fs-01 fsap-01 fsap-02", shopGrant("ns-1", 0, "fsap-01"), " fs-01:fsap-01,fsap-02 added fsap-02", ""},
		{"another file system", "shop fs-02 *", shopGrant("ns-1", 0, "fsap-01"), " fs-01:fsap-01 fs-02:* added *", ""},
		{"nothing new", "shop fs-01 fsap-01", shopGrant("ns-1", 0, "fsap-01"), " fs-01:fsap-01 added ", ""},
		{"all are granted", "shop fs-01 fsap-09", shopGrant("ns-1", 0, "*"), " fs-01:* added ", ""},
		{"the operator has not seen the grant", "shop fs-01 fsap-02", shopGrant("", 2000, "fsap-01"), " fs-01:fsap-01,fsap-02 added fsap-02", ""},
		{"for an earlier namespace", "shop fs-01 fsap-02", shopGrant("ns-0", 0, "fsap-01"), "", "was written for an earlier namespace shop"},
		{"older than the namespace", "shop fs-01 fsap-02", shopGrant("", 0, "fsap-01"), "", "was written for an earlier namespace shop"},
		{"no namespace", "shed fs-01 fsap-02", nil, "", "there is no namespace shed"},
		{"a namespace that is an option", "-A fs-01 fsap-02", nil, "", `NAMESPACE is "-A"`},
		{"a namespace with a command", "a;id fs-01 fsap-02", nil, "", `NAMESPACE is "a;id"`},
		{"a file system of a stranger", "shop fs-$(id) fsap-02", nil, "", `FILESYSTEM is "fs-$(id)"`},
		{"an access point of a stranger", "shop fs-01 ../x", nil, "", `ACCESSPOINT is "../x"`},
		{"swapped", "shop fsap-01 fs-01", nil, "", `FILESYSTEM is "fsap-01"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var objects []client.Object
			if test.before != nil {
				objects = append(objects, test.before)
			}
			got, err := "", error(nil)
			request, err := parseGrant(strings.Fields(test.args))
			if err == nil {
				c := grantsCluster(t, objects...)
				var added []string
				if _, added, err = request.write(t.Context(), c); err == nil {
					stored := &v1alpha1.SharedVolumeGrant{}
					require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "shop"}, stored))
					got = stored.Spec.NamespaceUID
					for _, of := range stored.Spec.FileSystems {
						got += " " + of.FileSystemID + ":" + strings.Join(of.AccessPointIDs, ",")
					}
					got += " added " + strings.Join(added, ",")
				}
			}
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %q, error %v; want %q, %q", got, err, test.want, test.err)
			}
		})
	}
}

// TestGrantsOf: a user who may read one grant sees that one, and otherwise gets advice.
func TestGrantsOf(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "sharedvolumegrants"}, "", nil)
	team := interceptor.NewClient(grantsCluster(t, shopGrant("ns-1", 0, "fsap-01", "fsap-02")), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return refused },
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if key.Name != "shop" {
				return refused
			}
			return c.Get(ctx, key, object, options...)
		},
	})
	for namespace, want := range map[string]string{"": "with -n NAMESPACE", "shed": "you may not read SharedVolumeGrant shed: a cluster administrator can let you"} {
		_, err := grantsOf(t.Context(), team, namespace)
		assert.ErrorContainsf(t, err, want, "of namespace %q", namespace)
	}
	grants, err := grantsOf(t.Context(), team, "shop")
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, listGrants(&text, grants))
	assert.Equal(t, "NAMESPACE FILE SYSTEM ACCESS POINT EFFECTIVE shop fs-01 fsap-01 not yet shop fs-01 fsap-02 not yet", strings.Join(strings.Fields(text.String()), " "))
}
