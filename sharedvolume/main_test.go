package sharedvolume_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/cluster"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(klog.Background())
	cluster.Main(m)
}

const (
	// patience is how long a cluster on a busy machine may need for anything it does at once.
	patience = 2 * time.Minute
	// definitionFile is the CustomResourceDefinition of SharedVolumes that is generated from the API types.
	definitionFile = definitions + "/aws-efs.managed.openshift.io_sharedvolumes.yaml"
	definitions    = "../drivers/efs/assets/crd"
	// controllerUser runs the controller in the tests, with no more than the rights it needs.
	controllerNamespace, controllerAccount = "default", "sharedvolume-controller"
	controllerUser                         = "system:serviceaccount:" + controllerNamespace + ":" + controllerAccount
)

// rights are all that the controller may do.
var rights = []rbacv1.PolicyRule{
	{APIGroups: []string{"aws-efs.managed.openshift.io"}, Resources: []string{"sharedvolumes"}, Verbs: []string{"list", "watch", "patch"}},
	{APIGroups: []string{"aws-efs.managed.openshift.io"}, Resources: []string{"sharedvolumes/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims", "persistentvolumes"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
	{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create"}},

	{APIGroups: []string{"aws-efs.managed.openshift.io"}, Resources: []string{"sharedvolumegrants"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{"aws-efs.managed.openshift.io"}, Resources: []string{"sharedvolumegrants/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
	{APIGroups: []string{"aws-efs.managed.openshift.io"}, Resources: []string{"sharedvolumepolicies"}, ResourceNames: []string{"cluster"}, Verbs: []string{"get", "list", "watch", "create", "patch"}},
	{APIGroups: []string{"aws-efs.managed.openshift.io"}, Resources: []string{"sharedvolumepolicies/status"}, ResourceNames: []string{"cluster"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"csidrivers"}, ResourceNames: []string{"efs.csi.aws.com"}, Verbs: []string{"get"}},
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"}, ResourceNames: []string{"efs-sc"}, Verbs: []string{"get"}},
	{APIGroups: []string{"security.openshift.io"}, Resources: []string{"securitycontextconstraints"}, ResourceNames: []string{"efs-csi-scc"}, Verbs: []string{"get"}},
}

// world is a cluster that serves SharedVolumes.
type world struct {
	*cluster.Cluster
	client client.Client // the administrator's
	t      testing.TB
}

var running sync.Once

// served returns the cluster that most tests share, with the controller running. SharedVolumes need no grants
// there: it is a cluster that works as it did with the community operator. Those of TestTenants and of apart
// need them.
func served(t *testing.T) world {
	t.Helper()
	t.Parallel()
	w := newWorld(t, cluster.Shared(t, cluster.Options{}))
	running.Do(func() {
		w.defineAll()
		w.setAccess(v1alpha1.AccessOpen)
		cfg := w.controllerConfig()
		go func() {
			// It outlives the test; the process ends it.
			if err := sharedvolume.Run(context.Background(), cfg, sharedvolume.Options{}); err != nil {
				panic(err)
			}
		}()
	})
	return w
}

func newWorld(t testing.TB, c *cluster.Cluster) world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	api, err := client.New(c.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return world{c, api, t}
}

// in returns the same world for a subtest.
func (w world) in(t testing.TB) world { return world{w.Cluster, w.client, t} }

// defineAll defines SharedVolumes and what belongs to them.
func (w world) defineAll() {
	w.t.Helper()
	files, err := filepath.Glob(definitions + "/*.yaml")
	if err != nil || len(files) != 3 {
		w.t.Fatalf("%s has %q: %v", definitions, files, err)
	}
	for _, file := range files {
		w.define(file)
	}
}

// setAccess writes the policy.
func (w world) setAccess(access v1alpha1.Access) {
	w.t.Helper()
	policy := &v1alpha1.SharedVolumePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}, Spec: v1alpha1.SharedVolumePolicySpec{Access: access}}
	err := w.client.Create(w.t.Context(), policy)
	if apierrors.IsAlreadyExists(err) {
		err = w.client.Patch(w.t.Context(), policy, patch(fmt.Sprintf(`{"spec":{"access":"%s"}}`, access)))
	}
	w.do("set access", err)
}

// define creates or updates a CustomResourceDefinition and waits until it is served as it is.
func (w world) define(file string) {
	w.t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	want := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, want); err != nil {
		w.t.Fatalf("%s: %v", file, err)
	}
	have := &apiextensionsv1.CustomResourceDefinition{}
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(want), have); err == nil {
		have.Spec = want.Spec
		w.do("update", w.client.Update(w.t.Context(), have))
	} else {
		w.do("create", w.client.Create(w.t.Context(), want))
		have = want
	}
	w.eventually("the definition to be served", have, func() error {
		for _, condition := range have.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", have.Status.Conditions)
	})
}

// definition returns the CustomResourceDefinition of SharedVolumes.
func (w world) definition() *apiextensionsv1.CustomResourceDefinition {
	w.t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	w.get(definition, "", "sharedvolumes.aws-efs.managed.openshift.io")
	return definition
}

// controllerConfig returns the configuration of a service account that has the controller's rights.
func (w world) controllerConfig() *rest.Config {
	w.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: controllerAccount}, Rules: rights}
	w.do("create", w.client.Create(w.t.Context(), role))
	w.do("create", w.client.Create(w.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: controllerAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: controllerNamespace, Name: controllerAccount}},
	}))
	cfg := w.ServiceAccountConfig(w.t, controllerNamespace, controllerAccount)
	cfg.QPS = -1
	return cfg
}

// run runs a controller until the returned function is called.
func (w world) run(cfg *rest.Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- sharedvolume.Run(ctx, cfg, sharedvolume.Options{}) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the controller failed: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// do fails the test if something that must work did not.
func (w world) do(what string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", what, err)
	}
}

// eventually waits until an object exists and is as check wants it.
func (w world) eventually(what string, object client.Object, check func() error) {
	w.t.Helper()
	cluster.Eventually(w.t, patience, what, func(ctx context.Context) error {
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		return check()
	})
}

func (w world) get(object client.Object, namespace, name string) {
	w.t.Helper()
	w.do("get", w.client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object))
}

// gone waits until an object of that UID does not exist any more.
func (w world) gone(object client.Object) {
	w.t.Helper()
	uid := object.GetUID()
	cluster.Eventually(w.t, patience, object.GetName()+" to be gone", func(ctx context.Context) error {
		found := object.DeepCopyObject().(client.Object)
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(object), found); client.IgnoreNotFound(err) != nil {
			return err
		} else if err != nil || found.GetUID() != uid {
			return nil
		}
		return fmt.Errorf("it is still there, with finalizers %v", found.GetFinalizers())
	})
}

// usualSpec is that of SharedVolumes in tests that are not about it.
var usualSpec = v1alpha1.SharedVolumeSpec{FileSystemID: "fs-0123456789abcdef0", AccessPointID: "fsap-0123456789abcdef0"}

// newVolume returns a SharedVolume.
func newVolume(namespace, name string) *v1alpha1.SharedVolume {
	return &v1alpha1.SharedVolume{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: usualSpec}
}

// create creates a SharedVolume.
func (w world) create(namespace, name string) *v1alpha1.SharedVolume {
	w.t.Helper()
	sv := newVolume(namespace, name)
	w.do("create", w.client.Create(w.t.Context(), sv))
	return sv
}

// pair is what a SharedVolume is made into.
type pair struct {
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
}

// ready waits until a SharedVolume is Ready and returns its claim and volume, which must then be
// bound to each other, and be the right ones.
func (w world) ready(sv *v1alpha1.SharedVolume) pair {
	w.t.Helper()
	w.eventually("Ready", sv, func() error {
		if sv.Status.Phase != v1alpha1.Ready {
			return fmt.Errorf("it is %s: %s; %v", sv.Status.Phase, sv.Status.Message, sv.Status.Conditions)
		}
		return nil
	})
	p := pair{&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}}
	w.get(p.claim, sv.Namespace, sharedvolume.ClaimName(sv.Name))
	w.get(p.volume, "", p.claim.Spec.VolumeName)
	if p.claim.Status.Phase != corev1.ClaimBound || p.volume.Status.Phase != corev1.VolumeBound || p.volume.Spec.ClaimRef.UID != p.claim.UID {
		w.t.Fatalf("it is Ready, but the claim is %s, the volume %s", p.claim.Status.Phase, p.volume.Status.Phase)
	}
	return p
}

// until waits until a SharedVolume's condition Ready has a reason.
func (w world) until(sv *v1alpha1.SharedVolume, reason string) {
	w.t.Helper()
	w.eventually(reason, sv, func() error {
		for _, condition := range sv.Status.Conditions {
			if condition.Type == v1alpha1.ConditionReady && condition.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("it is %s: %s; %v", sv.Status.Phase, sv.Status.Message, sv.Status.Conditions)
	})
}

// writes returns what a user wrote in a namespace, and to volumes of the given names, since a time:
// verb, resource and status code of each request, refused ones included, in order.
func (w world) writes(user string, since time.Time, namespace string, volumes ...string) []string {
	w.t.Helper()
	var found []string
	for _, event := range w.Audit(w.t) {
		ours := event.Namespace == namespace || event.Resource == "persistentvolumes" && slices.Contains(volumes, event.Name)
		if event.User != user || !ours || event.Received.Before(since) || slices.Contains([]string{"get", "list", "watch"}, event.Verb) {
			continue
		}
		resource := strings.TrimSuffix(event.Resource+"/"+event.Subresource, "/")
		found = append(found, fmt.Sprintf("%s %s %d", event.Verb, resource, event.Code))
	}
	return found
}
