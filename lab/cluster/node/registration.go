package node

import (
	"fmt"
	"maps"
	"runtime"

	"github.com/virtual-kubelet/virtual-kubelet/node"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// capacity is the capacity of every node: plenty, because most containers use nothing.
var capacity = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("64"),
	corev1.ResourceMemory:           resource.MustParse("256Gi"),
	corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	corev1.ResourcePods:             *resource.NewQuantity(lastPodAddress-firstPodAddress+1, resource.DecimalSI),
}

// newRegistration creates the controller of the Node object and its lease.
func newRegistration(client kubernetes.Interface, opts Options, ip string, port int32) (*node.NodeController, error) {
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking the API server for its version: %w", err)
	}
	return node.NewNodeController(node.NaiveNodeProvider{}, nodeObject(opts, ip, port, version.GitVersion), client.CoreV1().Nodes(),
		node.WithNodeEnableLeaseV1(client.CoordinationV1().Leases(corev1.NamespaceNodeLease), node.DefaultLeaseDuration))
}

// nodeObject describes the node like a kubelet of this version.
func nodeObject(opts Options, ip string, port int32, version string) *corev1.Node {
	labels := map[string]string{
		corev1.LabelOSStable:   runtime.GOOS,
		corev1.LabelArchStable: runtime.GOARCH,
		corev1.LabelHostname:   opts.Name,
	}
	maps.Copy(labels, opts.Labels)
	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: opts.Name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: opts.Taints},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "the process node does not measure memory"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "the process node does not measure disks"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "the process node does not count processes"),
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "the process node accepts pods"),
			},
			// Without a host name, the API server uses the address to reach the kubelet's API.
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: port}},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion:          version,
				KernelVersion:           kernelVersion(),
				OperatingSystem:         runtime.GOOS,
				Architecture:            runtime.GOARCH,
				OSImage:                 "process node",
				ContainerRuntimeVersion: "process://",
			},
		},
	}
}

func kernelVersion() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}
