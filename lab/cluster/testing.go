package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// Main is the TestMain of packages that use a cluster. It stops the shared clusters.
func Main(m *testing.M) {
	Init()
	code := m.Run()
	if err := endShared(); err != nil {
		fmt.Fprintln(os.Stderr, "end the shared clusters:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Start returns a new cluster, which is stopped when the test ends.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	c, err := launch(t.Context(), "", options, progressTo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.dumpLogs(t)
		}
		if err := c.started.end(); err != nil {
			t.Errorf("end the cluster: %v", err)
		}
	})
	return c
}

// shared are the clusters that the tests of this process share, by options.
var shared struct {
	sync.Mutex
	clusters map[string]*sharedCluster
}

type sharedCluster struct {
	start   sync.Once
	cluster *Cluster
	err     error
}

// Shared returns the cluster with these options that all tests of a package share. The first test that needs it
// starts it, and Main stops it. Each test uses its own namespaces.
func Shared(t testing.TB, options Options) *Cluster {
	t.Helper()
	key, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	shared.Lock()
	if shared.clusters == nil {
		shared.clusters = map[string]*sharedCluster{}
	}
	entry := shared.clusters[string(key)]
	if entry == nil {
		entry = &sharedCluster{}
		shared.clusters[string(key)] = entry
	}
	shared.Unlock()
	entry.start.Do(func() {
		// Not the test's context: the cluster outlives the test.
		entry.cluster, entry.err = launch(context.Background(), "", options, progressTo(t))
	})
	if entry.err != nil {
		t.Fatal(entry.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			entry.cluster.dumpLogs(t)
		}
	})
	c := *entry.cluster
	if c.audit, err = c.audit.fromNow(); err != nil {
		t.Fatal(err)
	}
	return &c
}

func endShared() error {
	var errs []error
	for _, entry := range shared.clusters {
		if entry.cluster != nil {
			errs = append(errs, entry.cluster.started.end())
		}
	}
	return errors.Join(errs...)
}

// progressTo logs phases, but not each compiled package.
func progressTo(t testing.TB) func(tools.Progress) {
	phase := ""
	return func(p tools.Progress) {
		if p.Phase != phase {
			phase = p.Phase
			t.Logf("cluster: %s", phase)
		}
	}
}

// dumpLogs logs the last lines of each program's log, and the reasons why pods are not ready.
func (c *Cluster) dumpLogs(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c.dumpPods(ctx, t)
	logs, _ := filepath.Glob(filepath.Join(c.Logs(), "*.log"))
	for _, log := range logs {
		t.Logf("--- end of %s\n%s", log, tailOfFile(log, 20))
	}
}

// dumpPods logs each ReplicaSet that lacks pods, each pod that is not ready, and warnings.
func (c *Cluster) dumpPods(ctx context.Context, t testing.TB) {
	sets, pods, warnings := &appsv1.ReplicaSetList{}, &corev1.PodList{}, &corev1.EventList{}
	if err := errors.Join(c.client.List(ctx, sets), c.client.List(ctx, pods), c.client.List(ctx, warnings)); err != nil {
		t.Logf("--- pods: %v", err)
		return
	}
	for _, set := range sets.Items {
		if want := ptr.Deref(set.Spec.Replicas, 1); set.Status.Replicas != want {
			t.Logf("--- ReplicaSet %s/%s has %d of %d pods: %+v", set.Namespace, set.Name, set.Status.Replicas, want, set.Status.Conditions)
		}
	}
	for _, pod := range pods.Items {
		if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
			t.Logf("--- pod %s/%s on node %q is not ready: %s, %+v", pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Status.Phase, pod.Status.ContainerStatuses)
		}
	}
	for _, event := range warnings.Items {
		if event.Type == corev1.EventTypeWarning {
			t.Logf("--- warning about %s %s/%s: %s: %s", event.InvolvedObject.Kind, event.InvolvedObject.Namespace, event.InvolvedObject.Name, event.Reason, event.Message)
		}
	}
}

// Namespace creates a namespace for one test, ready for pods, and returns its name. It is deleted when the test ends,
// without waiting.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: namespacePrefix(t.Name())}}
	if err := c.client.Create(t.Context(), namespace); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	if err := awaitServiceAccount(t.Context(), c.client, namespace.Name, "default"); err != nil {
		t.Fatal(err) // pods cannot be created in it
	}
	t.Cleanup(func() {
		if err := c.client.Delete(context.Background(), namespace); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete the namespace %s: %v", namespace.Name, err)
		}
	})
	return namespace.Name
}

var notInNames = regexp.MustCompile("[^a-z0-9]+")

// namespacePrefix turns a test's name into the prefix of a namespace's name, with room for the random suffix.
func namespacePrefix(test string) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(test), "-"), "-")
	return name[:min(len(name), 50)] + "-"
}

// ServiceAccountConfig returns the client configuration of a service account, and creates the account if necessary.
// It has a real token, and RBAC decides about its permissions.
func (c *Cluster) ServiceAccountConfig(t testing.TB, namespace, name string) *rest.Config {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.client.Create(t.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("create the service account %s/%s: %v", namespace, name, err)
	}
	var token authenticationv1.TokenRequest
	if err := c.client.SubResource("token").Create(t.Context(), account, &token); err != nil {
		t.Fatalf("request a token of the service account %s/%s: %v", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token.Status.Token
	return config
}

// WriteKubeconfig writes ServiceAccountConfig's configuration of a service account to a kubeconfig file.
func (c *Cluster) WriteKubeconfig(t testing.TB, namespace, name, file string) {
	t.Helper()
	account := c.ServiceAccountConfig(t, namespace, name)
	config, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for user := range config.AuthInfos {
		config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: account.BearerToken}
	}
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until check returns nil, and fails the test with check's last error if that takes longer than
// limit. Tests should wait only in this way. what completes the sentence "waited for …".
func Eventually(t testing.TB, limit time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	// Not the test's context, which has already ended in a cleanup.
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := Until(ctx, what, check); err != nil {
		t.Fatal(err)
	}
}

// Await is Eventually for one object, which it reads before each check.
func (c *Cluster) Await(t testing.TB, limit time.Duration, what string, object client.Object, check func() error) {
	t.Helper()
	Eventually(t, limit, what, func(ctx context.Context) error {
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		return check()
	})
}

// Gone returns a check for Eventually that an object is gone.
func (c *Cluster) Gone(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		err := c.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("%T %s still exists; finalizers %q", object, client.ObjectKeyFromObject(object), object.GetFinalizers())
	}
}

// PointTo makes a Subscription wait for an InstallPlan in its namespace that installs a version, as OLM does before
// the Subscription shows that the InstallPlan is pending.
func (c *Cluster) PointTo(ctx context.Context, subscription *v1alpha1.Subscription, version string, plan *v1alpha1.InstallPlan) error {
	status := &subscription.Status
	status.State, status.CurrentCSV, status.LastUpdated = v1alpha1.SubscriptionStateUpgradePending, version, metav1.Now()
	status.InstallPlanRef = &corev1.ObjectReference{Namespace: subscription.Namespace, Name: plan.Name, UID: plan.UID}
	status.RemoveConditions(v1alpha1.SubscriptionInstallPlanPending)
	return c.client.Status().Update(ctx, subscription)
}
