package operator

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

	"github.com/berth-csi/berth/listing"
)

const (
	// maxUsers is how many pods are looked for that use the driver's volumes.
	maxUsers = 1000
	// maxNamespaces is in how many namespaces pods are looked for one namespace at a time. If the volumes belong
	// to more, all pods of the cluster are listed.
	maxNamespaces = 50
	// clocksDiffer is by how much the clocks of a control plane may differ.
	clocksDiffer = 10 * time.Second
	// The users are looked for again after so many times as long as that took, and within these times: a cluster
	// may have very many pods, and large ones.
	usersRest    = 10
	usersSoonest = 5 * time.Second
	usersLatest  = 5 * time.Minute
)

// inUse finds the pods that use a volume of a driver: those that may have it mounted. It goes by what no tenant
// can write. Whose claim a volume is bound to, the volume says; a claim may name any volume. Whether a pod is on
// a node, the pod says, but a pod may name any node: the node's kubelet says in the pod's status that it has
// taken the pod in.
type inUse struct {
	clients *clients
	csiName string
	// nodes returns the names of the nodes that the driver's node pods are on.
	nodes func(context.Context) (map[string]bool, error)
}

// claimKey is a claim's namespace and name.
type claimKey = types.NamespacedName

// binding is how volumes of the driver go with the claims of one name.
type binding struct {
	bound bool      // a volume is bound to the claim of that name
	until time.Time // when the last of those was released that were bound to earlier claims
}

// persistentVolume, pod are what is read of those objects.
type (
	persistentVolume struct {
		Spec struct {
			CSI      *struct{ Driver string }
			ClaimRef *struct {
				Namespace, Name string
				UID             types.UID
			}
		}
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
			Volumes  []struct {
				Name                  string
				PersistentVolumeClaim *struct{ ClaimName string }
				Ephemeral             *struct{}
				CSI                   *struct{ Driver string }
			}
		}
		Status struct {
			Phase     corev1.PodPhase
			StartTime *metav1.Time
		}
	}
)

// errEnough ends a list of which enough is known.
var errEnough = errors.New("enough")

// pods returns the pods, as namespace/name, sorted, and not more than maxUsers.
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
		// Pods that are on no node, or have ended, have nothing mounted.
		list := listing.List{Resource: "pods", Namespace: namespace, Fields: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}
		err := listing.Each(ctx, i.clients.kube.CoreV1().RESTClient(), list, func(p pod) error {
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

// namespaces returns those whose pods are to be listed; "" stands for all.
func (i inUse) namespaces(bindings map[claimKey]binding, inline bool) []string {
	names := map[string]bool{}
	for key := range bindings {
		names[key.Namespace] = true
	}
	if inline || len(names) > maxNamespaces {
		return []string{metav1.NamespaceAll}
	}
	return slices.Sorted(maps.Keys(names))
}

// bindings returns the claims that volumes of the driver are or were bound to. One that is only reserved for a
// claim has never been mounted.
func (i inUse) bindings(ctx context.Context) (map[claimKey]binding, error) {
	found := map[claimKey]binding{}
	err := listing.Each(ctx, i.clients.kube.CoreV1().RESTClient(), listing.List{Resource: "persistentvolumes"}, func(volume persistentVolume) error {
		csi, ref, phase := volume.Spec.CSI, volume.Spec.ClaimRef, volume.Status.Phase
		if csi == nil || csi.Driver != i.csiName || ref == nil || ref.UID == "" || phase == corev1.VolumeAvailable || phase == corev1.VolumePending {
			return nil
		}
		key := claimKey{Namespace: ref.Namespace, Name: ref.Name}
		known := found[key]
		switch since := volume.Status.LastPhaseTransitionTime; {
		case phase == corev1.VolumeBound || since == nil: // Kubernetes before 1.29 does not tell.
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

// allowsInline tells whether kubelets mount inline volumes of the driver. Without a CSIDriver they do not.
func (i inUse) allowsInline(ctx context.Context) (bool, error) {
	driver, err := i.clients.kube.StorageV1().CSIDrivers().Get(ctx, i.csiName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading CSIDriver %s: %w", i.csiName, err)
	}
	return slices.Contains(driver.Spec.VolumeLifecycleModes, storagev1.VolumeLifecycleEphemeral), nil
}

// search is one look for users.
type search struct {
	inUse
	bindings map[claimKey]binding
	inline   bool
	// driverNodes are read when they are needed.
	driverNodes map[string]bool
}

// uses tells whether a pod may have a volume of the driver mounted.
func (s *search) uses(ctx context.Context, p pod) (bool, error) {
	for _, volume := range p.Spec.Volumes {
		key := claimKey{Namespace: p.Metadata.Namespace}
		switch {
		case volume.PersistentVolumeClaim != nil:
			key.Name = volume.PersistentVolumeClaim.ClaimName
		case volume.Ephemeral != nil:
			key.Name = p.Metadata.Name + "-" + volume.Name
		}
		inline := s.inline && volume.CSI != nil && volume.CSI.Driver == s.csiName
		if inline || s.claimed(key, p.Metadata.CreationTimestamp.Time) {
			return s.started(ctx, p)
		}
	}
	return false, nil
}

// claimed tells whether a pod that names a claim may have got a volume of the driver by it. If that claim is gone,
// there may be another one of that name, by which younger pods get something else.
func (s *search) claimed(key claimKey, created time.Time) bool {
	binding, ok := s.bindings[key]
	return ok && (binding.bound || created.Before(binding.until.Add(clocksDiffer)))
}

// started tells whether a node may have begun to mount the volumes of a pod. Where a kubelet has not said yet that
// it has taken the pod in, it may be about to, if it can: on a node that the driver is on.
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

// users returns the pods that use a volume of the driver. Those that were found lately are not looked for again;
// then it says after which time they are. That there are none is never said of an earlier time.
func (u *uninstaller) users(ctx context.Context) (users []string, again time.Duration, err error) {
	if left := time.Until(u.again); len(u.found) > 0 && left > 0 {
		return u.found, left, nil
	}
	began := time.Now()
	if u.found, err = (inUse{u.clients, u.driver.CSIName, u.driverNodes}).pods(ctx); err != nil {
		return nil, 0, err
	}
	again = min(max(usersRest*time.Since(began), usersSoonest), usersLatest)
	u.again = time.Now().Add(again)
	return u.found, again, nil
}

// driverNodes returns the names of the nodes that pods of the driver's DaemonSets are on.
func (u *uninstaller) driverNodes(ctx context.Context) (map[string]bool, error) {
	nodes := map[string]bool{}
	for _, m := range u.manifests {
		if m.Object.GetKind() != "DaemonSet" {
			continue
		}
		selector, _, err := unstructured.NestedStringMap(m.Object.Object, "spec", "selector", "matchLabels")
		if err != nil {
			return nil, err
		}
		list := listing.List{Resource: "pods", Namespace: m.Object.GetNamespace(), Labels: labels.SelectorFromSet(selector).String()}
		err = listing.Each(ctx, u.clients.kube.CoreV1().RESTClient(), list, func(p pod) error {
			nodes[p.Spec.NodeName] = true
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("looking for the driver's nodes: %w", err)
		}
	}
	return nodes, nil
}
