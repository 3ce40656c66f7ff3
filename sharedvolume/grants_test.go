package sharedvolume

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

func TestLists(t *testing.T) {
	grant := exampleGrant()
	grant.Spec.FileSystems = append(grant.Spec.FileSystems, v1alpha1.FileSystemGrant{FileSystemID: "fs-02", AccessPointIDs: []string{"*"}})
	for _, test := range []struct {
		fileSystem, accessPoint string
		want                    bool
	}{
		{"fs-01", "fsap-02", true},
		{"fs-01", "fsap-03", false},
		{"fs-02", "fsap-03", true},
		{"fs-03", "fsap-02", false},
		{"", "", false},
	} {
		spec := v1alpha1.SharedVolumeSpec{FileSystemID: test.fileSystem, AccessPointID: test.accessPoint}
		assert.Equalf(t, test.want, lists(grant, spec), "%+v", spec)
		assert.Falsef(t, lists(nil, spec), "%+v: no grant lists it", spec)
	}
}

func TestEffectOf(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*v1alpha1.SharedVolumeGrant, *corev1.Namespace)
		gone bool
		want string
		uid  string // that the status names
		says string
	}{
		{name: "new", want: "NamespaceFound", uid: "ns-1", says: "for namespace team with the UID ns-1"},
		{name: "of an older namespace", want: "NamespaceFound", uid: "ns-1", do: func(_ *v1alpha1.SharedVolumeGrant, ns *corev1.Namespace) {
			ns.CreationTimestamp.Time = now.Add(-time.Hour)
		}},
		{name: "of a newer namespace", want: "NamespaceNewer", says: `oc patch sharedvolumegrant team --type=merge -p '{"spec":{"namespaceUID":"ns-1"}}'`,
			do: func(_ *v1alpha1.SharedVolumeGrant, ns *corev1.Namespace) {
				ns.CreationTimestamp.Time = now.Add(time.Second)
			}},
		{name: "recorded", want: "NamespaceFound", uid: "ns-1", do: func(g *v1alpha1.SharedVolumeGrant, _ *corev1.Namespace) {
			g.Status.NamespaceUID = "ns-1"
		}},
		{name: "recorded, of the same second", want: "NamespaceReplaced", uid: "ns-0", says: "the status.namespaceUID of the grant is ns-0", do: func(g *v1alpha1.SharedVolumeGrant, _ *corev1.Namespace) {
			g.Status.NamespaceUID = "ns-0"
		}},
		{name: "named", want: "NamespaceFound", uid: "ns-1", do: func(g *v1alpha1.SharedVolumeGrant, ns *corev1.Namespace) {
			g.Spec.NamespaceUID, g.Status.NamespaceUID, ns.CreationTimestamp.Time = "ns-1", "ns-0", now.Add(time.Hour)
		}},
		{name: "another named", want: "NamespaceReplaced", uid: "ns-1", says: "the spec.namespaceUID of the grant is ns-0", do: func(g *v1alpha1.SharedVolumeGrant, _ *corev1.Namespace) {
			g.Spec.NamespaceUID, g.Status.NamespaceUID = "ns-0", "ns-1"
		}},
		{name: "no namespace", gone: true, want: "NamespaceMissing", says: "Namespace team does not exist"},
		{name: "no namespace any more", gone: true, want: "NamespaceMissing", uid: "ns-1", do: func(g *v1alpha1.SharedVolumeGrant, _ *corev1.Namespace) {
			g.Status.NamespaceUID = "ns-1"
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			grant, namespace := exampleGrant(), exampleNamespace()
			if test.do != nil {
				test.do(grant, namespace)
			}
			if test.gone {
				namespace = nil
			}
			status := grantStatus(grant, namespace)
			condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionEffective)
			if condition.Reason != test.want || status.NamespaceUID != test.uid || !strings.Contains(condition.Message, test.says) {
				t.Errorf("namespace UID %q, %s: %s; want %q, %s: %s", status.NamespaceUID, condition.Reason, condition.Message, test.uid, test.want, test.says)
			}
			if effective := test.want == "NamespaceFound"; effective != (condition.Status == metav1.ConditionTrue) || effective != effectOf(grant, namespace).effective {
				t.Errorf("Effective is %s", condition.Status)
			}
			// The same again writes nothing.
			grant.Status = status
			if again := grantStatus(grant, namespace); !equality.Semantic.DeepEqual(status, again) {
				t.Errorf("the same again is %+v, was %+v", again, status)
			}
		})
	}
}

func TestAccessAfter(t *testing.T) {
	community := func(labels ...string) *metav1.PartialObjectMetadata {
		object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "SecurityContextConstraints"}}
		object.Labels = map[string]string{OwnedLabel: "true"}
		for _, label := range labels {
			object.Labels[label] = "aws-efs-operator"
		}
		object.OwnerReferences = []metav1.OwnerReference{{Kind: "CustomResourceDefinition", Name: "sharedvolumes.aws-efs.managed.openshift.io"}}
		return object
	}
	unowned, unlabelled := community(), community()
	unowned.SetOwnerReferences(nil)
	unlabelled.SetLabels(nil)
	recorded := func(access v1alpha1.Access, labels ...string) *metav1.PartialObjectMetadata {
		object := community(labels...)
		object.Annotations = map[string]string{nextAccess: string(access)}
		return object
	}
	as := func(kind string) func(*metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
		return func(object *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
			object.Kind = kind
			return object
		}
	}
	class, driver := as("StorageClass"), as("CSIDriver")
	for name, test := range map[string]struct {
		found []*metav1.PartialObjectMetadata
		want  v1alpha1.Access
	}{
		"a storage administrator's class":          {[]*metav1.PartialObjectMetadata{unowned, class(community())}, v1alpha1.AccessGranted},
		"a storage administrator's record":         {[]*metav1.PartialObjectMetadata{unowned, class(recorded(v1alpha1.AccessOpen))}, v1alpha1.AccessGranted},
		"a driver that looks like the community's": {[]*metav1.PartialObjectMetadata{driver(community())}, v1alpha1.AccessGranted},
		"a driver with a record":                   {[]*metav1.PartialObjectMetadata{driver(recorded(v1alpha1.AccessOpen))}, v1alpha1.AccessGranted},
		"such a driver, and others' constraints":   {[]*metav1.PartialObjectMetadata{driver(recorded(v1alpha1.AccessOpen)), unowned}, v1alpha1.AccessGranted},
		"such a driver, and adopted constraints":   {[]*metav1.PartialObjectMetadata{driver(recorded(v1alpha1.AccessOpen)), community(managedByLabel)}, v1alpha1.AccessGranted},
		"a record that a driver closes":            {[]*metav1.PartialObjectMetadata{recorded(v1alpha1.AccessOpen), driver(recorded(v1alpha1.AccessGranted))}, v1alpha1.AccessGranted},
		"a record that a class closes":             {[]*metav1.PartialObjectMetadata{recorded(v1alpha1.AccessOpen), class(recorded(v1alpha1.AccessGranted))}, v1alpha1.AccessGranted},
		"nothing":                                  {nil, v1alpha1.AccessGranted},
		"a policy before":                          {[]*metav1.PartialObjectMetadata{community(), driver(recorded(v1alpha1.AccessGranted))}, v1alpha1.AccessGranted},
		"decided before":                           {[]*metav1.PartialObjectMetadata{recorded(v1alpha1.AccessOpen, managedByLabel), driver(community(managedByLabel))}, v1alpha1.AccessOpen},
		"recorded in parts":                        {[]*metav1.PartialObjectMetadata{recorded(v1alpha1.AccessOpen), driver(recorded(v1alpha1.AccessGranted))}, v1alpha1.AccessGranted},
		"the community's":                          {[]*metav1.PartialObjectMetadata{community(), driver(community())}, v1alpha1.AccessOpen},
		"one of it":                                {[]*metav1.PartialObjectMetadata{driver(unowned), community()}, v1alpha1.AccessOpen},
		"without owner":                            {[]*metav1.PartialObjectMetadata{unowned}, v1alpha1.AccessGranted},
		"without label":                            {[]*metav1.PartialObjectMetadata{unlabelled}, v1alpha1.AccessGranted},
		"taken over":                               {[]*metav1.PartialObjectMetadata{community(managedByLabel)}, v1alpha1.AccessGranted},
		"taken over in parts":                      {[]*metav1.PartialObjectMetadata{community(), driver(community(managedByLabel))}, v1alpha1.AccessGranted},
	} {
		assert.Equal(t, test.want, accessAfter(test.found), name)
	}
}

func TestGrantsRequired(t *testing.T) {
	for access, want := range map[v1alpha1.Access]struct {
		open   bool
		reason string
		says   string
	}{
		v1alpha1.AccessGranted: {false, "Granted", "SharedVolumeGrant"},
		v1alpha1.AccessOpen:    {true, "Open", `oc patch sharedvolumepolicy cluster --type=merge -p '{"spec":{"access":"Granted"}}'`},
		"open":                 {false, "UnknownAccess", `spec.access is "open", want Granted or Open`},
		"":                     {false, "UnknownAccess", ""},
	} {
		policy := &v1alpha1.SharedVolumePolicy{Spec: v1alpha1.SharedVolumePolicySpec{Access: access}}
		got := grantsRequired(policy)
		if isOpen(policy) != want.open || (got.Status == metav1.ConditionFalse) != want.open || got.Reason != want.reason || !strings.Contains(got.Message, want.says) {
			t.Errorf("%q: open %v, %+v; want open %v, %s: %s", access, isOpen(policy), got, want.open, want.reason, want.says)
		}
	}
	assert.False(t, isOpen(nil), "without a policy, it is open")
}
