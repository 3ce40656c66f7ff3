// Package clusterstorage proves the cluster storage operator with the operators of the drivers that it runs: real programs,
// in pods that its own Deployments make, with the permissions that it gives them.
package clusterstorage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/cloudcredential"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/openstack"
	"github.com/berth-csi/berth/lab/vsphere"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/test/page"
	"github.com/berth-csi/berth/test/release"
	"github.com/berth-csi/berth/test/walk"
)

func TestMain(m *testing.M) {
	cluster.Init()
	// Tests wait for controllers most of the time.
	if err := flag.Set("test.parallel", "2"); err != nil {
		panic(err)
	}
	cluster.Main(m)
}

const (
	limit   = 6 * time.Minute // for each step
	version = "4.22.0"
)

// environment is a cluster of a platform.
type environment struct {
	*cluster.Cluster
	t       testing.TB
	drivers []drivers.Driver // of the platform
	cloud   *openstack.Cloud
}

// platforms returns the platforms that need drivers.
func platforms() []configv1.PlatformType {
	var found []configv1.PlatformType
	for _, d := range clusterstorage.OfPlatforms(registry.All()) {
		if !slices.Contains(found, d.ClusterStorage.Platform) {
			found = append(found, d.ClusterStorage.Platform)
		}
	}
	return found
}

// driversOf returns the drivers of a platform.
func driversOf(platform configv1.PlatformType) []drivers.Driver {
	return slices.DeleteFunc(clusterstorage.OfPlatforms(registry.All()), func(d drivers.Driver) bool { return d.ClusterStorage.Platform != platform })
}

// platformStatuses are the statuses that installers write about their platforms.
var platformStatuses = map[configv1.PlatformType]configv1.PlatformStatus{
	configv1.AWSPlatformType:   {AWS: &configv1.AWSPlatformStatus{Region: "us-east-1"}},
	configv1.AzurePlatformType: {Azure: &configv1.AzurePlatformStatus{ResourceGroupName: "berth-x7k2p-rg", CloudName: configv1.AzurePublicCloud}},
	configv1.GCPPlatformType:   {GCP: &configv1.GCPPlatformStatus{ProjectID: "berth", Region: "us-central1"}},
}

// cloudConfigs are the configurations of clouds that installers write.
var cloudConfigs = map[configv1.PlatformType]string{
	configv1.AzurePlatformType: `{"cloud":"AzurePublicCloud","tenantId":"t","subscriptionId":"s","resourceGroup":"berth-x7k2p-rg","location":"westeurope"}`,
}

// newEnvironment starts a cluster of a platform, without the cluster storage operator.
func newEnvironment(t testing.TB, platform configv1.PlatformType, options cluster.Options) *environment {
	t.Helper()
	w := &environment{t: t, Cluster: cluster.Start(t, options), drivers: driversOf(platform)}
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	w.get(infrastructure)
	vCenter := vsphere.Start(t)
	w.cloud = openstack.Start(t, "default")
	if platform == configv1.VSpherePlatformType {
		infrastructure.Spec.PlatformSpec = configv1.PlatformSpec{Type: platform, VSphere: vsphere.Spec(t, vCenter.ListensAt())}
		require.NoError(t, w.Client().Update(t.Context(), infrastructure))
		w.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.CloudConfigNamespace, Name: drivers.CloudConfigName},
			Data: map[string]string{drivers.CloudConfigKey: vsphere.CloudConfig(t, vCenter.ListensAt())}})
	}
	status := platformStatuses[platform]
	status.Type = platform
	infrastructure.Status.PlatformStatus = &status
	require.NoError(t, w.Client().Status().Update(t.Context(), infrastructure))
	for name, data := range map[string]map[string][]byte{
		cloudcredential.RootOpenStack: {"clouds.yaml": w.cloud.CloudsYAML()},
		cloudcredential.RootGCP:       {"service_account.json": []byte("{}")},
		cloudcredential.RootAzure:     {"azure_client_id": []byte("berth"), "azure_client_secret": []byte("secret")},
		cloudcredential.RootVSphere:   vsphere.Credentials(vCenter.ListensAt()),
	} {
		w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cloudcredential.RootNamespace, Name: name}, Data: data})
	}
	if config := cloudConfigs[platform]; config != "" {
		w.create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: drivers.CloudConfigNamespace, Name: drivers.CloudConfigName},
			Data:       map[string]string{drivers.CloudConfigKey: config},
		})
	}
	if platform == configv1.VSpherePlatformType { // its driver is optional
		w.reader().Follow(t, platformsPage, "## vSphere")
	}
	return w
}

const platformsPage = "operate/platforms.md"

// reader is an administrator who follows pages, with berth.
func (w *environment) reader() *page.Reader {
	w.t.Helper()
	built, err := tools.Programs(w.t.Context(), "./cmd/berth")
	require.NoError(w.t, err)
	return &page.Reader{
		Docs: "../../docs", Kubectl: w.Tools().Path("kubectl"), Kubeconfig: w.Kubeconfig(), Berth: built.Path("berth"),
		Varies: regexp.MustCompile(`(?m)^ *[0-9.]+s |install-[a-z0-9]{5}`), Limit: limit, Dir: w.t.TempDir(),
	}
}

// programs are the images that a cluster needs to run all operators, for cluster.Options.
func programs(t testing.TB) map[string]string {
	t.Helper()
	built, err := tools.Programs(t.Context(), "./cmd/berth-operator")
	require.NoError(t, err)
	return map[string]string{release.OperatorImage: built.Path("berth-operator")}
}

// install applies a release.
func (w *environment) install(payload release.Payload) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	require.NoError(w.t, payload.Apply(ctx, w.Client(), registry.All()))
}

func (w *environment) get(object client.Object) {
	w.t.Helper()
	require.NoError(w.t, w.Client().Get(w.t.Context(), client.ObjectKeyFromObject(object), object))
}

func (w *environment) create(object client.Object) {
	w.t.Helper()
	require.NoErrorf(w.t, w.Client().Create(w.t.Context(), object), "create %T %s", object, object.GetName())
}

// accounts are the accounts of the cluster storage operator and of the drivers' operators.
func (w *environment) accounts() []walk.Account {
	accounts := []walk.Account{w.account()}
	for _, d := range w.drivers {
		accounts = append(accounts, w.accountOf(d))
	}
	return accounts
}

// account is the account of the cluster storage operator.
func (w *environment) account() walk.Account {
	return walk.Account{Cluster: w.Cluster, Namespace: clusterstorage.Namespace, Name: clusterstorage.Name}
}

// accountOf returns the account of a driver's operator.
func (w *environment) accountOf(d drivers.Driver) walk.Account {
	return walk.Account{Cluster: w.Cluster, Namespace: drivers.ClusterStorageNamespace, Name: d.Operator.Name}
}

// notKept are the resources of requests that store nothing, of leases and of events.
var notKept = []string{"tokenreviews", "subjectaccessreviews", "leases", "events"}

// writes returns our operators' writes since a time, in the order of the responses.
func (w *environment) writes(since time.Time) []cluster.AuditEvent {
	w.t.Helper()
	var found []cluster.AuditEvent
	for _, account := range w.accounts() {
		for _, event := range account.Requests(w.t) {
			if !event.Received.Before(since) && !slices.Contains([]string{"get", "list", "watch"}, event.Verb) && !slices.Contains(notKept, event.Resource) {
				found = append(found, event)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b cluster.AuditEvent) int { return a.Answered.Compare(b.Answered) })
	return found
}

// idlePeriod is how long settled operators write nothing.
const idlePeriod = 5 * time.Second

// awaitRest waits until our operators have written nothing for a while. Operators that fight never rest.
func (w *environment) awaitRest() {
	w.t.Helper()
	began := time.Now()
	cluster.Eventually(w.t, limit, "the operators to rest", func(context.Context) error {
		if writes := w.writes(time.Now().Add(-idlePeriod)); len(writes) > 0 {
			return fmt.Errorf("in the last %s they wrote: %s", idlePeriod, list(writes))
		}
		if time.Since(began) < idlePeriod {
			return errors.New("they have not rested for long enough")
		}
		return nil
	})
}

// list returns requests as a text.
func list(events []cluster.AuditEvent) string {
	var lines []string
	for _, event := range events {
		_, name, _ := strings.Cut(event.User, ":openshift-")
		lines = append(lines, fmt.Sprintf("\n  %s: %s %s: %d", name, event.Verb, event.URI, event.Code))
	}
	return strings.Join(lines, "")
}

// made returns the objects that our operators have created and that exist.
func (w *environment) made() []*unstructured.Unstructured {
	w.t.Helper()
	type key struct{ group, resource, namespace, name string }
	seen := map[key]bool{}
	var found []*unstructured.Unstructured
	for _, event := range w.writes(time.Time{}) {
		at := key{event.Group, event.Resource, event.Namespace, event.Name}
		if event.Code != 201 || seen[at] || event.Name == "" || strings.Contains(event.URI, "dryRun=All") {
			continue
		}
		seen[at] = true
		kind, err := w.Client().RESTMapper().KindFor(schema.GroupVersionResource{Group: event.Group, Resource: event.Resource})
		require.NoError(w.t, err)
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		object.SetNamespace(event.Namespace)
		object.SetName(event.Name)
		if err := w.Client().Get(w.t.Context(), client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
			w.t.Fatal(err)
		} else if err == nil {
			found = append(found, object)
		}
	}
	return found
}

// checkForbidden fails the test if a request of ours was forbidden.
func (w *environment) checkForbidden() {
	w.t.Helper()
	w.checkRefusals(walk.Discovers)
}

// checkRefusals fails the test if a request of ours was forbidden, except requests that others would have had to
// permit.
func (w *environment) checkRefusals(byOthers func(cluster.AuditEvent) bool) {
	w.t.Helper()
	for _, account := range w.accounts() {
		walk.CheckRefusals(w.t, account.Requests(w.t), byOthers)
	}
}

// clusterOperator returns the ClusterOperator.
func (w *environment) clusterOperator(ctx context.Context) (*configv1.ClusterOperator, error) {
	operator := &configv1.ClusterOperator{}
	err := w.Client().Get(ctx, client.ObjectKey{Name: clusterstorage.ClusterOperatorName}, operator)
	return operator, err
}

// settled are the conditions of storage that is as it should be.
var settled = map[configv1.ClusterStatusConditionType]configv1.ConditionStatus{
	configv1.OperatorAvailable: configv1.ConditionTrue, configv1.OperatorProgressing: configv1.ConditionFalse,
	configv1.OperatorDegraded: configv1.ConditionFalse, configv1.OperatorUpgradeable: configv1.ConditionTrue,
}

// awaitSettled waits until the ClusterOperator reports that all is well and runs at a version.
func (w *environment) awaitSettled(version string) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "storage to settle at version "+version, func(ctx context.Context) error {
		operator, err := w.clusterOperator(ctx)
		if err != nil {
			return err
		}
		for _, c := range operator.Status.Conditions {
			if want := settled[c.Type]; c.Status != want {
				return fmt.Errorf("%s is %s (%s: %s), want %s%s", c.Type, c.Status, c.Reason, c.Message, want, w.conditions(ctx))
			}
		}
		versions := map[string]string{}
		for _, v := range operator.Status.Versions {
			versions[v.Name] = v.Version
		}
		want := []string{"operator"}
		for _, d := range w.drivers {
			want = append(want, d.ConditionPrefix+"CSIDriverOperator")
		}
		for _, name := range want {
			if versions[name] != version {
				return fmt.Errorf("the version of %s is %q, want %s%s", name, versions[name], version, w.conditions(ctx))
			}
		}
		if len(operator.Status.Conditions) != len(settled) || len(versions) != len(want) {
			return fmt.Errorf("there are the conditions %v and the versions %v, want %v and %q", operator.Status.Conditions, versions, settled, want)
		}
		return nil
	})
}

// conditions returns the conditions of the drivers that are not well, for messages.
func (w *environment) conditions(ctx context.Context) string {
	var text strings.Builder
	for _, d := range w.drivers {
		custom := &operatorv1.ClusterCSIDriver{}
		if err := w.Client().Get(ctx, client.ObjectKey{Name: d.CSIName}, custom); err != nil {
			fmt.Fprintf(&text, "\n  %v", err)
			continue
		}
		fmt.Fprintf(&text, "\n  %s: version %q", d.CSIName, custom.Status.Version)
		for _, c := range custom.Status.Conditions {
			healthy := operatorv1.ConditionFalse
			if strings.HasSuffix(c.Type, "Available") || strings.HasSuffix(c.Type, "Upgradeable") {
				healthy = operatorv1.ConditionTrue
			}
			if c.Status != healthy {
				fmt.Fprintf(&text, ", %s=%s (%s: %s)", c.Type, c.Status, c.Reason, c.Message)
			}
		}
	}
	return text.String()
}
