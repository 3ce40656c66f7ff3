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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/listing"
)

const (
	// maxUsers is how many pods the search finds before it stops.
	maxUsers = 1000
	// maxNamespaces is the number of namespaces whose pods are listed one namespace at a time. If volumes belong to
	// more namespaces, all pods of the cluster are listed.
	maxNamespaces = 50
	// maxClockSkew is by how much the clocks of a control plane may differ.
	maxClockSkew = 10 * time.Second
	// A cluster may have very many pods, and large ones. After a search the controller rests searchRest times as long
	// as the search took, but at least minSearchInterval and at most maxSearchInterval.
	searchRest        = 10
	minSearchInterval = 5 * time.Second
	maxSearchInterval = 5 * time.Minute
)

// inUse finds the pods that may have a volume of a driver mounted. It relies only on what no tenant can write. A
// PersistentVolume says which claim it is bound to; a claim may name any volume. A pod's status says, by its kubelet,
// that it was admitted to a node; a pod's spec may name any node.
type inUse struct {
	kube   kubernetes.Interface
	driver drivers.Driver
	// nodes returns the names of the nodes that the driver's node pods are on.
	nodes func(context.Context) (map[string]bool, error)
}

// claimKey is a claim's namespace and name.
type claimKey = types.NamespacedName

// binding says how volumes of the driver are bound to the claims of one name.
type binding struct {
	bound bool      // a volume is bound to a claim of that name now
	until time.Time // when the last volume that was bound to an earlier claim was released
}

// persistentVolume and pod have the fields that are read of those objects.
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

// pods returns the pods, as namespace/name, sorted, at most maxUsers.
func (i inUse) pods(ctx context.Context) ([]string, error) {
	bindings, err := i.bindings(ctx)
	if err != nil {
		return nil, err
	}
	inline, err := i.allowsInline(ctx)
	if err != nil {
		return nil, err
	}
	search := search{inUse: i, bindings: bindings, inline: inline}
	var users []string
	for _, namespace := range i.namespaces(bindings, inline) {
		// Pods without a node, and pods that have ended, have nothing mounted.
		list := listing.List{Resource: "pods", Namespace: namespace, Fields: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}
		err := listing.Each(ctx, i.kube.CoreV1().RESTClient(), list, func(p pod) error {
			found, err := search.uses(ctx, p)
			if found {
				users = append(users, p.Metadata.Namespace+"/"+p.Metadata.Name)
			}
			if len(users) >= maxUsers {
				return errEnough
			}
			return err
		})
		if errors.Is(err, errEnough) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("looking for pods that use volumes of the driver: %w", err)
		}
	}
	slices.Sort(users)
	return users, nil
}

// namespaces returns the namespaces whose pods are listed; "" stands for all. Inline volumes may be in any.
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

// bindings returns the claims that volumes of the driver are or were bound to. A volume that is only reserved for a claim
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
	// driverNodes are read on demand.
	driverNodes map[string]bool
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

// mayMount reports whether a pod that names a claim may have mounted a volume of the driver through it. If that claim was
// deleted, there may be another one of its name, through which younger pods mount something else.
func (s *search) mayMount(key claimKey, created time.Time) bool {
	binding, ok := s.bindings[key]
	return ok && (binding.bound || created.Before(binding.until.Add(maxClockSkew)))
}

// started reports whether a node may have begun to mount the volumes of a pod. A kubelet that has not set the start time
// yet may be about to, but only on a node that the driver is on.
func (s *search) started(ctx context.Context, p pod) (bool, error) {
	if p.Status.StartTime != nil {
		return true, nil
	}
	if s.driverNodes == nil {
		var err error
		if s.driverNodes, err = s.nodes(ctx); err != nil {
			return false, err
		}
	}
	return s.driverNodes[p.Spec.NodeName], nil
}

// driverNodes returns the names of the nodes that pods of the driver's DaemonSets are on.
func (c *controller) driverNodes(ctx context.Context) (map[string]bool, error) {
	nodes := map[string]bool{}
	for _, object := range c.Objects {
		daemonSet := object.Desired
		if daemonSet.GetKind() != "DaemonSet" {
			continue
		}
		selector, _, err := unstructured.NestedStringMap(daemonSet.Object, "spec", "selector", "matchLabels")
		if err != nil {
			return nil, err
		}
		list := listing.List{Resource: "pods", Namespace: daemonSet.GetNamespace(), Labels: labels.SelectorFromSet(selector).String()}
		err = listing.Each(ctx, c.Kube.CoreV1().RESTClient(), list, func(p pod) error {
			nodes[p.Spec.NodeName] = true
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("looking for the driver's nodes: %w", err)
		}
	}
	return nodes, nil
}
