package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	olmv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

func TestMain(m *testing.M) {
	if role, asked := os.LookupEnv(starterVariable); asked {
		starterMain(role)
	}
	Main(m)
}

// waitLimit is the time limit for conditions that usually become true in a moment.
const waitLimit = 2 * time.Minute

func TestServiceAccountIsBoundByRBAC(t *testing.T) {
	c := Shared(t, Options{})
	namespace := c.Namespace(t)
	as := clientOf(t, c.ServiceAccountConfig(t, namespace, "somebody"))

	var me authenticationv1.SelfSubjectReview
	require.NoError(t, as.Create(t.Context(), &me))
	require.Equal(t, "system:serviceaccount:"+namespace+":somebody", me.Status.UserInfo.Username, "the user of the token")
	err := as.List(t.Context(), &corev1.SecretList{}, client.InNamespace(namespace))
	require.Truef(t, apierrors.IsForbidden(err), "list secrets without any permission: got %v, want it forbidden", err)
	bind(t, c, namespace, "somebody", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}})
	Eventually(t, waitLimit, "the permission to list secrets", func(ctx context.Context) error {
		return as.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace))
	})
	err = as.List(t.Context(), &corev1.SecretList{})
	require.Truef(t, apierrors.IsForbidden(err), "list secrets of all namespaces: got %v, want it forbidden", err)

	// Both requests are in the audit log by now.
	var codes []int32
	for _, event := range c.AuditOf(t, Requests{User: me.Status.UserInfo.Username}) {
		if event.Resource == "secrets" && event.Verb == "list" {
			codes = append(codes, event.Code)
		}
	}
	if !slices.Contains(codes, 403) || !slices.Contains(codes, 200) {
		t.Errorf("codes of the secret lists in the audit log: %v, want both 403 and 200", codes)
	}
}

// TestOwnersTakeThePermissionToDelete: as on OpenShift, the permission to change an object does not include changing
// its owners.
func TestOwnersTakeThePermissionToDelete(t *testing.T) {
	c := Shared(t, Options{})
	namespace := c.Namespace(t)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "object"}}
	require.NoError(t, c.Client().Create(t.Context(), object))
	as := clientOf(t, c.ServiceAccountConfig(t, namespace, "somebody"))
	bind(t, c, namespace, "somebody", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"patch"}})
	patch := func(ctx context.Context, body string) error {
		return as.Patch(ctx, object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body)))
	}
	Eventually(t, waitLimit, "the permission to change the object", func(ctx context.Context) error { return patch(ctx, `{"data":{"a":"b"}}`) })
	err := patch(t.Context(), `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"7c9e6679-7425-40de-944b-e07fc1f90ae7"}]}}`)
	assert.Truef(t, apierrors.IsForbidden(err), "add an owner to the object: got %v, want it forbidden", err)
}

func TestAuditShowsWatchesThatGoOn(t *testing.T) {
	c := Shared(t, Options{})
	namespace := c.Namespace(t)
	api, err := client.NewWithWatch(c.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	watch, err := api.Watch(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(namespace))
	require.NoError(t, err)
	defer watch.Stop()
	watches := func() (events []AuditEvent) {
		for _, event := range c.Audit(t) {
			if event.Verb == "watch" && event.Resource == "configmaps" && event.Namespace == namespace {
				events = append(events, event)
			}
		}
		return events
	}
	if events := watches(); len(events) != 1 || events[0].User != adminUser.name {
		t.Fatalf("watches of config maps in the audit log: %+v, want the one that still runs", events)
	}
	watch.Stop()
	Eventually(t, waitLimit, "the end of the watch in the log", func(context.Context) error {
		events := watches()
		require.Len(t, events, 1, "watches in the audit log")
		if !events[0].Answered.After(events[0].Received.Add(time.Microsecond)) {
			return errors.New("it has not ended")
		}
		return nil
	})
}

func TestControllerManagerBindsVolumes(t *testing.T) {
	c := Shared(t, Options{})
	namespace := c.Namespace(t)
	class := ""
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               size,
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "efs.csi.aws.com", VolumeHandle: "fs-1"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: "claim"},
		},
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "claim"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: volume.Spec.AccessModes, VolumeName: volume.Name, StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	for _, object := range []client.Object{volume, claim} {
		require.NoError(t, c.Client().Create(t.Context(), object))
	}
	t.Cleanup(func() { c.Client().Delete(context.Background(), volume) })
	Eventually(t, waitLimit, "the claim to be bound", func(ctx context.Context) error {
		if err := c.Client().Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("its phase is %q", claim.Status.Phase)
		}
		return nil
	})
}

func TestNamespaceDeletionCompletes(t *testing.T) {
	c := Shared(t, Options{})
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "short-lived-"}}
	require.NoError(t, c.Client().Create(t.Context(), namespace))
	inside := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "inside"}}
	for _, err := range []error{c.Client().Create(t.Context(), inside), c.Client().Delete(t.Context(), namespace)} {
		require.NoError(t, err)
	}
	Eventually(t, waitLimit, "the namespace to be gone", c.Gone(namespace))
}

// The garbage collector must know the OpenShift types from the start.
func TestGarbageCollectorFollowsOpenShiftOwners(t *testing.T) {
	c := Shared(t, Options{})
	namespace := c.Namespace(t)
	owner := &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: string(operatorv1.AWSEFSCSIDriver)},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
	}
	require.NoError(t, c.Client().Create(t.Context(), owner))
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owned", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: operatorv1.GroupVersion.String(), Kind: "ClusterCSIDriver", Name: owner.Name, UID: owner.UID,
	}}}}
	for _, err := range []error{c.Client().Create(t.Context(), owned), c.Client().Delete(t.Context(), owner)} {
		require.NoError(t, err)
	}
	Eventually(t, waitLimit, "the owned object to be collected", c.Gone(owned))
}

func TestOpenShiftIsThere(t *testing.T) {
	c := Shared(t, Options{})
	var infrastructure configv1.Infrastructure
	var version configv1.ClusterVersion
	var gates configv1.FeatureGate
	for object, name := range map[client.Object]string{&infrastructure: "cluster", &version: "version", &gates: "cluster"} {
		require.NoError(t, c.Client().Get(t.Context(), client.ObjectKey{Name: name}, object))
	}
	if got := infrastructure.Status; got.PlatformStatus == nil || got.PlatformStatus.Type != configv1.AWSPlatformType || got.InfrastructureName != InfrastructureName || got.ControlPlaneTopology != configv1.HighlyAvailableTopologyMode {
		t.Errorf("status of the infrastructure: %+v", got)
	}
	// Operators look up the feature gates of the cluster version's desired version.
	details := gates.Status.FeatureGates
	if len(details) != 1 || details[0].Version != version.Status.Desired.Version || len(details[0].Enabled) == 0 {
		t.Errorf("feature gates: %+v, want those of version %s", details, version.Status.Desired.Version)
	}
	// The real schemas reject the same objects as OpenShift.
	unknown := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "unknown.example.com"}}
	err := c.Client().Create(t.Context(), unknown)
	assert.Truef(t, apierrors.IsInvalid(err), "create a ClusterCSIDriver of an unknown driver: got %v, want it invalid", err)
}

func TestAPIServerServesWhatOperatorsAskFor(t *testing.T) {
	c := Shared(t, Options{})
	info, err := discovery.NewDiscoveryClientForConfigOrDie(c.Config()).ServerVersion()
	require.NoError(t, err)
	pins, err := tools.ToolPins()
	require.NoError(t, err)
	if pinned, err := pins.Version("k8s.io/kubernetes"); err != nil || info.GitVersion != pinned {
		t.Errorf("the API server says it is %s, but %s is pinned (%v)", info.GitVersion, pinned, err)
	}
	// Delegated authentication reads both CAs from here.
	var authentication corev1.ConfigMap
	key := client.ObjectKey{Namespace: "kube-system", Name: "extension-apiserver-authentication"}
	require.NoError(t, c.Client().Get(t.Context(), key, &authentication))
	for _, authority := range []string{"client-ca-file", "requestheader-client-ca-file"} {
		assert.NotEmptyf(t, authentication.Data[authority], "config map %s has no %s", key, authority)
	}
}

func TestKubectl(t *testing.T) {
	c := Shared(t, Options{})
	out, err := c.Kubectl(t.Context(), "auth", "whoami", "-o", "json").Output()
	require.NoError(t, err)
	var me authenticationv1.SelfSubjectReview
	if err := json.Unmarshal(out, &me); err != nil || me.Status.UserInfo.Username != adminUser.name {
		t.Errorf("kubectl auth whoami says %s (%v), want %s", out, err, adminUser.name)
	}
}

// Two clusters at the same time, the second with OLM, are isolated.
func TestTwoClusters(t *testing.T) {
	one := Shared(t, Options{})
	t.Setenv("CI", "true") // OLM would panic
	two := Start(t, Options{OLM: true, Durable: true})
	for pid, name := range processesOf(t, two.Dir()) {
		environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if name == "olm" && (err != nil || bytes.Contains(environment, []byte("\x00CI="))) {
			t.Errorf("OLM runs with CI in its environment (%v)", err)
		}
	}
	namespace := one.Namespace(t)
	err := two.Client().Get(t.Context(), client.ObjectKey{Name: namespace}, &corev1.Namespace{})
	assert.Truef(t, apierrors.IsNotFound(err), "get the first cluster's namespace from the second: %v, want it not found", err)
	// OLM reports a Subscription to a missing catalog, and only the second cluster's OLM does.
	subscription := &olmv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: "nothing"},
		Spec:       &olmv1alpha1.SubscriptionSpec{CatalogSource: "none", CatalogSourceNamespace: CatalogNamespace, Package: "nothing"},
	}
	require.NoError(t, two.Client().Create(t.Context(), subscription))
	Eventually(t, waitLimit, "OLM to report the missing catalog", func(ctx context.Context) error {
		if err := two.Client().Get(ctx, client.ObjectKeyFromObject(subscription), subscription); err != nil {
			return err
		}
		if condition := subscription.Status.GetCondition(olmv1alpha1.SubscriptionCatalogSourcesUnhealthy); condition.Status != corev1.ConditionTrue {
			return fmt.Errorf("conditions: %+v", subscription.Status.Conditions)
		}
		return nil
	})
}

// BenchmarkStart measures the time to start a cluster and to stop it, and the CPU time of all its processes for both,
// which hardly depends on other work on the machine.
func BenchmarkStart(b *testing.B) {
	for name, options := range map[string]Options{"plain": {}, "olm": {OLM: true}} {
		b.Run(name, func(b *testing.B) {
			var starting, ending, processor time.Duration
			for b.Loop() {
				began := time.Now()
				c, err := launch(b.Context(), "", options, nil)
				require.NoError(b, err)
				ready := time.Now()
				require.NoError(b, c.started.end())
				starting, ending = starting+ready.Sub(began), ending+time.Since(ready)
				processor += c.started.cmd.ProcessState.UserTime() + c.started.cmd.ProcessState.SystemTime()
			}
			b.ReportMetric(starting.Seconds()/float64(b.N), "s-start")
			b.ReportMetric(ending.Seconds()/float64(b.N), "s-end")
			b.ReportMetric(processor.Seconds()/float64(b.N), "s-cpu")
		})
	}
}

func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	api, err := newClient(config)
	require.NoError(t, err)
	return api
}

// bind gives a service account a permission in its namespace.
func bind(t *testing.T, c *Cluster, namespace, account string, rule rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: account}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
		},
	} {
		require.NoError(t, c.Client().Create(t.Context(), object))
	}
}
