package uninstall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/listing"
)

const (
	// maxUsers is how many pods the search finds before it stops.
	maxUsers = 1000
	// maxNamespaces is the number of namespaces whose pods are listed one namespace at a time. If volumes belong to
	// more namespaces, all pods of the cluster are listed.
	maxNamespaces = 50
	// maxClockSkew is by how much the clocks of a control plane may differ.
	maxClockSkew = 10 * time.Second
)

// inUse finds the pods that may have a volume of a driver mounted. It relies only on fields that no tenant can write. A
// PersistentVolume says which claim it is bound to, while a claim may name any volume. In a pod's status, the kubelet
// reports that the pod was admitted to a node, while a pod's spec may name any node.
type inUse struct {
	kube   kubernetes.Interface
	driver drivers.Driver
	now    time.Time
	nodes  *nodes
	// driverNodes returns the names of the nodes with node pods of the driver.
	driverNodes func(context.Context) (map[string]bool, error)
}

// claimKey is a claim's namespace and name.
type claimKey = types.NamespacedName

// binding says how volumes of the driver are bound to the claims of one name.
type binding struct {
	bound bool      // a volume is bound to a claim of that name now
	until time.Time // when the last volume that was bound to an earlier claim was released
}

// persistentVolume and pod hold the required fields of these objects.
type (
	persistentVolume struct {
		Spec sourced[struct {
			ClaimRef *struct {
				Namespace, Name string
				UID             types.UID
			}
		}]
		Status struct {
			Phase                   corev1.PersistentVolumePhase
			LastPhaseTransitionTime *metav1.Time
		}
	}
	pod struct {
		Metadata struct {
			Namespace, Name   string
			CreationTimestamp metav1.Time
			DeletionTimestamp *metav1.Time
		}
		Spec struct {
			NodeName string
			Volumes  []sourced[struct {
				Name                  string
				PersistentVolumeClaim *struct{ ClaimName string }
				Ephemeral             *struct{}
			}]
		}
		Status struct {
			Phase     corev1.PodPhase
			StartTime *metav1.Time
		}
	}
)

// errEnough ends a list early.
var errEnough = errors.New("enough")

// pods returns at most maxUsers pods, and the lost pods separately.
func (i inUse) pods(ctx context.Context) (users, left []placedPod, err error) {
	bindings, err := i.bindings(ctx)
	if err != nil {
		return nil, nil, err
	}
	inline, err := i.allowsInline(ctx)
	if err != nil {
		return nil, nil, err
	}
	search := search{inUse: i, bindings: bindings, inline: inline}
	for _, namespace := range i.namespaces(bindings, inline) {
		// Pods without a node, and pods that have ended, have nothing mounted.
		list := listing.List{Resource: "pods", Namespace: namespace, Fields: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}
		err := listing.Each(ctx, i.kube.CoreV1().RESTClient(), list, func(p pod) error {
			found, err := search.uses(ctx, p)
			if err != nil || !found {
				return err
			}
			gone, err := search.lost(ctx, p)
			switch {
			case err != nil:
				return err
			case !gone:
				users = append(users, place(p))
			case len(left) < maxUsers:
				left = append(left, place(p))
			}
			if len(users) >= maxUsers {
				return errEnough
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("looking for pods that use volumes of the driver: %w", err)
		}
	}
	return users, left, nil
}

// namespaces returns the namespaces whose pods are listed; "" stands for all. Pods with inline volumes may be in any
// namespace.
func (i inUse) namespaces(bindings map[claimKey]binding, inline bool) []string {
	names := map[string]bool{}
	for key := range bindings {
		names[key.Namespace] = true
	}
	if inline || i.driver.InTree.Source != "" || len(names) > maxNamespaces {
		return []string{metav1.NamespaceAll}
	}
	return slices.Sorted(maps.Keys(names))
}

// bindings returns the claims of the driver's bound and released volumes. A volume that is only reserved for a claim
// has never been mounted.
func (i inUse) bindings(ctx context.Context) (map[claimKey]binding, error) {
	found := map[claimKey]binding{}
	err := listing.Each(ctx, i.kube.CoreV1().RESTClient(), listing.List{Resource: "persistentvolumes"}, func(volume persistentVolume) error {
		ref, phase := volume.Spec.Of.ClaimRef, volume.Status.Phase
		if !volume.Spec.csi(i.driver) && !volume.Spec.inTree(i.driver) || ref == nil || ref.UID == "" || phase == corev1.VolumeAvailable || phase == corev1.VolumePending {
			return nil
		}
		key := claimKey{Namespace: ref.Namespace, Name: ref.Name}
		known := found[key]
		switch since := volume.Status.LastPhaseTransitionTime; {
		case phase == corev1.VolumeBound || since == nil: // Kubernetes before 1.29 does not record it
			known.bound = true
		case since.After(known.until):
			known.until = since.Time
		}
		found[key] = known
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for volumes of the driver: %w", err)
	}
	return found, nil
}

// allowsInline reports whether kubelets mount inline CSI volumes of the driver. Without a CSIDriver they do not.
func (i inUse) allowsInline(ctx context.Context) (bool, error) {
	driver, err := i.kube.StorageV1().CSIDrivers().Get(ctx, i.driver.CSIName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading CSIDriver %s: %w", i.driver.CSIName, err)
	}
	return slices.Contains(driver.Spec.VolumeLifecycleModes, storagev1.VolumeLifecycleEphemeral), nil
}

// search is one search for users.
type search struct {
	inUse
	bindings map[claimKey]binding
	inline   bool
	// on are the driver's nodes, read on demand.
	on map[string]bool
}

// lost reports whether a pod that uses a volume does not count because it will never end.
func (s *search) lost(ctx context.Context, p pod) (bool, error) {
	if p.Metadata.DeletionTimestamp == nil {
		return false, nil
	}
	on, err := s.nodes.of(ctx, p.Spec.NodeName)
	return err == nil && lost(p, on, s.now), err
}

// uses reports whether a pod may have a volume of the driver mounted.
func (s *search) uses(ctx context.Context, p pod) (bool, error) {
	for _, volume := range p.Spec.Volumes {
		key := claimKey{Namespace: p.Metadata.Namespace}
		switch {
		case volume.Of.PersistentVolumeClaim != nil:
			key.Name = volume.Of.PersistentVolumeClaim.ClaimName
		case volume.Of.Ephemeral != nil:
			key.Name = p.Metadata.Name + "-" + volume.Of.Name
		}
		inline := s.inline && volume.csi(s.driver) || volume.inTree(s.driver)
		if inline || s.mayMount(key, p.Metadata.CreationTimestamp.Time) {
			return s.started(ctx, p)
		}
	}
	return false, nil
}

// mayMount reports whether a pod that names a claim may have mounted a volume of the driver through it. If that claim
// was deleted, a new claim may have its name, and younger pods mount something else through it.
func (s *search) mayMount(key claimKey, created time.Time) bool {
	binding, ok := s.bindings[key]
	return ok && (binding.bound || created.Before(binding.until.Add(maxClockSkew)))
}

// started reports whether a node may have begun to mount the volumes of a pod. A kubelet that has not set the start time yet may be about
// to mount them, but only on a node with the driver.
func (s *search) started(ctx context.Context, p pod) (bool, error) {
	if p.Status.StartTime != nil {
		return true, nil
	}
	if s.on == nil {
		var err error
		if s.on, err = s.driverNodes(ctx); err != nil {
			return false, err
		}
	}
	return s.on[p.Spec.NodeName], nil
}

// driverNodes returns the names of the nodes with pods of the driver's DaemonSets.
func (c *controller) driverNodes(ctx context.Context) (map[string]bool, error) {
	nodes := map[string]bool{}
	for _, object := range c.Objects {
		if !isNodePlugin(object.Desired) {
			continue
		}
		err := c.eachPodOf(ctx, object.Desired, func(p pod) error {
			nodes[p.Spec.NodeName] = true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return nodes, nil
}
