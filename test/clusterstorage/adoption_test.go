package clusterstorage

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/adoption"
	"github.com/berth-csi/berth/test/catalogs/serving"
	"github.com/berth-csi/berth/test/handover"
	"github.com/berth-csi/berth/test/openshift45"
	"github.com/berth-csi/berth/test/release"
	"github.com/berth-csi/berth/test/walk"
)

// A former is a driver whose operator OLM runs, in a cluster of its platform.
type former struct {
	*environment
	driver       drivers.Driver
	namespace    string // of the operator
	subscription *v1alpha1.Subscription
	version      string // the ClusterServiceVersion
	operator     string // the Deployment
	own          bool   // ours, and not OpenShift 4.5's
	unoperated   bool   // no operator of ours runs afterwards
}

// succeedable returns the drivers that OLM may have run.
func succeedable() []drivers.Driver {
	return slices.DeleteFunc(registry.All(), func(d drivers.Driver) bool { return len(d.Predecessors()) == 0 })
}

// newFormer starts a cluster where OLM has installed OpenShift 4.5's operator of a driver, which has installed the
// driver.
func newFormer(t testing.TB, d drivers.Driver, images map[string]string) *former {
	t.Helper()
	catalog := openshift45.Catalog(t, d) // skips without it
	f := &former{
		environment: newEnvironment(t, d.ClusterStorage.Platform, cluster.Options{OLM: true, Images: images}), driver: d,
		namespace: "openshift-" + d.Package.Name, version: openshift45.Version(d), operator: d.Predecessors()[0].Operator,
	}
	f.subscribe(serving.Start(t, catalog), openshift45.Channel)
	f.configure(map[string]any{"managementState": "Managed", "logLevel": "Debug", "operatorLogLevel": "Trace"})
	f.installOperand()
	return f
}

// newOwnFormer starts a cluster where OLM has installed our operator of a driver in a namespace, which has installed
// the driver.
func newOwnFormer(t testing.TB, d drivers.Driver, namespace string, images map[string]string) *former {
	t.Helper()
	f := &former{
		environment: newEnvironment(t, d.ClusterStorage.Platform, cluster.Options{OLM: true, Images: images}), driver: d,
		namespace: namespace, version: d.Package.Name + ".v5.0.0", operator: d.Operator.Name, own: true,
	}
	f.subscribe(serving.Start(t, certifiedCatalog), d.Package.Channel)
	f.installOwn()
	return f
}

const certifiedCatalog = "../../catalog/certified"

// installOwn creates the ClusterCSIDriver, and waits until our operator has installed the driver.
func (f *former) installOwn() {
	f.t.Helper()
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: f.driver.CSIName}}
	custom.Spec.ManagementState, custom.Spec.LogLevel = operatorv1.Managed, operatorv1.Debug
	f.create(custom)
	f.Await(f.t, limit, "our operator to install the driver", custom, func() error {
		for _, c := range custom.Status.Conditions {
			if c.Type == operatorv1.OperatorStatusTypeAvailable && c.Status == operatorv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", custom.Status.Conditions)
	})
}

// subscribe makes OLM install the operator from a catalog.
func (f *former) subscribe(address, channel string) {
	f.t.Helper()
	require.NoError(f.t, f.EnsureNamespace(f.t.Context(), f.namespace))
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: f.namespace, Name: name} }
	f.create(&operatorsv1.OperatorGroup{ObjectMeta: in("all")})
	f.create(&v1alpha1.CatalogSource{ObjectMeta: in("former"), Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Address: address}})
	f.subscription = &v1alpha1.Subscription{ObjectMeta: in(f.driver.Package.Name), Spec: &v1alpha1.SubscriptionSpec{
		CatalogSource: "former", CatalogSourceNamespace: f.namespace, Package: f.driver.Package.Name, Channel: channel}}
	f.create(f.subscription)
	f.awaitInstalled()
}

// awaitInstalled waits until OLM has installed the version.
func (f *former) awaitInstalled() {
	f.t.Helper()
	cluster.Eventually(f.t, limit, "OLM to install "+f.version, func(ctx context.Context) error {
		version := &v1alpha1.ClusterServiceVersion{}
		if err := f.Client().Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: f.version}, version); err != nil {
			return err
		}
		if version.Status.Phase != v1alpha1.CSVPhaseSucceeded {
			return fmt.Errorf("its phase is %s: %s", version.Status.Phase, version.Status.Message)
		}
		if err := f.Client().Get(ctx, client.ObjectKeyFromObject(f.subscription), f.subscription); err != nil {
			return err
		}
		if got := f.subscription.Status; got.InstalledCSV != f.version || got.State != v1alpha1.SubscriptionStateAtLatest {
			return fmt.Errorf("the Subscription is %s, with %q installed", got.State, got.InstalledCSV)
		}
		return nil
	})
}

// old returns the object that configures the operator.
func (f *former) old() *unstructured.Unstructured {
	of := f.driver.OldCustomResources()[0]
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(of.Kind)
	object.SetName(of.Name)
	return object
}

// configure creates the object that configures the operator, as an administrator did, with the finalizer of the operator.
func (f *former) configure(spec map[string]any) {
	f.t.Helper()
	object := f.old()
	object.SetFinalizers([]string{f.driver.OldCustomResources()[0].Finalizer})
	object.Object["spec"] = spec
	f.create(object)
}

// installOperand creates the operator's objects, and waits until the driver's pods run.
func (f *former) installOperand() {
	f.t.Helper()
	for _, object := range openshift45.Operand(f.t, f.driver) {
		f.create(object)
		if object.GetKind() == "Namespace" {
			require.NoError(f.t, f.EnsureNamespace(f.t.Context(), object.GetName()))
		}
	}
	cluster.Eventually(f.t, limit, "the driver of OpenShift 4.5 to run", func(ctx context.Context) error {
		sets := &appsv1.DaemonSetList{}
		if err := f.Client().List(ctx, sets, client.InNamespace(f.driver.Namespace)); err != nil {
			return err
		}
		for _, set := range sets.Items {
			if set.Status.NumberReady == 0 || set.Status.ObservedGeneration < set.Generation {
				return fmt.Errorf("DaemonSet %s: %+v", set.Name, set.Status)
			}
		}
		return nil
	})
}

// available returns the condition of Storage about the driver.
func (f *former) available(ctx context.Context) operatorv1.OperatorCondition {
	f.t.Helper()
	storage := &operatorv1.Storage{}
	require.NoError(f.t, f.Client().Get(ctx, client.ObjectKey{Name: "cluster"}, storage))
	for _, c := range storage.Status.Conditions {
		if c.Type == predecessor.Condition(f.driver) {
			return c
		}
	}
	return operatorv1.OperatorCondition{}
}

// useVolumes creates users of the driver: volumes, attachments, claims, and an application.
func (f *former) useVolumes() {
	f.t.Helper()
	namespace := f.Namespace(f.t)
	nodes := &corev1.NodeList{}
	if err := f.Client().List(f.t.Context(), nodes); err != nil || len(nodes.Items) == 0 {
		f.t.Fatalf("there are %d nodes, %v; want one", len(nodes.Items), err)
	}
	for i := range 2 {
		name := fmt.Sprintf("volume-%d", i)
		f.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: f.driver.CSIName, VolumeHandle: name}},
			ClaimRef:               &corev1.ObjectReference{Namespace: namespace, Name: name}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		}})
		f.create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: name, StorageClassName: new(""),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}})
	}
	f.create(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "attachment", Finalizers: []string{"external-attacher/" + strings.ReplaceAll(f.driver.CSIName, ".", "-")}},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: f.driver.CSIName, NodeName: nodes.Items[0].Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("volume-1")}}})
	labels := handover.WriterLabels
	writer := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "writer"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: "writer",
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "writer", Image: "registry.example.com/writer:1", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			Volumes:    []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "volume-0"}}}},
		}},
	}}
	f.create(writer)
	cluster.Eventually(f.t, limit, "the application to run", func(ctx context.Context) error {
		if err := f.Client().Get(ctx, client.ObjectKeyFromObject(writer), writer); err != nil {
			return err
		}
		if writer.Status.AvailableReplicas != 1 {
			return fmt.Errorf("its status is %+v", writer.Status)
		}
		return nil
	})
}

// adopting is "berth adopt apply".
func (f *former) adopting(report func(migrate.Event)) func(context.Context, *restclient.Config) error {
	return func(ctx context.Context, config *restclient.Config) error {
		config = restclient.CopyConfig(config)
		config.Timeout = 10 * time.Second // the command's: an injected fault may keep the API server from answering
		c, err := client.New(config, client.Options{Scheme: f.Client().Scheme(), Mapper: f.Client().RESTMapper()})
		if err != nil {
			return err
		}
		to := migrate.Cluster{Config: config, Client: c}
		made, _, err := adoption.Adopt.Ensure(ctx, to, adoption.Request{Driver: f.driver})
		if err != nil {
			return err
		}
		if !made.Safe {
			return fmt.Errorf("the plan is not safe:\n%s", made.Text(findings.Plain))
		}
		return adoption.Adopt.Apply(ctx, to, made, migrate.Options{Report: func(e migrate.Event) {
			f.t.Logf("%s: %s %s", e.Step, e.Does, e.Waits)
			if e.Does == "" {
				f.t.Errorf("step %s has no description", e.Step)
			}
			if report != nil {
				report(e)
			}
		}})
	}
}

// adopt runs the tool, with an injector of faults.
func (f *former) adopt(injector *fault.Injector) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	require.NoError(f.t, injector.Run(ctx, f.Config(), f.adopting(nil)))
}

// plan makes a plan, as an administrator does.
func (f *former) plan() *adoption.Plan {
	f.t.Helper()
	made, err := adoption.Adopt.Plan(f.t.Context(), migrate.Cluster{Config: f.Config(), Client: f.Client()}, adoption.Request{Driver: f.driver})
	require.NoError(f.t, err)
	return made
}

var allAdoptions = flag.Bool("all-adoptions", false, "hand over each driver from each operator, which takes minutes")

// TestAdoption: when the cluster storage operator starts, it takes over drivers whose operators OLM runs, OpenShift
// 4.5's and ours, by itself, also while an administrator runs the tool. Throughout, no object that volumes need is
// replaced, and two operators never run together. In the end neither it nor the tool has anything to write.
func TestAdoption(t *testing.T) {
	t.Parallel()
	type begin struct {
		former func(*testing.T) *former
		tool   bool // an administrator runs it at the same time
	}
	formers := map[string]begin{}
	for _, d := range succeedable() {
		formers[d.Name+"/of OpenShift 4.5"] = begin{former: func(t *testing.T) *former { return newFormer(t, d, programs(t)) }}
		formers[d.Name+"/ours"] = begin{tool: true, former: func(t *testing.T) *former { return newOwnFormer(t, d, "openshift-"+d.Package.Name, programs(t)) }}
		formers[d.Name+"/ours where the new operator runs"] = begin{former: func(t *testing.T) *former {
			return newOwnFormer(t, d, drivers.ClusterStorageNamespace, programs(t))
		}}
	}
	for name, begin := range formers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !begin.tool && !*allAdoptions {
				t.Skip("it takes minutes; run it with -all-adoptions, or make prove SUITE=adopt")
			}
			f := begin.former(t)
			f.addOwnKeys()
			f.useVolumes()
			f.mustRefuseCleanup("before the hand-over", "that OLM gives permissions")
			mustBeUntouched, endAttack := f.attack()
			recorded := f.record()

			f.install(release.Payload{Version: version})
			if begin.tool {
				f.adoptAsWell()
			}
			f.awaitComplete()
			recorded.MustHold(t)
			mustBeUntouched()
			f.mustBeHandedOver()
			f.awaitSettled(version)
			f.awaitRest()

			again := fault.Record()
			f.adopt(again)
			assert.Empty(t, again.Writes(), "the tool wrote")
			f.checkForbidden()
			if !f.own {
				f.checkPermissionsToSucceed()
			}
			endAttack()
			f.testCleanup(fault.Record())
		})
	}
}

// mustBeHandedOver fails the test unless OLM has no objects of the operator any more, and the operator's custom
// resource is unchanged.
func (f *former) mustBeHandedOver() {
	f.t.Helper()
	ctx := f.t.Context()
	for _, list := range []client.ObjectList{&v1alpha1.SubscriptionList{}, &v1alpha1.InstallPlanList{}, &v1alpha1.ClusterServiceVersionList{}, &appsv1.DeploymentList{}, &corev1.PodList{}} {
		require.NoError(f.t, f.Client().List(ctx, list, client.InNamespace(f.namespace)))
		if n := meta.LenList(list); n > 0 && f.namespace != drivers.ClusterStorageNamespace {
			f.t.Errorf("namespace %s has a %T with %d objects, want none", f.namespace, list, n)
		}
	}
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: f.driver.CSIName}}
	f.get(custom)
	operator := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.ClusterStorageNamespace, Name: f.driver.Operator.Name}}
	f.get(operator)
	if len(operator.OwnerReferences) > 0 {
		f.t.Errorf("Deployment %s has owners %+v, want none", operator.Name, operator.OwnerReferences)
	}
	if f.own {
		if custom.Spec.LogLevel != operatorv1.Debug || custom.DeletionTimestamp != nil {
			f.t.Errorf("ClusterCSIDriver has logLevel %s, and is being deleted at %v; want it as it was", custom.Spec.LogLevel, custom.DeletionTimestamp)
		}
		return
	}
	old := f.old()
	f.get(old)
	if old.GetDeletionTimestamp() != nil || len(old.GetFinalizers()) != 1 {
		f.t.Errorf("%s is being deleted at %v, with finalizers %q; want it as before", old.GetKind(), old.GetDeletionTimestamp(), old.GetFinalizers())
	}
	level, _, _ := unstructured.NestedString(old.Object, "spec", "logLevel")
	operatorLevel, _, _ := unstructured.NestedString(old.Object, "spec", "operatorLogLevel")
	want := operatorv1.OperatorSpec{ManagementState: operatorv1.Managed, LogLevel: operatorv1.LogLevel(level), OperatorLogLevel: operatorv1.LogLevel(operatorLevel)}
	got := operatorv1.OperatorSpec{ManagementState: custom.Spec.ManagementState, LogLevel: custom.Spec.LogLevel, OperatorLogLevel: custom.Spec.OperatorLogLevel}
	if diff := cmp.Diff(want, got); diff != "" || level != "Debug" {
		f.t.Errorf("ClusterCSIDriver (-want +got):\n%s\nwant logLevel Debug, got %q from %s", diff, level, old.GetKind())
	}
}

// checkForbidden fails the test if a request of ours was forbidden. OLM takes the permissions of its operator away
// while that ends. If the new operator has the same account, requests count from the creation of its Deployment.
func (f *former) checkForbidden() {
	f.t.Helper()
	requests := f.account().Requests(f.t)
	starts := slices.IndexFunc(requests, func(request cluster.AuditEvent) bool {
		return request.Code == http.StatusCreated && request.Resource == "deployments" && request.Name == f.driver.Operator.Name
	})
	if starts < 0 {
		f.t.Fatalf("the audit log does not have the creation of Deployment %s", f.driver.Operator.Name)
	}
	user, started := f.accountOf(f.driver).User(), requests[starts].Received
	f.checkRefusals(func(request cluster.AuditEvent) bool {
		return walk.Discovers(request) || request.User == user && request.Received.Before(started)
	})
}

// record starts to record the hand-over.
func (f *former) record() *handover.Recording {
	f.t.Helper()
	return handover.Record(f.t, f.Cluster, handover.Former{Driver: f.driver, Namespace: f.namespace, Operator: f.operator, Own: f.own, Unoperated: f.unoperated},
		"VolumeSnapshot", "VolumeSnapshotContent")
}
