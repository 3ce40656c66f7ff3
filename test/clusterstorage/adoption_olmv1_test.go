package clusterstorage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/adoption"
	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/fault"
	"github.com/berth-csi/berth/test/olmv1"
	"github.com/berth-csi/berth/test/openshift45"
	"github.com/berth-csi/berth/test/release"
)

// newExtensionFormer starts a cluster in which OLM v1, with some of its features, has installed OpenShift 4.5's operator of a driver,
// which has installed the driver.
func newExtensionFormer(t testing.TB, features ...string) *former {
	t.Helper()
	images := olmv1.Images(t)
	maps.Copy(images, programs(t))
	d := succeedable()[0]
	f := &former{driver: d, namespace: "openshift-" + d.Package.Name, version: openshift45.Version(d), operator: d.Predecessors()[0].Operator,
		nodes: map[string]string{corev1.LabelOSStable: "linux"}} // OLM has a node of its own, without images of drivers
	catalog, bundle := openshift45.Catalog(t, d), openshift45.Bundle(t, d)
	f.environment = newEnvironment(t, d.ClusterStorage.Platform, cluster.Options{OLM: true, RealNodes: 1, Images: images})
	olm := olmv1.Start(t, f.Cluster, features...)
	olm.AddCatalog("former", catalog, d.Package.Name, map[string]string{f.version: bundle})
	olm.Install(d.Package.Name, f.namespace, d.Package.Name)
	f.configure(map[string]any{"managementState": "Managed", "logLevel": "Debug", "operatorLogLevel": "Trace"})
	f.installOperand()
	return f
}

// TestAdoptionFromOLMv1: an administrator hands over an operator that OLM v1 has installed for a ClusterExtension. Nothing that
// volumes need is touched, and the API of what configured the operator stays, though OLM v1 deletes the APIs of a ClusterExtension
// with it. The cluster storage operator waits, and the tool is killed after each of its writes.
func TestAdoptionFromOLMv1(t *testing.T) {
	if !*allAdoptions {
		t.Skip("it takes minutes; run it with -all-adoptions, or make prove SUITE=adopt")
	}
	for name, features := range map[string][]string{"of OpenShift 4.5": nil, "of OpenShift 4.5, with ClusterObjectSets": {"BoxcutterRuntime"}} {
		t.Run(name, func(t *testing.T) {
			f := newExtensionFormer(t, features...)
			f.useVolumes()
			recorded := f.record()
			f.install(release.Payload{Version: version})
			f.awaitReason(predecessor.Reason, "only an administrator can hand over")

			f.mustRollBack()
			f.adoptKilled()
			f.awaitComplete()
			recorded.MustHold(t)
			f.mustBeHandedOver()
			f.mustHaveNothingInstalled()
			f.awaitSettled(version)
			f.awaitRest()
			again := fault.Record()
			f.adopt(again)
			if writes := again.Writes(); len(writes) > 0 {
				t.Errorf("the tool wrote %+v", writes)
			}
		})
	}
}

// mustRollBack begins a hand-over, ends it before the point of no return, and fails the test unless the ClusterExtension is as before.
func (f *former) mustRollBack() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	before := f.extension()
	to := migrate.Cluster{Config: f.Config(), Client: f.Client()}
	made, _, err := adoption.Adopt.Ensure(ctx, to, adoption.Request{Driver: f.driver})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(ctx)
	err = adoption.Adopt.Apply(ctx, to, made, migrate.Options{Report: func(e migrate.Event) {
		if e.Step == adoption.DeleteExtension {
			stop()
		}
	}})
	if held := f.extension(); err == nil || len(held.GetFinalizers()) != len(before.GetFinalizers())+1 || held.GetDeletionTimestamp() != nil {
		f.t.Fatalf("error %v, finalizers %q, deletion at %v; want to be stopped when only the finalizer had been added to %q", err, held.GetFinalizers(), held.GetDeletionTimestamp(), before.GetFinalizers())
	}
	if err := adoption.Adopt.Rollback(f.t.Context(), to, made, migrate.Options{Report: func(migrate.Event) {}}); err != nil {
		f.t.Fatal(err)
	}
	if after := f.extension(); !slices.Equal(after.GetFinalizers(), before.GetFinalizers()) || after.GetUID() != before.GetUID() {
		f.t.Errorf("finalizers %q, UID %s; want %q and %s as before", after.GetFinalizers(), after.GetUID(), before.GetFinalizers(), before.GetUID())
	}
}

// extension returns the ClusterExtension.
func (f *former) extension() *unstructured.Unstructured {
	f.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("olm.operatorframework.io/v1")
	object.SetKind(predecessor.Extension)
	object.SetName(f.driver.Package.Name)
	f.get(object)
	return object
}

// adoptKilled runs the tool again and again. Each run but the last is killed after its first write besides those of the journal.
func (f *former) adoptKilled() {
	f.t.Helper()
	for runs := 1; ; runs++ {
		ctx, cancel := context.WithTimeout(f.t.Context(), limit)
		injector := fault.Record()
		var last migrate.StepName
		err := injector.Run(ctx, f.Config(), f.adopting(func(e migrate.Event) {
			if e.Waits == "" && last != "" {
				cancel()
			}
			last = e.Step
		}))
		killed := ctx.Err() != nil
		cancel()
		if err == nil {
			f.t.Logf("the tool ran %d times", runs)
			return
		}
		if !killed || runs > 40 {
			f.t.Fatalf("run %d: %v", runs, err)
		}
	}
}

// mustHaveNothingInstalled fails the test if something is left that OLM v1 had installed, besides the API.
func (f *former) mustHaveNothingInstalled() {
	f.t.Helper()
	labels := client.MatchingLabels(predecessor.LabelsOf(f.driver.Package.Name))
	for kind, version := range map[string]string{
		"Deployment": appsv1.SchemeGroupVersion.String(), "ServiceAccount": "v1", "ClusterRole": "rbac.authorization.k8s.io/v1", "ClusterRoleBinding": "rbac.authorization.k8s.io/v1",
		"Role": "rbac.authorization.k8s.io/v1", "RoleBinding": "rbac.authorization.k8s.io/v1", "ServiceMonitor": "monitoring.coreos.com/v1", "PrometheusRule": "monitoring.coreos.com/v1",
		"ClusterExtension": "olm.operatorframework.io/v1", "ClusterObjectSet": "olm.operatorframework.io/v1", "CustomResourceDefinition": "apiextensions.k8s.io/v1",
	} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(version)
		list.SetKind(kind + "List")
		if err := f.Client().List(f.t.Context(), list, labels); err != nil {
			f.t.Fatal(err)
		}
		want := 0
		if kind == "CustomResourceDefinition" {
			want = 1
		}
		if len(list.Items) != want {
			f.t.Errorf("there are %d of %s with the labels of the ClusterExtension, want %d: %s", len(list.Items), kind, want, fmt.Sprint(list.Items))
		}
	}
}
