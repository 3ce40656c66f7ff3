package continuity

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/drivers/images"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/mustgather"
	"github.com/berth-csi/berth/test/olmv1"
	"github.com/berth-csi/berth/test/release"
)

// TestPublishedRelease: a release that `make release` pushes to a registry with TLS and a login runs. An administrator
// follows docs/catalog/release.md and docs/move/olm-v1.md: installs the EFS operator from the catalog's image by OLM v0, which
// unpacks the bundle's image, gets the next release, moves to OLM v1 and back, and removes everything. Pods write
// throughout.
func TestPublishedRelease(t *testing.T) {
	needAll(t)
	ofOLMv1 := olmv1.Images(t)
	cloud := efsCloud(t)
	p := &published{Published: release.Publish(t, efs.Driver)}
	p.extended.watch = &watch{accounts: ofOLM(efs.Driver)}
	cloud.Servers[p.Address] = p.Address
	p.Testbed = testbed.Start(t, testbed.Options{
		Driver: efs.Driver, Cloud: cloud, MorePrograms: ofOLMv1, MoreImages: []string{images.OLMUtilities + ":latest", images.OPM + ":latest"},
		Install: func(t testing.TB, bed *testbed.Testbed) {
			p.Testbed = bed
			p.admitNodes(t)
			p.subscribe(t)
		},
	})
	p.mustHaveUnpacked(t, "v1.0.0")
	p.mustRunDriver(t)

	claim := p.Claim(t, testbed.Claim{Namespace: p.Namespace(t), Name: "files", Class: createClass(t, p.Testbed)})
	p.startWriter(t, "writer-of-claim", testbed.Nodes[0], claim)
	p.startWriter(t, "writer-of-sharedvolume", testbed.Nodes[1], p.share(t, claim))
	p.run(t, []step{
		{"OLM v0 finds the next release", func(t *testing.T) { p.Update(t); p.awaitInstalled(t, "1.0.1") }, func(t *testing.T) {
			p.mustRunOperator(t)
			p.mustHaveUnpacked(t, "v1.0.1")
			p.mustRunDriver(t)
		}},
		{"must-gather runs", p.gather, nil},
		{"the operator moves from OLM v0 to OLM v1", p.moveToOLMv1, p.mustRunOperator},
		{"OLM v1 leaves the operator", p.remove, p.isGone},
		{"OLM v0 installs the operator again", func(t *testing.T) { p.subscribe(t) }, p.mustRunOperator},
	})
	if !t.Failed() {
		p.end(t, claim)
	}
}

// published is a driver whose operator is installed from a registry.
type published struct {
	*release.Published
	extended
}

const releasePage = "../../../docs/catalog/release.md"

// admitNodes lets real nodes pull from the registry. Others get no more pods.
func (p *published) admitNodes(t testing.TB) {
	t.Helper()
	for _, node := range testbed.Nodes {
		root, err := p.NodeRoot(node)
		if err == nil {
			err = p.AdmitNode(root)
		}
		require.NoError(t, err)
	}
	p.CordonProcessNodes(t)
}

// subscribe runs the page's commands, in a namespace that has an OperatorGroup, with a catalog that is polled often.
func (p *published) subscribe(t testing.TB) {
	t.Helper()
	p.Follow(t, releasePage, "### Install it on a cluster", "registry.example.com/team", p.Repository(""),
		"apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {name: csi-drivers, namespace: $NS}\nspec: {}\n---\n", "",
		"operatorgroup.operators.coreos.com/csi-drivers created\n", "", "interval: 45m", "interval: 20s")
}

// mustHaveUnpacked fails the test unless OLM serves the catalog from its image, and has unpacked the bundle of a version from its
// image.
func (p *published) mustHaveUnpacked(t *testing.T, version string) {
	t.Helper()
	of := p.catalogImage(t)
	cluster.Eventually(t, testbed.Limit, "the catalog to be served from "+of, func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := p.Client().List(ctx, pods, client.InNamespace(cluster.CatalogNamespace), client.MatchingLabels{"olm.catalogSource": "berth"}); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			for _, status := range pod.Status.InitContainerStatuses {
				if status.ImageID == of {
					return nil
				}
			}
		}
		return fmt.Errorf("none of %d pods has extracted it", len(pods.Items))
	})
	bundle := p.PullSpec(t, p.Driver.Package.Name+"-bundle:"+version)
	jobs := &batchv1.JobList{}
	require.NoError(t, p.Client().List(t.Context(), jobs, client.InNamespace(cluster.CatalogNamespace)))
	if !slices.ContainsFunc(jobs.Items, func(job batchv1.Job) bool {
		return job.Status.Succeeded == 1 && slices.ContainsFunc(job.Spec.Template.Spec.InitContainers, func(c corev1.Container) bool { return c.Image == bundle })
	}) {
		t.Errorf("no Job of %d has unpacked %s", len(jobs.Items), bundle)
	}
}

// catalogImage is the catalog's image, by digest.
func (p *published) catalogImage(t *testing.T) string {
	return p.PullSpec(t, "berth-catalog-openshift:latest")
}

// mustRunOperator waits until the operator of the last release is active, and checks that the pushed image runs: its
// program, as its user, and nothing else.
func (p *published) mustRunOperator(t *testing.T) {
	t.Helper()
	want := p.PullSpec(t, "berth-operator:latest")
	var pod *corev1.Pod
	cluster.Eventually(t, 2*testbed.Limit, want+" to be active", func(ctx context.Context) (err error) {
		if pod, err = journey.LockHolder(ctx, p.Client(), cluster.OperatorNamespace, p.Driver.Operator.Lock); err != nil {
			return err
		}
		if status := pod.Status.ContainerStatuses; len(status) != 1 || status[0].ImageID != want || pod.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s has %+v, and ends at %v", pod.Name, status, pod.DeletionTimestamp)
		}
		return nil
	})
	p.mustBe(t, pod, p.Image(t, "berth-operator:latest"))
	p.AwaitReady(t)
}

// mustBe fails the test unless the only container of a pod runs the program of an image, with the files of the image, as the user of
// the image or the one that OpenShift's SecurityContextConstraints have given the pod. The runtime adds folders of its own.
func (p *published) mustBe(t *testing.T, pod *corev1.Pod, img v1.Image) {
	t.Helper()
	process, err := p.ContainerProcess(pod, pod.Status.ContainerStatuses[0].Name)
	require.NoError(t, err)
	config, err := img.ConfigFile()
	require.NoError(t, err)
	running, err := os.ReadFile(filepath.Join(process, "exe"))
	require.NoError(t, err)
	content := mutate.Extract(img)
	defer content.Close()
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if header.Typeflag != tar.TypeReg {
			continue
		}
		pushed, err := io.ReadAll(archive)
		require.NoError(t, err)
		found, err := os.ReadFile(filepath.Join(process, "root", header.Name))
		if err != nil || !bytes.Equal(found, pushed) {
			t.Errorf("pod %s: /%s is not that of the image (%v)", pod.Name, header.Name, err)
		}
		if "/"+header.Name == config.Config.Entrypoint[0] && !bytes.Equal(running, pushed) {
			t.Errorf("pod %s runs another program than the image's %s", pod.Name, config.Config.Entrypoint[0])
		}
	}
	if programs, err := os.ReadDir(filepath.Join(process, "root/usr/bin")); err != nil || len(programs) != 1 {
		t.Errorf("pod %s has the programs %v (%v), want one", pod.Name, programs, err)
	}
	user := strings.Split(config.Config.User, ":")[0]
	if given := pod.Spec.SecurityContext.RunAsUser; given != nil {
		user = fmt.Sprint(*given)
	}
	status, err := os.ReadFile(filepath.Join(process, "status"))
	require.NoErrorf(t, err, "pod %s", pod.Name)
	assert.Containsf(t, string(status), fmt.Sprintf("\nUid:\t%[1]s\t%[1]s\t%[1]s\t%[1]s\n", user), "pod %s", pod.Name)
}

// gather runs must-gather's image as `oc adm must-gather` does: in a pod that may do anything, with a second container
// for copying the files.
func (p *published) gather(t *testing.T) {
	namespace := p.Namespace(t)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "default"}}}
	require.NoError(t, p.Client().Create(t.Context(), binding))
	container := func(name string, command ...string) corev1.Container {
		return corev1.Container{Name: name, Image: p.Repository("berth-must-gather:latest"), Command: command, VolumeMounts: []corev1.VolumeMount{{Name: "output", MountPath: "/must-gather"}}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "must-gather"}, Spec: corev1.PodSpec{
		NodeSelector:   map[string]string{corev1.LabelHostname: testbed.Nodes[0]},
		InitContainers: []corev1.Container{container("gather", "/usr/bin/gather")},
		Containers:     []corev1.Container{container("copy", "/bin/bash", "-c", "trap exit TERM; while :; do read -t 1 <> <(:); done")},
		Volumes:        []corev1.Volume{{Name: "output", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}}
	require.NoError(t, p.Client().Create(t.Context(), pod))
	p.AwaitPod(t, pod)
	folder := filepath.Join(t.TempDir(), "must-gather")
	out, err := p.Kubectl(t.Context(), "cp", "--container=copy", namespace+"/must-gather:/must-gather", folder).CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	files := mustgather.Files(t, folder)
	// Only OpenShift has that ConfigMap.
	const unverified = "efs.csi.aws.com/operator/metrics.txt: cannot verify the operator's certificate: there is no ConfigMap openshift-service-ca.crt in namespace openshift-operators\n"
	assert.Equal(t, unverified, files["missing.txt"], "not collected")
	mustgather.Check(t, files, map[string]string{
		"version":                               "aws-efs-operator.v1.0.1",
		"efs.csi.aws.com/clustercsidriver.yaml": "type: Available",
		"efs.csi.aws.com/apis/sharedvolumes.aws-efs.managed.openshift.io/objects/*.yaml":       "name: website",
		"efs.csi.aws.com/namespaces/openshift-operators/pods/aws-efs-operator-*/*operator.log": `"Starting the operator" driver="efs.csi.aws.com"`,
	})
	p.Delete(t, pod, binding)
}

// mustRunDriver fails the test unless the driver's pods run images of the registry, by digest.
func (p *published) mustRunDriver(t *testing.T) {
	t.Helper()
	p.mustRunOperator(t)
	for _, pod := range p.DriverPods(t) {
		for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			if !strings.HasPrefix(container.Image, p.Address+"/") || !strings.Contains(container.Image, "@sha256:") {
				t.Errorf("container %s of pod %s has image %s, want one of the registry by digest", container.Name, pod.Name, container.Image)
			}
		}
		for _, status := range pod.Status.ContainerStatuses {
			if !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == status.Name && c.Image == status.ImageID }) {
				t.Errorf("container %s of pod %s runs %s, which is not its image", status.Name, pod.Name, status.ImageID)
			}
		}
	}
}

// moveToOLMv1 follows docs/move/olm-v1.md, with OLM v0's catalog.
func (p *published) moveToOLMv1(t *testing.T) {
	olmv1.Start(t, p.Cluster, olmv1.Options{Registry: p.Secure})
	p.Follow(t, olmPage, "## From OLM v0")
	p.Delete(t, &v1alpha1.CatalogSource{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.CatalogNamespace, Name: "berth"}})
	p.install(t, p.Repository("berth-catalog-openshift:latest"))
}

// end deletes the users of volumes, and then everything, as the page says.
func (p *published) end(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	for _, writer := range p.writers {
		p.Delete(t, writer.Pod)
	}
	p.Delete(t, p.shared)
	p.Delete(t, claim)
	p.Follow(t, releasePage, "### Remove it from the cluster")
	for _, list := range []client.ObjectList{
		&storagev1.CSIDriverList{}, &corev1.PersistentVolumeList{}, &appsv1.DaemonSetList{}, &appsv1.DeploymentList{}, &corev1.PodList{},
		&v1alpha1.ClusterServiceVersionList{}, &v1alpha1.CatalogSourceList{},
	} {
		cluster.Eventually(t, testbed.Limit, fmt.Sprintf("all of %T to be gone", list), func(ctx context.Context) error {
			if err := p.Client().List(ctx, list); err != nil {
				return err
			}
			left := 0
			if err := meta.EachListItem(list, func(object runtime.Object) error {
				if object.(client.Object).GetNamespace() != olmv1.Namespace { // its pod is the test's
					left++
				}
				return nil
			}); err != nil {
				return err
			}
			if left > 0 {
				return fmt.Errorf("%d are left", left)
			}
			return nil
		})
	}
}
