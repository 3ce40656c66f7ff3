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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

func TestMain(m *testing.M) {
	cluster.AddToScheme(v1alpha1.AddToScheme)
	ctrllog.SetLogger(klog.Background())
	cluster.Main(m)
}

const (
	// waitLimit is how long a cluster on a busy machine may take to react.
	waitLimit = 5 * time.Minute
	// definitionFile is the CustomResourceDefinition of SharedVolumes that is generated from the API types.
	definitionFile = definitions + "/aws-efs.managed.openshift.io_sharedvolumes.yaml"
	definitions    = "../drivers/efs/assets/crd"
	// controllerUser runs the controller in the tests, with only the permissions that it needs.
	controllerNamespace, controllerAccount = "default", "sharedvolume-controller"
	controllerUser                         = "system:serviceaccount:" + controllerNamespace + ":" + controllerAccount
)

// rights are the permissions of the controller.
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
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"csidrivers"}, ResourceNames: []string{"efs.csi.aws.com"}, Verbs: []string{"get", "patch"}},
	{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"}, ResourceNames: []string{"efs-sc"}, Verbs: []string{"get", "patch"}},
	{APIGroups: []string{"security.openshift.io"}, Resources: []string{"securitycontextconstraints"}, ResourceNames: []string{"efs-csi-scc"}, Verbs: []string{"get", "patch"}},
}

// testEnv is a cluster that serves SharedVolumes.
type testEnv struct {
	*cluster.Cluster
	client client.Client // an administrator's
	t      testing.TB
}

var running sync.Once

// served returns the cluster that most tests share, with the controller running. Its SharedVolumes require no grants,
// as in a cluster that the community operator has managed. SharedVolumes of TestTenants and isolated do.
func served(t *testing.T) testEnv {
	t.Helper()
	t.Parallel()
	env := newTestEnv(t, cluster.Shared(t, cluster.Options{}))
	running.Do(func() {
		env.defineAll()
		env.setAccess(v1alpha1.AccessOpen)
		cfg := env.controllerConfig()
		go func() {
			// It outlives the test, and ends with the process.
			if err := sharedvolume.Run(context.Background(), cfg, sharedvolume.Options{}); err != nil {
				panic(err)
			}
		}()
	})
	return env
}

func newTestEnv(t testing.TB, c *cluster.Cluster) testEnv {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(scheme))
	}
	api, err := client.New(c.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	return testEnv{c, api, t}
}

// in returns the same testEnv for a subtest.
func (env testEnv) in(t testing.TB) testEnv { return testEnv{env.Cluster, env.client, t} }

// defineAll creates the CRDs.
func (env testEnv) defineAll() {
	env.t.Helper()
	files, err := filepath.Glob(definitions + "/*.yaml")
	require.NoError(env.t, err)
	require.Lenf(env.t, files, 3, "files of %s", definitions)
	for _, file := range files {
		env.define(file)
	}
}

// setAccess writes the policy.
func (env testEnv) setAccess(access v1alpha1.Access) {
	env.t.Helper()
	policy := &v1alpha1.SharedVolumePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}, Spec: v1alpha1.SharedVolumePolicySpec{Access: access}}
	err := env.client.Create(env.t.Context(), policy)
	if apierrors.IsAlreadyExists(err) {
		err = env.client.Patch(env.t.Context(), policy, patch(fmt.Sprintf(`{"spec":{"access":"%s"}}`, access)))
	}
	env.do("set access", err)
}

// define creates or updates a CustomResourceDefinition and waits until it is served as it is.
func (env testEnv) define(file string) {
	env.t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(env.t, err)
	want := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(env.t, yaml.UnmarshalStrict(raw, want), file)
	have := &apiextensionsv1.CustomResourceDefinition{}
	if err := env.client.Get(env.t.Context(), client.ObjectKeyFromObject(want), have); err == nil {
		have.Spec = want.Spec
		env.do("update", env.client.Update(env.t.Context(), have))
	} else {
		env.do("create", env.client.Create(env.t.Context(), want))
		have = want
	}
	env.eventually("the definition to be served", have, func() error {
		for _, condition := range have.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", have.Status.Conditions)
	})
}

// definition returns the CustomResourceDefinition of SharedVolumes.
func (env testEnv) definition() *apiextensionsv1.CustomResourceDefinition {
	env.t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	env.get(definition, "", "sharedvolumes.aws-efs.managed.openshift.io")
	return definition
}

// controllerConfig returns the configuration of a service account that has the controller's rights.
func (env testEnv) controllerConfig() *rest.Config {
	env.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: controllerAccount}, Rules: rights}
	env.do("create", env.client.Create(env.t.Context(), role))
	env.do("create", env.client.Create(env.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: controllerAccount},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: controllerNamespace, Name: controllerAccount}},
	}))
	cfg := env.ServiceAccountConfig(env.t, controllerNamespace, controllerAccount)
	cfg.QPS = -1
	return cfg
}

// run runs a controller until the returned function is called.
func (env testEnv) run(cfg *rest.Config) (stop func()) {
	return env.runWith(cfg, sharedvolume.Options{})
}

func (env testEnv) runWith(cfg *rest.Config, options sharedvolume.Options) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- sharedvolume.Run(ctx, cfg, options) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(env.t, <-done, "the controller failed")
	})
	env.t.Cleanup(stop)
	return stop
}

// do fails the test if something that must work did not.
func (env testEnv) do(what string, err error) {
	env.t.Helper()
	require.NoError(env.t, err, what)
}

// eventually waits until an object exists and is as check wants it.
func (env testEnv) eventually(what string, object client.Object, check func() error) {
	env.t.Helper()
	cluster.Eventually(env.t, waitLimit, what, func(ctx context.Context) error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		return check()
	})
}

func (env testEnv) get(object client.Object, namespace, name string) {
	env.t.Helper()
	env.do("get", env.client.Get(env.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object))
}

// gone waits until an object of that UID does not exist any more.
func (env testEnv) gone(object client.Object) {
	env.t.Helper()
	uid := object.GetUID()
	cluster.Eventually(env.t, waitLimit, object.GetName()+" to be gone", func(ctx context.Context) error {
		found := object.DeepCopyObject().(client.Object)
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(object), found); client.IgnoreNotFound(err) != nil {
			return err
		} else if err != nil || found.GetUID() != uid {
			return nil
		}
		return fmt.Errorf("it still exists, with finalizers %v", found.GetFinalizers())
	})
}

// usualSpec is the spec of SharedVolumes in tests about something else.
var usualSpec = v1alpha1.SharedVolumeSpec{FileSystemID: "fs-0123456789abcdef0", AccessPointID: "fsap-0123456789abcdef0"}

// newVolume returns a SharedVolume.
func newVolume(namespace, name string) *v1alpha1.SharedVolume {
	return &v1alpha1.SharedVolume{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: usualSpec}
}

// create creates a SharedVolume.
func (env testEnv) create(namespace, name string) *v1alpha1.SharedVolume {
	env.t.Helper()
	sv := newVolume(namespace, name)
	env.do("create", env.client.Create(env.t.Context(), sv))
	return sv
}

// pair is a SharedVolume's claim and volume.
type pair struct {
	claim  *corev1.PersistentVolumeClaim
	volume *corev1.PersistentVolume
}

// ready waits until a SharedVolume is Ready and returns its claim and volume, which must then be
// bound to each other, and be the right ones.
func (env testEnv) ready(sv *v1alpha1.SharedVolume) pair {
	env.t.Helper()
	env.eventually("Ready", sv, func() error {
		if sv.Status.Phase != v1alpha1.Ready {
			return fmt.Errorf("it is %s: %s; %v", sv.Status.Phase, sv.Status.Message, sv.Status.Conditions)
		}
		return nil
	})
	p := pair{&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}}
	env.get(p.claim, sv.Namespace, sharedvolume.ClaimName(sv.Name))
	env.get(p.volume, "", p.claim.Spec.VolumeName)
	if p.claim.Status.Phase != corev1.ClaimBound || p.volume.Status.Phase != corev1.VolumeBound || p.volume.Spec.ClaimRef.UID != p.claim.UID {
		env.t.Fatalf("it is Ready, but the claim is %s, the volume %s", p.claim.Status.Phase, p.volume.Status.Phase)
	}
	return p
}

// until waits until a SharedVolume's condition Ready has a reason.
func (env testEnv) until(sv *v1alpha1.SharedVolume, reason string) {
	env.t.Helper()
	env.eventually(reason, sv, func() error {
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
func (env testEnv) writes(user string, since time.Time, namespace string, volumes ...string) []string {
	env.t.Helper()
	var found []string
	for _, event := range env.AuditOf(env.t, cluster.Requests{User: user}) {
		ours := event.Namespace == namespace || event.Resource == "persistentvolumes" && slices.Contains(volumes, event.Name)
		if !ours || event.Received.Before(since) || slices.Contains([]string{"get", "list", "watch"}, event.Verb) {
			continue
		}
		resource := strings.TrimSuffix(event.Resource+"/"+event.Subresource, "/")
		found = append(found, fmt.Sprintf("%s %s %d", event.Verb, resource, event.Code))
	}
	return found
}
