package continuity

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/lab/cluster"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/mustgather"
	"github.com/berth-csi/berth/test/olmv1"
	"github.com/berth-csi/berth/test/release"
)

// TestEFSOfOLMv1: an administrator follows docs/move/olm-v1.md, with its commands: moves the operator from OLM v0, updates
// it, removes it and installs it again. The API of SharedVolumes stays, with the volumes that pods use.
func TestEFSOfOLMv1(t *testing.T) {
	needAll(t)
	programs := olmv1.Images(t)
	e := &extended{watch: &watch{accounts: ofOLM(efs.Driver)}}
	e.Testbed = testbed.Start(t, testbed.Options{Driver: efs.Driver, Cloud: efsCloud(t), MorePrograms: programs})
	e.olm = olmv1.Start(t, e.Cluster, olmv1.Options{})

	class := createClass(t, e.Testbed)
	namespace := e.Namespace(t)
	claim := e.Claim(t, testbed.Claim{Namespace: namespace, Name: "files", Class: class})
	e.startWriter(t, "writer-of-claim", testbed.Nodes[0], claim)
	e.startWriter(t, "writer-of-sharedvolume", testbed.Nodes[1], e.share(t, claim))
	first := release.Build(t, efs.Driver)
	second := first.Update(t)
	e.run(t, []step{
		{"the operator moves from OLM v0 to OLM v1", func(t *testing.T) { e.Follow(t, movePage, "## By hand"); e.install(t, e.push(t, first)) }, e.runs("1.0.0")},
		{"the operator is updated to 1.0.1", func(t *testing.T) { e.updateCatalog(t, e.push(t, second)) }, func(t *testing.T) {
			e.runs("1.0.1")(t)
			e.mustDiagnose(t, first.Berth)
			e.mustGather(t)
		}},
		{"the operator is removed", e.remove, e.isGone},
		{"the operator is installed again", func(t *testing.T) { e.install(t, e.push(t, second)) }, func(t *testing.T) {
			e.runs("1.0.1")(t)
			e.Bound(t, e.Claim(t, testbed.Claim{Namespace: namespace, Name: "again", Class: class}))
		}},
	})
}

// extended is a driver whose operator OLM v1 has installed.
type extended struct {
	*watch
	olm *olmv1.OLM
	// shared is the volume of the SharedVolume.
	shared *sharedvolume.SharedVolume
}

const (
	olmPage  = "../../../docs/move/olm-v1.md"
	movePage = "../../../docs/move/move-to-olm-v1.md"
)

// push pushes the bundles of a release and their catalog to OLM's registry, and returns the reference of the catalog's image.
func (e *extended) push(t testing.TB, r release.Release) string {
	t.Helper()
	bundles := map[string]string{}
	for _, folder := range r.Bundles {
		bundles[e.Driver.Package.Name+".v"+filepath.Base(folder)] = folder
	}
	return e.olm.PushCatalog("berth:"+filepath.Base(r.Bundles[len(r.Bundles)-1]), r.Catalog, e.Driver.Package.Name, bundles)
}

// install runs the page's commands, with a catalog of the test's registry.
func (e *extended) install(t testing.TB, catalog string) {
	t.Helper()
	const name = "  name: berth\n"
	e.Follow(t, olmPage, "## Install", "registry.example.com/team/berth-catalog-openshift:latest", catalog,
		name, name+"  labels: {olm.operatorframework.io/metadata.name: berth}\n") // OLM's webhook, which cannot be reached here, would add it
}

func (e *extended) remove(t *testing.T) { e.Follow(t, olmPage, "## Remove the operator") }

func (e *extended) updateCatalog(t *testing.T, ref string) {
	catalog := &unstructured.Unstructured{}
	catalog.SetGroupVersionKind(extensionKind.GroupVersion().WithKind("ClusterCatalog"))
	catalog.SetName("berth")
	if err := e.Client().Patch(t.Context(), catalog, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"source":{"image":{"ref":%q}}}}`, ref))); err != nil {
		t.Fatal(err)
	}
}

// runs checks that an operator of a version runs, and the driver.
func (e *extended) runs(version string) func(*testing.T) {
	return func(t *testing.T) {
		e.awaitOperator(t, version)
		e.AwaitReady(t)
	}
}

// awaitOperator waits until an operator of a version is active.
func (e *extended) awaitOperator(t testing.TB, version string) {
	t.Helper()
	cluster.Eventually(t, 2*testbed.Limit, "version "+version+" to be active", func(ctx context.Context) error {
		pod, err := journey.LockHolder(ctx, e.Client(), cluster.OperatorNamespace, e.Driver.Operator.Lock)
		if err != nil {
			return err
		}
		if image := pod.Spec.Containers[0].Image; !strings.HasSuffix(image, ":v"+version) || pod.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s has image %s, and ends at %v", pod.Name, image, pod.DeletionTimestamp)
		}
		return nil
	})
}

// mustDiagnose waits until "berth doctor" knows that OLM v1 has installed the operator, and misses nothing of OLM v0.
func (e *extended) mustDiagnose(t *testing.T, berth string) {
	t.Helper()
	cluster.Eventually(t, testbed.Limit, "berth doctor to find the ClusterExtension", func(ctx context.Context) error {
		output, _ := exec.CommandContext(ctx, berth, "doctor", e.Driver.Name, "--kubeconfig", e.Kubeconfig()).Output() // it also warns of other things
		if text := string(output); !strings.Contains(text, "OLM v1 has installed "+e.csvOf("1.0.1").Name) || strings.Contains(text, "no Subscription") {
			return fmt.Errorf("it says\n%s", text)
		}
		return nil
	})
}

// mustGather checks that the script collects the support data of an operator that OLM v1 has installed.
func (e *extended) mustGather(t *testing.T) {
	t.Helper()
	folder, _ := mustgather.Run(t, e.Cluster)
	files := mustgather.Files(t, folder)
	mustgather.Check(t, files, map[string]string{
		"version":                                                 e.csvOf("1.0.1").Name,
		"cluster/clusterextensions.yaml":                          "name: " + e.Driver.Package.Name,
		"cluster/clustercatalogs.yaml":                            "name: berth",
		e.Driver.CSIName + "/operator/clusterroles.yaml":          "- clustercsidrivers",
		e.Driver.CSIName + "/apis/sharedvolumes.*/objects/*.yaml": "name: " + e.shared.Name,
		e.Driver.CSIName + "/namespaces/*/pods/" + e.Driver.Operator.Name + "-*/*operator.log": "Starting the operator",
	})
	assert.NotContains(t, files["missing.txt"], e.Driver.CSIName+"/operator: ", "it does not know what has installed the operator")
}

// share shares the files of a claim with another namespace, and returns its claim.
func (e *extended) share(t *testing.T, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	t.Helper()
	fileSystemID, accessPoint, _ := strings.Cut(e.Bound(t, claim).Spec.CSI.VolumeHandle, "::")
	e.shared = &sharedvolume.SharedVolume{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace(t), Name: "website"},
		Spec: sharedvolume.SharedVolumeSpec{FileSystemID: fileSystemID, AccessPointID: accessPoint}}
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Limit)
	defer cancel()
	require.NoError(t, journey.Grant(ctx, e.Client(), e.shared.Namespace, fileSystemID, sharedvolume.AllAccessPoints))
	name, err := journey.Share(ctx, e.Client(), e.shared)
	require.NoError(t, err)
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: e.shared.Namespace, Name: name}}
}

// isGone checks that only the operator's APIs are left, with their objects, and that the driver runs.
func (e *extended) isGone(t *testing.T) {
	e.mustHaveInstalled(t, efs.Driver.Package.Name, 3)
	uid := e.shared.UID
	if err := e.Client().Get(t.Context(), client.ObjectKeyFromObject(e.shared), e.shared); err != nil || e.shared.UID != uid || e.shared.DeletionTimestamp != nil {
		t.Errorf("the SharedVolume has UID %s, and is deleted at %v, error %v; want it as it was, with UID %s", e.shared.UID, e.shared.DeletionTimestamp, err, uid)
	}
	e.AwaitReady(t)
}
