package matrix

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/manila"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/openstack"
	"github.com/berth-csi/berth/test/drivers/images"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// testManilaNodes: the node pods start without a restart, even if the NFS plugin comes late, and register the
// driver with the ID that the node has in the cloud. One node has only a config drive, the other one only the metadata
// service.
func testManilaNodes(t *testing.T) {
	cloud := openstack.Start(t, "default")
	drive, metadata := cloud.AddInstance(cluster.RealNode(0)), cloud.AddInstance(cluster.RealNode(1))
	c := cluster.Start(t, cluster.Options{RealNodes: 2, ImageArchives: manilaArchives(t)})
	attachConfigDrive(t, c, drive)
	testbed.ServeOpenStackMetadata(t, c, metadata.Name, cloud.MetadataHandler(metadata))

	installManila(t, c, cloud.CloudsYAML(), func(object *unstructured.Unstructured) bool {
		return slices.Contains([]string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "CSIDriver"}, object.GetKind()) ||
			object.GetName() == "openstack-manila-csi-nodeplugin"
	})
	cluster.Eventually(t, testbed.Limit, "the driver to wait for the NFS plugin", func(ctx context.Context) error {
		waiting := 0
		for _, pod := range manilaPodsOn(t, c, drive.Name, metadata.Name) {
			for _, status := range pod.Status.InitContainerStatuses {
				if status.State.Running != nil {
					waiting++
				}
			}
		}
		if waiting != 2 {
			return fmt.Errorf("it waits on %d nodes, want two", waiting)
		}
		return nil
	})
	installManila(t, c, nil, func(object *unstructured.Unstructured) bool { return object.GetName() == "csi-nodeplugin-nfsplugin" })
	cluster.Eventually(t, testbed.Limit, "the driver on both nodes", func(ctx context.Context) error {
		ids := map[string]string{}
		for _, name := range []string{drive.Name, metadata.Name} {
			var node storagev1.CSINode
			if err := c.Client().Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
				return err
			}
			for _, driver := range node.Spec.Drivers {
				ids[driver.Name+" on "+node.Name] = driver.NodeID
			}
		}
		var errs []error
		if diff := cmp.Diff(map[string]string{manila.Driver.CSIName + " on " + drive.Name: drive.ID, manila.Driver.CSIName + " on " + metadata.Name: metadata.ID}, ids); diff != "" {
			errs = append(errs, fmt.Errorf("IDs of the nodes (-want +got):\n%s", diff))
		}
		for _, pod := range manilaPodsOn(t, c, drive.Name, metadata.Name) {
			errs = append(errs, troublesOf(pod))
		}
		return errors.Join(errs...)
	})
}

// manilaPodsOn returns the driver's pods on these nodes.
func manilaPodsOn(t *testing.T, c *cluster.Cluster, nodes ...string) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	require.NoError(t, c.Client().List(t.Context(), &pods, client.InNamespace(manila.Driver.Namespace)))
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !slices.Contains(nodes, pod.Spec.NodeName) })
}

// troublesOf returns an error with each container of a pod that does not run or has crashed.
func troublesOf(pod corev1.Pod) error {
	var errs []error
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		done := status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
		if testbed.HasCrashed(status) || !status.Ready && !done {
			errs = append(errs, fmt.Errorf("pod %s, container %s: %d restarts, state %v, before %v",
				pod.Name, status.Name, status.RestartCount, status.State, status.LastTerminationState))
		}
	}
	return errors.Join(errs...)
}

// manilaArchives packs the images of the node pods. The driver's image has a mount.iso9660, because kernels that tests run on
// may have no such file system.
func manilaArchives(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, image := range manila.Driver.Images {
		tag, err := name.NewTag(image.Default)
		require.NoError(t, err)
		archive, err := images.Archive(t.Context(), nil, image.Default)
		require.NoError(t, err)
		if image.Env == "DRIVER_IMAGE" {
			archive = withFile(t, archive, tag, "testdata/mount.iso9660", "/sbin/mount.iso9660")
		}
		found[tag.Repository.Name()] = archive
	}
	return found
}

// withFile returns the archive of an image with one more program.
func withFile(t *testing.T, archive string, tag name.Tag, source, target string) string {
	t.Helper()
	content, err := os.ReadFile(source)
	require.NoError(t, err)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err = errors.Join(
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(target, "/"), Mode: 0o755, Size: int64(len(content))}),
		func() error { _, err := w.Write(content); return err }(), w.Close())
	require.NoError(t, err)
	image, err := tarball.ImageFromPath(archive, nil)
	require.NoError(t, err)
	added, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	require.NoError(t, err)
	image, err = mutate.AppendLayers(image, added)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "image.tar")
	require.NoError(t, tarball.WriteToFile(path, tag, image))
	return path
}

// installManila creates the selected objects of the driver, without an operator. In the namespace it also creates
// OpenShift's additions: the cloud's credentials, and a certificate for the metrics.
func installManila(t *testing.T, c *cluster.Cluster, cloudsYAML []byte, selects func(*unstructured.Unstructured) bool) {
	t.Helper()
	manifests, err := manila.Driver.Manifests(drivers.Values{Namespace: manila.Driver.Namespace, Image: func(env string) string {
		return manila.Driver.Images[slices.IndexFunc(manila.Driver.Images, func(i drivers.Image) bool { return i.Env == env })].Default
	}})
	require.NoError(t, err)
	create := func(object client.Object) {
		t.Helper()
		require.NoError(t, c.Client().Create(t.Context(), object))
	}
	fill := strings.NewReplacer("${LOG_LEVEL}", "4", "${TLS_CIPHER_SUITES}", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "${TLS_MIN_VERSION}", "VersionTLS12")
	for _, m := range manifests {
		if !selects(m.Object) {
			continue
		}
		text, err := m.Object.MarshalJSON()
		require.NoError(t, err)
		object := &unstructured.Unstructured{}
		require.NoError(t, object.UnmarshalJSON([]byte(fill.Replace(string(text)))))
		create(object)
		if object.GetKind() == "Namespace" {
			certificate, key, err := cert.GenerateSelfSignedCertKey("metrics", nil, nil)
			require.NoError(t, err)
			for name, data := range map[string]map[string][]byte{
				manila.Driver.Backend.Secret:                  {"clouds.yaml": cloudsYAML},
				"manila-csi-driver-node-metrics-serving-cert": {corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
			} {
				create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: object.GetName(), Name: name}, Data: data})
			}
		}
	}
}

// attachConfigDrive gives a node a disk with its metadata, as Nova makes one. Its file system is ext4: the
// kernel that tests run on may have no iso9660. The disk's number is one that other nodes of this machine have no device
// for.
func attachConfigDrive(t *testing.T, c *cluster.Cluster, instance openstack.Instance) {
	t.Helper()
	root, err := c.NodeRoot(instance.Name)
	require.NoError(t, err)
	content, drive := t.TempDir(), filepath.Join(t.TempDir(), "config-drive")
	folder := filepath.Join(content, "openstack", "latest")
	err = errors.Join(os.MkdirAll(folder, 0o755),
		os.WriteFile(filepath.Join(folder, "meta_data.json"), []byte(`{"uuid": "`+instance.ID+`", "name": "`+instance.Name+`", "availability_zone": "`+instance.Zone+`"}`), 0o644),
		os.WriteFile(drive, nil, 0o600), os.Truncate(drive, 1<<20))
	require.NoError(t, err)
	out, err := exec.Command("mkfs.ext4", "-q", "-L", "config-2", "-d", content, drive).CombinedOutput()
	require.NoErrorf(t, err, "make a file system\n%s", out)
	attachLoop(t, drive, filepath.Join(root, "dev"))
}

// attachLoop makes a file a disk with a device file in a folder, until the test ends. Other nodes have no device file
// with its number, so it is not among their disks.
func attachLoop(t *testing.T, path, folder string) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	require.NoError(t, err)
	defer control.Close()
	const first, last = 200, 250
	for number := first; number < last; number++ {
		if err := unix.IoctlSetInt(int(control.Fd()), unix.LOOP_CTL_ADD, number); errors.Is(err, unix.EEXIST) {
			continue
		} else if err != nil {
			t.Fatalf("add a loop device: %v", err)
		}
		device := filepath.Join(folder, fmt.Sprintf("loop%d", number))
		require.NoError(t, unix.Mknod(device, unix.S_IFBLK|0o660, int(unix.Mkdev(7, uint32(number)))))
		opened, err := os.OpenFile(device, os.O_RDWR, 0)
		require.NoError(t, err)
		t.Cleanup(func() {
			err := errors.Join(unix.IoctlSetInt(int(opened.Fd()), unix.LOOP_CLR_FD, 0), opened.Close())
			control, openErr := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
			if err := errors.Join(err, openErr, unix.IoctlSetInt(int(control.Fd()), unix.LOOP_CTL_REMOVE, number), control.Close()); err != nil {
				t.Errorf("remove the loop device %d: %v", number, err)
			}
		})
		if err := unix.IoctlLoopConfigure(int(opened.Fd()), &unix.LoopConfig{Fd: uint32(file.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_READ_ONLY}}); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no loop device between %d and %d is free", first, last)
}
