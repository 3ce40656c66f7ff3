package continuity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	eventwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/drivers/manila"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/adoption"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/test/drivers/images"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/handover"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/olmv1"
	"github.com/berth-csi/berth/test/openshift45"
	"github.com/berth-csi/berth/test/release"
)

// TestAdoptEBSOfOpenShift45 and the other tests here: when the cluster storage operator starts, it takes a driver over that OLM has
// installed, and the pods that write to its volumes notice nothing. Old volumes can be used, copied and deleted afterwards, and new
// ones created.
//
// The operator of OpenShift 4.5 asks for APIs that no cluster serves any more, so its pod is only reported as running,
// and the test creates the objects that it had created: see openshift45.Running for the differences.
func TestAdoptEBSOfOpenShift45(t *testing.T) { ebsToAdopt(t, origin{}).play(t) }

func TestAdoptEBSOfOurs(t *testing.T) { ebsToAdopt(t, origin{own: true}).play(t) }

func TestAdoptManilaOfOpenShift45(t *testing.T) { manilaToAdopt(t, origin{}).play(t) }

func TestAdoptManilaOfOurs(t *testing.T) { manilaToAdopt(t, origin{own: true}).play(t) }

// origin is the installation of a driver.
type origin struct {
	own bool // the operator is ours, and not OpenShift 4.5's
	// extension says that OLM v1 has installed the operator of OpenShift 4.5, with some of its features.
	extension bool
	features  []string
}

// adopted is a driver that is handed over.
type adopted struct {
	*watch
	former handover.Former
	from   origin
	// class is the operator's class, and ofWriters the class of the volumes that pods write to. Both have the access mode.
	class, ofWriters string
	mode             corev1.PersistentVolumeAccessMode
	// attaches says whether volumes are attached to nodes.
	attaches bool
	// losses are the calls to the cloud so far that detach or delete something.
	losses func() []string
	// left are the volumes and snapshots that the cloud has.
	left func() int

	claims   []*corev1.PersistentVolumeClaim // of the writers
	set      *appsv1.StatefulSet
	snapshot *unstructured.Unstructured
}

func ebsToAdopt(t *testing.T, from origin) *adopted {
	needAll(t)
	cluster.NeedRealNodes(t)
	region := testbed.StartAWS(t, ebs.Driver, aws.Options{})
	a := &adopted{from: from, class: "gp2-csi", mode: corev1.ReadWriteOnce, attaches: true}
	a.losses = func() (found []string) {
		for _, call := range region.Calls() {
			if slices.Contains([]string{"DetachVolume", "DeleteVolume", "DeleteSnapshot"}, call.Action) {
				found = append(found, fmt.Sprintf("%s %v", call.Action, call.Parameters))
			}
		}
		return found
	}
	a.left = func() int { return len(region.EC2.Volumes()) + len(region.EC2.Snapshots()) }
	request, err := openshift45.Request(ebs.Driver) // with the permissions of today's driver
	require.NoError(t, err)
	region.Former = []*unstructured.Unstructured{request.Object}
	cloud := region.Options()
	endpoint := cloud.Platform.AWS.ServiceEndpoints[slices.IndexFunc(cloud.Platform.AWS.ServiceEndpoints, func(e configv1.AWSServiceEndpoint) bool { return e.Name == "ec2" })]
	a.start(t, ebs.Driver, cloud, openshift45.Cloud{CA: string(region.CA()), Env: map[string]string{
		"AWS_EC2_ENDPOINT": endpoint.URL, "AWS_CA_BUNDLE": openshift45.CAFile,
	}})
	return a
}

func manilaToAdopt(t *testing.T, from origin) *adopted {
	needAll(t)
	cluster.NeedRealNodes(t)
	cloud := testbed.StartOpenStack(t, "default")
	a := &adopted{from: from, class: "csi-manila-default", mode: corev1.ReadWriteMany}
	a.losses = func() (found []string) {
		for _, call := range cloud.Calls() {
			if call.Method == "DELETE" || strings.Contains(call.Action, "deny") {
				found = append(found, call.String())
			}
		}
		return found
	}
	a.left = func() int { return len(cloud.Shares()) + len(cloud.ShareSnapshots()) }
	login := cloud.Login().ManilaSecrets()
	login["os-domainName"] = login["os-userDomainName"] // OpenShift 4.5's operator wrote both
	a.start(t, manila.Driver, cloud.Options(), openshift45.Cloud{CA: string(cloud.Cloud.CA()), Login: login})
	return a
}

// start starts a testbed where OLM has installed a driver.
func (a *adopted) start(t *testing.T, d drivers.Driver, cloud testbed.Cloud, pods openshift45.Cloud) {
	options := testbed.Options{Driver: d, Cloud: cloud, Snapshots: true}
	if a.from.own {
		a.former = handover.Former{Driver: d, Namespace: cluster.OperatorNamespace, Operator: d.Operator.Name, Own: true}
		options.Install = func(t testing.TB, bed *testbed.Testbed) { bed.Install(t, release.BuildVersion(t, d, "5.0.0"), nil) }
	} else {
		a.former = handover.Former{Driver: d, Namespace: "openshift-" + d.Package.Name, Operator: d.Predecessors()[0].Operator}
		catalog := openshift45.CatalogForControlPlane(t, d) // skips without it
		install := a.subscribe
		if a.from.extension {
			options.MorePrograms, install = olmv1.Images(t), a.extend
		}
		options.MoreImages = []string{images.RegistrarWithShell + ":latest"}
		options.Install = func(t testing.TB, bed *testbed.Testbed) {
			install(t, bed, catalog)
			a.makeOld(t, bed, openshift45.Running(t, d, pods))
		}
	}
	a.watch = &watch{accounts: []string{
		"system:serviceaccount:" + clusterstorage.Namespace + ":" + clusterstorage.Name,
		"system:serviceaccount:" + drivers.ClusterStorageNamespace + ":" + d.Operator.Name,
	}}
	a.Testbed = testbed.Start(t, options)
}

// subscribe makes OLM install the operator of OpenShift 4.5.
func (a *adopted) subscribe(t testing.TB, bed *testbed.Testbed, catalog string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Limit)
	defer cancel()
	const source = "redhat-operators"
	bed.Serve(t, source, catalog)
	require.NoError(t, bed.EnsureNamespace(ctx, a.former.Namespace))
	require.NoError(t, bed.Client().Create(ctx, &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: a.former.Namespace, Name: "all"}}))
	pkg := bed.Driver.Package.Name
	if _, err := journey.Subscribe(ctx, bed.Client(), &v1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.former.Namespace, Name: pkg},
		Spec:       &v1alpha1.SubscriptionSpec{CatalogSource: source, CatalogSourceNamespace: cluster.CatalogNamespace, Package: pkg, Channel: openshift45.Channel},
	}); err != nil {
		t.Fatal(err)
	}
}

// makeOld creates the objects of OpenShift 4.5's operator.
func (a *adopted) makeOld(t testing.TB, bed *testbed.Testbed, operand []*unstructured.Unstructured) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Limit)
	defer cancel()
	create := func(object client.Object) {
		require.NoErrorf(t, bed.Client().Create(ctx, object), "create %T %s", object, object.GetName())
		if object.GetObjectKind().GroupVersionKind().Kind == "Namespace" {
			require.NoError(t, bed.EnsureNamespace(ctx, object.GetName()))
		}
	}
	of := bed.Driver.OldCustomResources()[0]
	custom := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"managementState": "Managed", "logLevel": "Debug"}}}
	custom.SetGroupVersionKind(of.Kind)
	custom.SetName(of.Name)
	custom.SetFinalizers([]string{of.Finalizer})
	create(custom)
	for _, object := range slices.Concat(openshift45.Permissions(bed.Driver), operand) {
		create(object)
	}
}

// play hands the driver over while a StatefulSet writes, and uses volumes afterwards.
func (a *adopted) play(t *testing.T) {
	a.runWriters(t)
	a.run(t, []step{
		{what: "the driver is handed over", do: a.handOver},
		{what: "volumes grow", do: a.grow},
		{what: "a new volume is used", do: a.useNew},
		{what: "a snapshot from before is used", do: a.restore},
		{what: "old volumes and the snapshot are deleted", do: a.delete},
	})
}

// runWriters runs a StatefulSet that writes to a volume on each node, and takes a snapshot of one.
func (a *adopted) runWriters(t *testing.T) {
	const name, template = "writer", "data"
	namespace := a.Namespace(t)
	snapshotClass := a.makeClasses(t)
	pod := journey.PodWithClaim(namespace, name, template).Spec
	pod.Containers[0].Args = []string{"keep-writing", journey.DataFolder + "/" + name}
	pod.Volumes = nil
	pod.TerminationGracePeriodSeconds = new(int64(5))
	pod.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(0))}
	selector := &metav1.LabelSelector{MatchLabels: handover.WriterLabels}
	pod.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{TopologyKey: corev1.LabelHostname, LabelSelector: selector},
	}}}
	a.set = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(len(testbed.Nodes))), ServiceName: name, Selector: selector, PodManagementPolicy: appsv1.ParallelPodManagement,
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: handover.WriterLabels}, Spec: pod},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: template}, Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &a.ofWriters, AccessModes: []corev1.PersistentVolumeAccessMode{a.mode},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}},
	}}
	require.NoError(t, a.Client().Create(t.Context(), a.set))
	for i := range testbed.Nodes {
		writer := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%d", name, i)}}
		a.writers = append(a.writers, a.AwaitPod(t, writer))
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: template + "-" + writer.Name}}
		a.Bound(t, claim)
		a.claims = append(a.claims, claim)
	}
	a.snapshot = a.Snapshot(t, a.claims[0], "before", snapshotClass)
}

// makeClasses makes classes as an administrator did: one of snapshots, as OpenShift 4.5's operators made none, and one of disks with
// XFS, as ext4 cannot grow in use on each machine (see package matrix). It returns the name of the first.
func (a *adopted) makeClasses(t *testing.T) string {
	t.Helper()
	const name = "of-an-administrator"
	class := &storagev1.StorageClass{}
	require.NoError(t, a.Client().Get(t.Context(), client.ObjectKey{Name: a.class}, class))
	ofSnapshots := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "metadata": map[string]any{"name": name},
		"driver": a.Driver.CSIName, "deletionPolicy": "Delete",
	}}
	const secret = "csi.storage.k8s.io/provisioner-secret-"
	if login := class.Parameters[secret+"name"]; login != "" {
		ofSnapshots.Object["parameters"] = map[string]any{
			"csi.storage.k8s.io/snapshotter-secret-name": login, "csi.storage.k8s.io/snapshotter-secret-namespace": class.Parameters[secret+"namespace"],
		}
	}
	require.NoError(t, a.Client().Create(t.Context(), ofSnapshots))
	a.ofWriters = a.class
	if a.attaches {
		a.ofWriters = name
		class.ObjectMeta = metav1.ObjectMeta{Name: name}
		class.Parameters["csi.storage.k8s.io/fstype"] = "xfs"
		require.NoError(t, a.Client().Create(t.Context(), class))
	}
	return name
}

// handOver starts the cluster storage operator, and waits until it has taken the driver over.
func (a *adopted) handOver(t *testing.T) {
	var lacks []string
	if !a.attaches {
		lacks = []string{"VolumeAttachment"}
	}
	before, losses := a.DriverPods(t), len(a.losses())
	recorded := handover.Record(t, a.Cluster, a.former, lacks...)
	registrations := a.Record(t, &storagev1.CSINodeList{})
	a.StartClusterStorage(t, nil)
	if a.from.extension {
		a.handOverExtension(t)
	}
	cluster.Eventually(t, 2*testbed.Limit, "the driver to be handed over", func(ctx context.Context) error {
		j, err := adoption.Adopt.ReadJournal(ctx, migrate.Cluster{Config: a.Config(), Client: a.Client()}, migrate.Subject{Name: a.Driver.CSIName})
		if err == nil && j.Phase != migrate.Completed {
			err = fmt.Errorf("the phase is %q", j.Phase)
		}
		return err
	})
	if !a.former.Own {
		a.AwaitReplaced(t, before)
	}
	a.AwaitReady(t)
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Limit)
	defer cancel()
	assert.NoError(t, testbed.AwaitClusterOperator(ctx, a.Client()))
	recorded.MustHold(t)
	assert.Empty(t, a.losses()[losses:], "the cloud was asked to detach or delete")
	a.journal.note("%d of %d pods of the driver were replaced; calls that detach or delete: %d", a.replaced(t, before), len(before), len(a.losses())-losses)
	a.journal.note("the driver was unregistered for a moment on the nodes %q", a.unregistered(registrations()))
	if !a.former.Own { // from now on, the new operator's own permissions have to do
		for _, object := range openshift45.Permissions(a.Driver) {
			a.Delete(t, object)
		}
	}
}

// unregistered returns the nodes where the driver was not registered at some time. Now it is: see AwaitReady.
func (a *adopted) unregistered(events []eventwatch.Event) (nodes []string) {
	for _, event := range events {
		node := event.Object.(*storagev1.CSINode)
		registered := slices.ContainsFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == a.Driver.CSIName })
		if slices.Contains(testbed.Nodes, node.Name) && !registered && !slices.Contains(nodes, node.Name) {
			nodes = append(nodes, node.Name)
		}
	}
	return nodes
}

// grow expands the volumes that pods write to. Volumes of OpenShift 4.5's Manila class cannot grow. So an administrator
// deletes the class, the operator creates today's class, and a new volume grows.
func (a *adopted) grow(t *testing.T) {
	class := &storagev1.StorageClass{}
	require.NoError(t, a.Client().Get(t.Context(), client.ObjectKey{Name: a.ofWriters}, class))
	if ptr.Deref(class.AllowVolumeExpansion, false) {
		for _, claim := range a.claims {
			a.Expand(t, claim, "2Gi")
		}
		return
	}
	a.journal.note("StorageClass %s of the former operator lets no volume grow; it was deleted, and made again", a.class)
	require.NoError(t, a.Client().Delete(t.Context(), class))
	cluster.Eventually(t, testbed.Limit, "StorageClass "+a.class+" to be made again", func(ctx context.Context) error {
		return a.Client().Get(ctx, client.ObjectKey{Name: a.class}, &storagev1.StorageClass{})
	})
	a.use(t, testbed.Pod{Name: "grows", Node: testbed.Nodes[0]}, testbed.Claim{Class: a.class}, func(_ testbed.RunningPod, claim *corev1.PersistentVolumeClaim) { a.Expand(t, claim, "2Gi") })
}

// use makes a pod use a new claim, which gets its name. Then both are deleted.
func (a *adopted) use(t *testing.T, of testbed.Pod, with testbed.Claim, do func(testbed.RunningPod, *corev1.PersistentVolumeClaim)) {
	t.Helper()
	with.Namespace, with.Name, with.Mode = a.set.Namespace, of.Name, a.mode
	claim := a.Claim(t, with)
	of.Claim = claim
	pod := a.Run(t, of)
	do(pod, claim)
	a.Delete(t, pod.Pod, claim)
}

// useNew makes a pod on each node use a new volume.
func (a *adopted) useNew(t *testing.T) {
	for i, node := range testbed.Nodes {
		a.use(t, testbed.Pod{Name: fmt.Sprintf("new-%d", i), Node: node}, testbed.Claim{Class: a.class}, func(pod testbed.RunningPod, _ *corev1.PersistentVolumeClaim) {
			pod.Write(t, "greeting", "ahoy")
			assert.EqualValuesf(t, "ahoy", pod.Read(t, "greeting"), "pod %s reads", pod.Name)
		})
	}
}

// restore makes a volume of the snapshot, and finds the writer's records there.
func (a *adopted) restore(t *testing.T) {
	source := &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: a.snapshot.GetName()}
	a.use(t, testbed.Pod{Name: "restored", Node: testbed.Nodes[1]}, testbed.Claim{Class: a.ofWriters, Source: source}, func(pod testbed.RunningPod, _ *corev1.PersistentVolumeClaim) {
		assert.NotZero(t, strings.Count(pod.Read(t, "writer"), "\n"), "the volume of the snapshot has no record of the writer")
	})
}

// delete ends the pods, and deletes their volumes and the snapshot.
func (a *adopted) delete(t *testing.T) {
	a.Delete(t, a.set)
	for _, writer := range a.writers {
		cluster.Eventually(t, testbed.Limit, "pod "+writer.Name+" to be gone", a.Gone(writer.Pod))
	}
	a.writers = nil
	a.Delete(t, a.snapshot)
	for _, claim := range a.claims {
		volume := a.Bound(t, claim)
		a.Delete(t, claim)
		cluster.Eventually(t, testbed.Limit, "volume "+volume.Name+" to be gone", a.Gone(volume))
	}
	attachments := &storagev1.VolumeAttachmentList{}
	if err := a.Client().List(t.Context(), attachments); err != nil || len(attachments.Items) > 0 {
		t.Errorf("there are %d VolumeAttachments, %v; want none", len(attachments.Items), err)
	}
	cluster.Eventually(t, testbed.Limit, "the cloud to have nothing of the cluster", func(context.Context) error {
		if left := a.left(); left > 0 {
			return fmt.Errorf("it has %d volumes and snapshots", left)
		}
		return nil
	})
}
