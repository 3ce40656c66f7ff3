package clusterstorage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/test/release"
)

// Images of the releases in a life. Their tags are the versions.
const (
	images       = "quay.io/berth-csi/test/"
	brokenImages = "quay.io/berth-csi/broken/" // their containers end at once
)

var all = flag.Bool("all-lives", false, "play the life of a cluster on OpenStack, too, which takes minutes")

// A life is a cluster whose cluster storage operator is a part of the test, with a clock that the test turns. The operators of
// the drivers are real programs.
type life struct {
	*environment
	clock   *clocktesting.FakeClock
	crashes string // a folder: the operator of a driver crashes while there is a file with the driver's name
	end     func() // ends the cluster storage operator
}

// newLife returns a life on a platform.
func newLife(t *testing.T, platform configv1.PlatformType) *life {
	t.Helper()
	folder := programFolder(t)
	programs := map[string]string{images + "operator_image": writeProgram(t, folder, "fickle",
		`[ ! -e "$(dirname "$0")/crash-$2" ] || exit 1`+"\n"+`exec "$(dirname "$0")/berth-operator" "$@"`)}
	ends := writeProgram(t, folder, "ends", "exit 1")
	for _, d := range driversOf(platform) {
		for _, image := range d.Images {
			programs[brokenImages+strings.ToLower(clusterstorage.ImageVariable(d, image))] = ends
		}
	}
	l := &life{environment: newEnvironment(t, platform, cluster.Options{Images: programs}), crashes: folder, end: func() {},
		clock: clocktesting.NewFakeClock(time.Now())}
	ticking := make(chan struct{})
	t.Cleanup(func() { close(ticking) })
	go func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				l.clock.Step(100 * time.Millisecond)
			case <-ticking:
				return
			}
		}
	}()
	return l
}

// programFolder returns a folder with the operators' program that containers can see.
func programFolder(t *testing.T) string {
	t.Helper()
	cache, err := tools.CacheFolder("clusterstorage")
	require.NoError(t, err)
	folder, err := os.MkdirTemp(cache, strconv.Itoa(os.Getpid())+"-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	for _, program := range programs(t) {
		content, err := os.ReadFile(program) // a copy, as this clone may be in /tmp, which containers do not see
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "berth-operator"), content, 0o755))
	}
	return folder
}

func writeProgram(t *testing.T, folder, name, script string) string {
	t.Helper()
	file := filepath.Join(folder, name)
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	return file
}

// A generation is a version of the cluster storage operator.
type generation struct {
	version string
	broken  string                              // the name of a driver whose own images are broken
	define  func(drivers.Driver) drivers.Driver // changes the definitions, may be nil
}

// run applies a generation's manifests, and runs its operator in the place of the one before.
func (l *life) run(g generation) {
	l.t.Helper()
	l.end()
	all := registry.All()
	for i := range all {
		if g.define != nil && all[i].ClusterStorage != nil {
			all[i] = g.define(all[i])
		}
	}
	getenv := func(name string) string {
		for _, d := range l.drivers {
			if d.Name == g.broken && strings.HasPrefix(name, strings.ToUpper(d.Name)+"_") {
				return brokenImages + strings.ToLower(name) + ":" + g.version
			}
		}
		return images + strings.ToLower(name) + ":" + g.version
	}
	// Its own Deployment has no program: the operator is here.
	l.install(release.Payload{Version: g.version, Images: map[string]string{clusterstorage.OperatorImageVariable: getenv(clusterstorage.OperatorImageVariable)}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	process := clusterstorage.Process{
		KubeConfig:    l.ServiceAccountConfig(l.t, clusterstorage.Namespace, clusterstorage.Name),
		EventRecorder: events.NewInMemoryRecorder("test", clock.RealClock{}),
		Version:       g.version, Clock: l.clock, Getenv: getenv,
	}
	go func() { done <- clusterstorage.Run(ctx, all, process) }()
	l.end = func() {
		cancel()
		assert.NoError(l.t, <-done, "the operator ended")
		l.end = func() {}
	}
	l.t.Cleanup(func() { l.end() })
}

// TestLife plays the life of a cluster with the drivers of its platform, and compares every status of the
// ClusterOperator with the expected one.
func TestLife(t *testing.T) {
	t.Parallel()
	platforms := []configv1.PlatformType{configv1.AWSPlatformType}
	if *all {
		// There, one of the drivers is installed only when its operator has asked the cloud.
		platforms = append(platforms, configv1.OpenStackPlatformType)
	}
	for _, platform := range platforms {
		t.Run(string(platform), func(t *testing.T) {
			t.Parallel()
			live(t, platform)
		})
	}
}

func live(t *testing.T, platform configv1.PlatformType) {
	l := newLife(t, platform)
	first := l.drivers[len(l.drivers)-1] // events of a single driver happen to this one
	v1, v2 := generation{version: "4.22.1"}, generation{version: "4.22.2"}
	steady := course{"Available": "True", "Progressing": "False", "Degraded": "False", "Upgradeable": "True"}
	t.Cleanup(l.checkForbidden)

	bringBack := l.withoutAPI("servicemonitors.monitoring.coreos.com")

	l.expect("installation", l.versions(v1.version).with(course{
		"Available": "False True", "Progressing": "True False", "Degraded": "False", "Upgradeable": "True"}), func() {
		l.run(v1)
		l.awaitSettled(v1.version)
	})
	l.awaitRest()

	bringBack() // the next version finds it
	updating := steady.with(course{"Progressing": "False True False"})
	l.expect("update", updating.with(l.versions("4.22.1 4.22.2")), func() {
		l.run(v2)
		l.awaitSettled(v2.version)
	})
	l.mustBeMonitored()
	l.expect("downgrade", updating.with(l.versions("4.22.2 4.22.1")), func() {
		l.run(v1)
		l.awaitSettled(v1.version)
	})
	l.expect("update again", updating.with(l.versions("4.22.1 4.22.2")), func() {
		l.run(v2)
		l.awaitSettled(v2.version)
	})

	l.expect("crashes of an operator", steady.with(l.versions(v2.version)).with(course{
		"Available": "True False True", "Progressing": "False True False"}), func() {
		l.crash(first)
		l.awaitReport(configv1.OperatorAvailable, configv1.ConditionFalse)
		l.recover(first)
		l.awaitSettled(v2.version)
	})

	v3 := generation{version: "4.22.3", broken: first.Name}
	stuck := updating.with(l.versions("4.22.2 4.22.3")).with(course{
		"Progressing": "False True", "operator": "4.22.2", first.ConditionPrefix + "CSIDriverOperator": "4.22.2"})
	l.expect("update with a driver that does not become ready", stuck, func() {
		l.run(v3)
		l.awaitOthers(first, v3.version)
		l.awaitBroken(first, v3.version)
	})
	v4 := generation{version: "4.22.4"}
	l.expect("recovery by the next update", steady.with(l.versions("4.22.3 4.22.4")).with(course{
		"Progressing": "True False", "operator": "4.22.2 4.22.4", first.ConditionPrefix + "CSIDriverOperator": "4.22.2 4.22.4"}), func() {
		l.run(v4)
		l.awaitSettled(v4.version)
	})

	l.expect("an object that a policy refuses", steady.with(l.versions(v4.version)).with(course{"Degraded": "False True False"}), func() {
		l.refuse(first)
		l.awaitSettled(v4.version)
	})

	const gate = "ExampleFeature"
	v5 := generation{version: "4.22.5", define: func(d drivers.Driver) drivers.Driver {
		if d.Name == first.Name {
			behindGate := *d.ClusterStorage
			behindGate.FeatureGate = gate
			d.ClusterStorage = &behindGate
		}
		return d
	}}
	l.setFeatureGates(v5.version, gate)
	l.expect("update to a version with a feature gate that is enabled", updating.with(l.versions("4.22.4 4.22.5")), func() {
		l.run(v5)
		l.awaitSettled(v5.version)
	})
	l.expect("a feature gate that is disabled and enabled again", steady.with(l.versions(v5.version)), func() {
		l.setFeatureGates(v5.version)
		l.awaitMessage("PlatformAvailable", "the feature gate "+gate+" is not enabled")
		l.get(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.ClusterStorageNamespace, Name: first.Operator.Name}})
		l.setFeatureGates(v5.version, gate)
		l.awaitSettled(v5.version)
	})

	l.expect("deletion of each object", steady.with(l.versions(v5.version)).with(course{"Available": anyCourse, "Progressing": anyCourse}), func() {
		l.loseEach()
		l.awaitSettled(v5.version)
	})
	l.awaitRest()
	l.end()
}

// crash has the operator of a driver crash whenever it starts, from now on.
func (l *life) crash(d drivers.Driver) {
	l.t.Helper()
	require.NoError(l.t, os.WriteFile(filepath.Join(l.crashes, "crash-"+d.Name), nil, 0o644))
	pods := &corev1.PodList{}
	require.NoError(l.t, l.Client().List(l.t.Context(), pods, client.InNamespace(drivers.ClusterStorageNamespace)))
	for _, pod := range pods.Items {
		if pod.Spec.ServiceAccountName == d.Operator.Name {
			require.NoError(l.t, l.Client().Delete(l.t.Context(), &pod))
		}
	}
}

func (l *life) recover(d drivers.Driver) {
	l.t.Helper()
	require.NoError(l.t, os.Remove(filepath.Join(l.crashes, "crash-"+d.Name)))
}

// awaitCondition waits until Storage has a condition.
func (l *life) awaitCondition(conditionType string, status operatorv1.ConditionStatus) operatorv1.OperatorCondition {
	l.t.Helper()
	var found operatorv1.OperatorCondition
	cluster.Eventually(l.t, limit, conditionType+" to be "+string(status), func(ctx context.Context) error {
		storage := &operatorv1.Storage{}
		if err := l.Client().Get(ctx, client.ObjectKey{Name: "cluster"}, storage); err != nil {
			return err
		}
		for _, c := range storage.Status.Conditions {
			if c.Type == conditionType && c.Status == status {
				found = c
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", storage.Status.Conditions)
	})
	return found
}

// awaitReport waits until the ClusterOperator has a condition, and returns it.
func (l *life) awaitReport(conditionType configv1.ClusterStatusConditionType, status configv1.ConditionStatus) configv1.ClusterOperatorStatusCondition {
	l.t.Helper()
	var found configv1.ClusterOperatorStatusCondition
	cluster.Eventually(l.t, limit, fmt.Sprintf("the ClusterOperator to be %s=%s", conditionType, status), func(ctx context.Context) error {
		operator, err := l.clusterOperator(ctx)
		if err != nil {
			return err
		}
		for _, c := range operator.Status.Conditions {
			if c.Type == conditionType && c.Status == status {
				found = c
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", operator.Status.Conditions)
	})
	return found
}

// awaitOthers waits until all drivers but one are at a version.
func (l *life) awaitOthers(but drivers.Driver, version string) {
	l.t.Helper()
	cluster.Eventually(l.t, limit, "the other drivers to be at version "+version, func(ctx context.Context) error {
		operator, err := l.clusterOperator(ctx)
		if err != nil {
			return err
		}
		for _, d := range l.drivers {
			if got := versionOf(operator, d.ConditionPrefix+"CSIDriverOperator"); d.Name != but.Name && got != version {
				return fmt.Errorf("%s is at version %s", d.CSIName, got)
			}
		}
		return nil
	})
}

// failures are the reasons of a container with a broken image. A process node may not even find all mount points for
// it.
var failures = []string{"CrashLoopBackOff", "CreateContainerError"}

// awaitBroken waits until a pod of a driver has an image of a version, and does not run.
func (l *life) awaitBroken(d drivers.Driver, version string) {
	l.t.Helper()
	cluster.Eventually(l.t, limit, "a pod of the driver to fail", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := l.Client().List(ctx, pods, client.InNamespace(d.Namespace)); err != nil {
			return err
		}
		var others []string
		for _, pod := range pods.Items {
			for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
				if strings.HasSuffix(status.Image, ":"+version) && status.State.Waiting != nil && slices.Contains(failures, status.State.Waiting.Reason) {
					return nil
				}
				others = append(others, fmt.Sprintf("%s/%s (%s): %+v", pod.Name, status.Name, status.Image, status.State))
			}
		}
		return fmt.Errorf("none does: %q", others)
	})
}

// withoutAPI removes an API from the cluster. bringBack adds it again, and returns when it is served.
func (l *life) withoutAPI(name string) (bringBack func()) {
	l.t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	l.get(definition)
	again := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: definition.Spec}
	require.NoError(l.t, l.Client().Delete(l.t.Context(), definition))
	cluster.Eventually(l.t, limit, "the API to be gone", l.Gone(definition))
	return func() {
		l.t.Helper()
		l.create(again)
		cluster.Eventually(l.t, limit, "the API to be served", func(ctx context.Context) error {
			objects := &unstructured.UnstructuredList{}
			objects.SetAPIVersion(again.Spec.Group + "/" + again.Spec.Versions[0].Name)
			objects.SetKind(again.Spec.Names.ListKind)
			return l.Client().List(ctx, objects)
		})
	}
}

// mustBeMonitored fails the test unless the monitoring of all operators is there.
func (l *life) mustBeMonitored() {
	l.t.Helper()
	for _, d := range l.drivers {
		monitoring, err := d.OperatorMonitoring()
		require.NoError(l.t, err)
		for _, m := range monitoring {
			m.Object.SetNamespace(drivers.ClusterStorageNamespace)
			l.get(m.Object)
		}
	}
}

// setFeatureGates enables the feature gates of a version, and no others.
func (l *life) setFeatureGates(version string, enabled ...configv1.FeatureGateName) {
	l.t.Helper()
	details := configv1.FeatureGateDetails{Version: version}
	for _, name := range enabled {
		details.Enabled = append(details.Enabled, configv1.FeatureGateAttributes{Name: name})
	}
	gates := &configv1.FeatureGate{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	l.get(gates)
	gates.Status.FeatureGates = []configv1.FeatureGateDetails{details}
	require.NoError(l.t, l.Client().Status().Update(l.t.Context(), gates))
}

// awaitMessage waits until a condition of Storage says something.
func (l *life) awaitMessage(conditionType, text string) {
	l.t.Helper()
	cluster.Eventually(l.t, limit, conditionType+" to say "+text, func(ctx context.Context) error {
		storage := &operatorv1.Storage{}
		if err := l.Client().Get(ctx, client.ObjectKey{Name: "cluster"}, storage); err != nil {
			return err
		}
		for _, c := range storage.Status.Conditions {
			if c.Type == conditionType && strings.Contains(c.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", storage.Status.Conditions)
	})
}

// refuse has the API server refuse an object of a driver's operator, and deletes the object. It returns when the operator has
// reported that, and the object may come back. The ClusterOperator must not be Degraded before two minutes have passed.
func (l *life) refuse(d drivers.Driver) {
	l.t.Helper()
	monitoring, err := d.OperatorMonitoring()
	require.NoError(l.t, err)
	service := drivers.OfKind(monitoring, "Service")[0].Object
	service.SetNamespace(drivers.ClusterStorageNamespace)
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				ResourceNames: []string{service.GetName()},
				RuleWithOperations: admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"services"}}},
			}}},
			Validations: []admissionv1.Validation{{Expression: "false", Message: "an administrator's policy"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy.Name,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	l.create(policy)
	l.create(binding)
	cluster.Eventually(l.t, limit, "the policy to be in force", func(ctx context.Context) error {
		trial := service.DeepCopy()
		trial.SetNamespace("default")
		err := l.Client().Create(ctx, trial, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "an administrator's policy") {
			return fmt.Errorf("creating %s answers %v", service.GetName(), err)
		}
		return nil
	})
	require.NoError(l.t, l.Client().Delete(l.t.Context(), service.DeepCopy()))
	refused := l.awaitCondition(d.ConditionPrefix+"CSIDriverOperatorObjectsDegraded", operatorv1.ConditionTrue)
	l.clock.Step(2 * time.Minute)
	degraded := l.awaitReport(configv1.OperatorDegraded, configv1.ConditionTrue)
	if after := degraded.LastTransitionTime.Sub(refused.LastTransitionTime.Time); after < 2*time.Minute {
		l.t.Errorf("the ClusterOperator is Degraded %s after the object was refused, want two minutes", after)
	}
	for _, object := range []client.Object{binding, policy} {
		require.NoError(l.t, l.Client().Delete(l.t.Context(), object))
	}
}

// loseEach deletes each object that our operators have made, one after the other, and waits until it is there again. Nothing
// of a user's may be touched meanwhile.
func (l *life) loseEach() {
	l.t.Helper()
	users := []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.ClusterStorageNamespace, Name: "of-a-user"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.ClusterStorageNamespace, Name: "of-a-user"}},
	}
	for _, d := range l.drivers {
		users = append(users, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "of-a-user-" + d.Name}, Provisioner: d.CSIName})
	}
	for _, object := range users {
		l.create(object)
	}
	made := l.made()
	if len(made) < 20 {
		l.t.Errorf("the operators have made only %d objects", len(made))
	}
	// A lock is its pod's, which goes on without it. A namespace takes everything in it along, so it is last.
	var namespaces []*unstructured.Unstructured
	for _, object := range made {
		switch {
		case object.GetKind() == "Namespace":
			namespaces = append(namespaces, object)
		case !l.isLock(object):
			l.lose(object)
		}
	}
	for _, namespace := range namespaces {
		l.lose(namespace)
	}
	for _, object := range users {
		before := object.GetResourceVersion()
		if l.get(object); object.GetResourceVersion() != before {
			l.t.Errorf("%T %s of a user was written: %+v", object, object.GetName(), object)
		}
	}
}

// lose deletes an object, and waits until another one is in its place.
func (l *life) lose(object *unstructured.Unstructured) {
	l.t.Helper()
	l.get(object)
	uid := object.GetUID()
	if err := l.Client().Delete(l.t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil && !apierrors.IsNotFound(err) {
		l.t.Fatal(err)
	}
	cluster.Eventually(l.t, limit, fmt.Sprintf("%s %s to come back", object.GetKind(), client.ObjectKeyFromObject(object)), func(ctx context.Context) error {
		now := object.DeepCopy()
		if err := l.Client().Get(ctx, client.ObjectKeyFromObject(object), now); err != nil {
			return err
		}
		if now.GetUID() == uid {
			return errors.New("it is the one that was deleted")
		}
		return nil
	})
}
