// Package journey has the actions of an administrator with the Operator Lifecycle Manager (OLM), from a catalog to a
// driver that serves volumes. Each of them does one thing and waits until the cluster shows its effect. The
// demonstration and the end-to-end tests use them.
package journey

import (
	"context"
	"fmt"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

func init() { cluster.AddToScheme(sharedvolume.AddToScheme) }

// CatalogPort is the port that catalogs are usually served on.
const CatalogPort = 50051

// CatalogFolder is the catalog's folder in a catalog pod.
const CatalogFolder = "/run/catalog"

// Catalog is a local folder with a catalog, and the program that serves it to OLM.
type Catalog struct {
	Name   string
	Folder string
	Port   int
	// Image must be known to the cluster's nodes. In Args, $(POD_IP) stands for the pod's address.
	Image string
	Args  []string
}

// ServeCatalog runs a pod that serves a catalog, and creates a CatalogSource for it.
func ServeCatalog(ctx context.Context, c client.Client, catalog Catalog) error {
	name := catalog.Name
	labels := map[string]string{"catalog": name}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cluster.CatalogNamespace, Labels: labels},
		Spec: corev1.PodSpec{
			// With real nodes, only process nodes have this role. OLM cannot connect to a pod of a real node.
			NodeSelector: map[string]string{"node-role.kubernetes.io/control-plane": ""},
			Tolerations:  []corev1.Toleration{{Key: "node-role.kubernetes.io/master", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name:  "catalog",
				Image: catalog.Image,
				Args:  catalog.Args,
				Env: []corev1.EnvVar{{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{
					FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
					TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(catalog.Port)}}},
				VolumeMounts: []corev1.VolumeMount{{Name: "catalog", MountPath: CatalogFolder}},
				// If the container does not start, the error below has its log.
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			}},
			Volumes: []corev1.Volume{{Name: "catalog", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: catalog.Folder}}}},
		},
	}
	if err := Ensure(ctx, c, pod); err != nil {
		return err
	}
	if err := AwaitPod(ctx, c, client.ObjectKeyFromObject(pod)); err != nil {
		return err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	source := &v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cluster.CatalogNamespace},
		Spec: v1alpha1.CatalogSourceSpec{
			SourceType:  v1alpha1.SourceTypeGrpc,
			Address:     fmt.Sprintf("%s:%d", pod.Status.PodIP, catalog.Port),
			DisplayName: name,
		},
	}
	if err := Ensure(ctx, c, source); err != nil {
		return err
	}
	return cluster.Until(ctx, fmt.Sprintf("OLM to read catalog %s", name), func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
			return err
		}
		if state := source.Status.GRPCConnectionState; state == nil || state.LastObservedState != "READY" {
			return fmt.Errorf("CatalogSource %s is not connected: %s", name, source.Status.Message)
		}
		return nil
	})
}

// Subscribe creates a Subscription and returns the name of the ClusterServiceVersion once that has Succeeded.
func Subscribe(ctx context.Context, c client.Client, subscription *v1alpha1.Subscription) (string, error) {
	if err := Ensure(ctx, c, subscription); err != nil {
		return "", err
	}
	csv := &v1alpha1.ClusterServiceVersion{}
	err := cluster.Until(ctx, fmt.Sprintf("OLM to install %s", subscription.Spec.Package), func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(subscription), subscription); err != nil {
			return err
		}
		if subscription.Status.InstalledCSV == "" {
			return fmt.Errorf("no ClusterServiceVersion is installed for Subscription %s: %s", subscription.Name, subscriptionTroubles(subscription))
		}
		if err := c.Get(ctx, client.ObjectKey{Namespace: subscription.Namespace, Name: subscription.Status.InstalledCSV}, csv); err != nil {
			return err
		}
		if csv.Status.Phase != v1alpha1.CSVPhaseSucceeded {
			return fmt.Errorf("ClusterServiceVersion %s is %s: %s", csv.Name, csv.Status.Phase, csv.Status.Message)
		}
		return nil
	})
	return csv.Name, err
}

func subscriptionTroubles(subscription *v1alpha1.Subscription) string {
	var troubles []string
	for _, condition := range subscription.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			troubles = append(troubles, fmt.Sprintf("%s: %s", condition.Type, condition.Message))
		}
	}
	return strings.Join(troubles, "; ")
}

// InstallDriver creates a driver's ClusterCSIDriver, and waits like AwaitDriver.
func InstallDriver(ctx context.Context, c client.Client, name string) error {
	driver := &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
	}
	if err := Ensure(ctx, c, driver); err != nil {
		return err
	}
	return AwaitDriver(ctx, c, name)
}

// AwaitDriver waits until a driver is available, not degraded, and no longer progressing.
func AwaitDriver(ctx context.Context, c client.Client, name string) error {
	driver := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}}
	want := map[string]operatorv1.ConditionStatus{
		operatorv1.OperatorStatusTypeAvailable:   operatorv1.ConditionTrue,
		operatorv1.OperatorStatusTypeProgressing: operatorv1.ConditionFalse,
		operatorv1.OperatorStatusTypeDegraded:    operatorv1.ConditionFalse,
	}
	return cluster.Until(ctx, fmt.Sprintf("driver %s to be available", name), func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(driver), driver); err != nil {
			return err
		}
		met := 0
		var last string
		for _, condition := range driver.Status.Conditions {
			if status, ok := want[condition.Type]; ok && condition.Status == status {
				met++
			} else if ok {
				last = fmt.Sprintf("%s is %s: %s", condition.Type, condition.Status, condition.Message)
			}
		}
		if met < len(want) {
			return fmt.Errorf("ClusterCSIDriver %s: %d of %d conditions as wanted; %s", name, met, len(want), last)
		}
		return nil
	})
}

// Grant lets the SharedVolumes of a namespace mount access points of a file system, and waits until the grant is
// effective.
func Grant(ctx context.Context, c client.Client, namespace, fileSystem string, accessPoints ...string) error {
	grant := &sharedvolume.SharedVolumeGrant{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: sharedvolume.SharedVolumeGrantSpec{FileSystems: []sharedvolume.FileSystemGrant{
			{FileSystemID: fileSystem, AccessPointIDs: accessPoints}}},
	}
	if err := Ensure(ctx, c, grant); err != nil {
		return err
	}
	return cluster.Until(ctx, fmt.Sprintf("SharedVolumeGrant %s to be effective", namespace), func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(grant), grant); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(grant.Status.Conditions, sharedvolume.ConditionEffective) {
			return fmt.Errorf("its conditions are %v", grant.Status.Conditions)
		}
		return nil
	})
}

// Share creates a SharedVolume and returns the name of its claim once that is Bound.
func Share(ctx context.Context, c client.Client, volume *sharedvolume.SharedVolume) (string, error) {
	if err := Ensure(ctx, c, volume); err != nil {
		return "", err
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := cluster.Until(ctx, fmt.Sprintf("SharedVolume %s to be bound", volume.Name), func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(volume), volume); err != nil {
			return err
		}
		if volume.Status.Phase != sharedvolume.Ready {
			return fmt.Errorf("SharedVolume %s is %q: %s", volume.Name, volume.Status.Phase, volume.Status.Message)
		}
		if err := c.Get(ctx, client.ObjectKey{Namespace: volume.Namespace, Name: volume.Status.ClaimRef.Name}, claim); err != nil {
			return err
		}
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("PersistentVolumeClaim %s is %s", claim.Name, claim.Status.Phase)
		}
		return nil
	})
	return claim.Name, err
}

// Gone waits until all objects are gone.
func Gone(ctx context.Context, c client.Client, objects ...client.Object) error {
	for _, object := range objects {
		err := cluster.Until(ctx, fmt.Sprintf("%T %s to be gone", object, object.GetName()), func(ctx context.Context) error {
			err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
			return fmt.Errorf("it is still there, with finalizers %v", object.GetFinalizers())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Ensure creates an object unless it exists, so that a repeated action does no harm.
func Ensure(ctx context.Context, c client.Client, object client.Object) error {
	if err := c.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
	}
	return nil
}
