package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/clusterstorage"
	"github.com/berth-csi/berth/test/drivers/testbed"
	"github.com/berth-csi/berth/test/journey"
)

// onPlatform demonstrates the cluster storage operator on a platform: the operator runs the platform's drivers, and for
// each driver a pod uses a volume.
type onPlatform struct{ name string }

func (p onPlatform) run(ctx context.Context, s *demo) error {
	platform, err := testbed.PlatformOf(p.name)
	if err != nil {
		return err
	}
	cloud, err := p.cloud()
	if err != nil {
		return err
	}
	if err := cloud.build(ctx, s); err != nil {
		return err
	}
	stages := []stage{
		{"local cluster", cloud.startCluster(s)},
		{"cluster storage operator", func(ctx context.Context) (string, error) {
			return "runs from the manifests of its release", platform.Install(ctx, s.cluster.Client())
		}},
	}
	for _, driver := range platform.Drivers() {
		stages = append(stages, stage{driver.CSIName, p.awaitDriver(s, driver)})
	}
	stages = append(stages, stage{"cluster operator", p.awaitClusterOperator(s)})
	for _, driver := range platform.Drivers() {
		stages = append(stages, stage{"volume of " + driver.Name, p.useVolume(s, driver)})
	}
	if err := s.run(ctx, stages...); err != nil {
		return err
	}
	p.farewell(s)
	return nil
}

// cloud returns the platform's simulated cloud. Other demonstrations change parts of it.
func (p onPlatform) cloud() (simulatedCloud, error) {
	platform, err := testbed.PlatformOf(p.name)
	if err != nil {
		return simulatedCloud{}, err
	}
	return simulatedCloud{name: p.name, snapshots: true, archives: platform.Archives,
		start: func(t testing.TB, _ *demo) (testbed.Cloud, error) { return platform.Start(t), nil }}, nil
}

func (p onPlatform) runCloud(ctx context.Context, s *demo) error {
	cloud, err := p.cloud()
	if err != nil {
		return err
	}
	return cloud.run(ctx, s)
}

// awaitDriver waits until the cluster storage operator has installed a driver and the driver is Available, or returns
// why the operator leaves the driver out.
func (p onPlatform) awaitDriver(s *demo, driver drivers.Driver) func(context.Context) (string, error) {
	return func(ctx context.Context) (result string, err error) {
		err = cluster.Until(ctx, driver.CSIName+" to be installed, or left out", func(ctx context.Context) error {
			result, err = p.leftOut(ctx, s.cluster.Client(), driver)
			if err != nil || result != "" {
				return err
			}
			return s.cluster.Client().Get(ctx, client.ObjectKey{Name: driver.CSIName}, &operatorv1.ClusterCSIDriver{})
		})
		if err != nil || result != "" {
			return result, err
		}
		return "is Available: " + driver.Operator.Name + " runs it", journey.AwaitDriver(ctx, s.cluster.Client(), driver.CSIName)
	}
}

// leftOut returns why a driver is not installed, from the status of Storage, or "" if Storage gives no reason.
func (p onPlatform) leftOut(ctx context.Context, c client.Client, driver drivers.Driver) (string, error) {
	storage := &operatorv1.Storage{}
	if err := c.Get(ctx, client.ObjectKey{Name: "cluster"}, storage); err != nil {
		return "", err
	}
	for _, condition := range storage.Status.Conditions {
		for sentence := range strings.SplitSeq(condition.Message, "; ") {
			if strings.HasPrefix(sentence, driver.CSIName+" is not installed") {
				return sentence, nil
			}
		}
	}
	return "", nil
}

// awaitClusterOperator waits until the ClusterOperator is Available, and neither Progressing nor Degraded.
func (p onPlatform) awaitClusterOperator(s *demo) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		return clusterstorage.ClusterOperatorName + " is Available at " + cluster.OpenShiftVersion, testbed.AwaitClusterOperator(ctx, s.cluster.Client())
	}
}

// useVolume makes a pod write to a volume of the driver's StorageClass, and read back what it wrote.
func (p onPlatform) useVolume(s *demo, driver drivers.Driver) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		class, err := classOf(ctx, s.cluster.Client(), driver.CSIName)
		if err != nil || class == "" {
			return cmp.Or(class, "the driver has no StorageClass"), err
		}
		return s.writeToClaim(ctx, client.ObjectKey{Namespace: team, Name: driver.Name}, class, corev1.ReadWriteOnce)
	}
}

// writeToClaim makes a pod write to a volume of a StorageClass, and read back what it wrote. The pod and its claim have
// the same name.
func (s *demo) writeToClaim(ctx context.Context, key client.ObjectKey, class string, mode corev1.PersistentVolumeAccessMode) (string, error) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{mode},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}
	pod := journey.PodWithClaim(key.Namespace, key.Name, claim.Name)
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: testbed.Nodes[0]}
	for _, object := range []client.Object{claim, pod} {
		if err := journey.Ensure(ctx, s.cluster.Client(), object); err != nil {
			return "", err
		}
	}
	if err := journey.AwaitPod(ctx, s.cluster.Client(), key); err != nil {
		return "", err
	}
	greeting := "ahoy from " + key.Name + "\n"
	if _, err := s.exec(ctx, pod.Name, userProgram, "write", fileOf(pod.Name), greeting); err != nil {
		return "", err
	}
	if read, err := s.exec(ctx, pod.Name, readFrom(pod.Name)...); err != nil || read != greeting {
		return "", cmp.Or(err, fmt.Errorf("the pod reads %q, want %q, which it wrote", read, greeting))
	}
	return fmt.Sprintf("claim %s of class %s is Bound, and a pod writes to it", claim.Name, class), nil
}

// classOf returns the name of the driver's default StorageClass. If the driver has no default StorageClass, it returns
// the first one by name, or "" if there is none.
func classOf(ctx context.Context, c client.Client, driver string) (string, error) {
	classes := &storagev1.StorageClassList{}
	if err := c.List(ctx, classes); err != nil {
		return "", err
	}
	var names []string
	for _, class := range classes.Items {
		if class.Provisioner != driver {
			continue
		}
		if class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
			return class.Name, nil
		}
		names = append(names, class.Name)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "", nil
	}
	return names[0], nil
}

func (p onPlatform) farewell(s *demo) {
	s.farewell(staysUp, "",
		s.kubectl()+" get clusteroperator "+clusterstorage.ClusterOperatorName+" -o yaml",
		s.kubectl()+" get clustercsidrivers,storageclasses,pvc,pv",
		s.kubectl()+" -n "+drivers.ClusterStorageNamespace+" get pods -o wide",
	)
}
