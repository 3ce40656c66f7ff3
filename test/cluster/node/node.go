// Package node is the process node: a Kubernetes node whose containers are processes of this machine.
//
// It stands in for a kubelet and a container runtime where there is neither. A container whose image
// is in the node's table runs as a local program, with what its pod gives it: arguments and
// environment, its service account's token and its other volumes at their paths, an address of its
// own, probes, restarts, and an end in order. Any other container is reported running. Deployments,
// DaemonSets and Jobs then work with the real controllers, and a program under test finds what it
// would find in a cluster.
package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// Options describe one node.
type Options struct {
	// Name is the name of the Node object.
	Name string
	// Labels are added to those that every Linux node has.
	Labels map[string]string
	// Taints keep pods away that do not tolerate them.
	Taints []corev1.Taint
	// Dir is the folder for the pods' volumes and logs; the log of a container is
	// <namespace>_<pod>_<uid>/<container>.log in it, and stays when the pod is gone.
	Dir string
	// Images maps an image repository, without tag and digest, to the path of the local program
	// that its containers run.
	Images map[string]string
	// Subnet is the first three octets of a loopback network, such as "127.83.12", that no other
	// node of this machine uses: its .1 is the node's address, and each pod gets one of the others.
	Subnet string
	// Ready, if set, is called once: when the Node object is ready and pods are accepted.
	Ready func()
}

// shutdownGrace is the most that a pod gets to end when the node itself ends, whatever grace period
// the pod asks for.
const shutdownGrace = 10 * time.Second

// capacity is what every node claims to have: plenty, because most containers use nothing.
var capacity = corev1.ResourceList{
	corev1.ResourceCPU:              resource.MustParse("64"),
	corev1.ResourceMemory:           resource.MustParse("256Gi"),
	corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	corev1.ResourcePods:             *resource.NewQuantity(lastPodAddress-firstPodAddress+1, resource.DecimalSI),
}

// Run registers the node with the API server and runs the pods that are bound to it, until ctx is
// done. Then it stops every process that it started, first gently, and returns nil. The Node object
// stays, as that of a machine which is switched off.
//
// The program that calls Run must have called Launcher first.
func Run(ctx context.Context, cfg *rest.Config, opts Options) error {
	if os.Args[0] == launcherName {
		return errors.New("this process was started to become a container's program: call node.Launcher first thing in main")
	}
	addresses, err := newAddresses(opts.Subnet)
	if err != nil {
		return fmt.Errorf("node %s: %w", opts.Name, err)
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	client, err := newClient(cfg)
	if err != nil {
		return err
	}
	api, err := url.Parse(cfg.Host)
	if err != nil || api.Port() == "" {
		return fmt.Errorf("the API server's address is %q, expected https://<host>:<port>", cfg.Host)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	spawner := newSpawner(dir)
	defer spawner.close()
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})

	onNode := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", opts.Name).String()
	}))
	everywhere := informers.NewSharedInformerFactory(client, 0)
	provider := newProvider(&host{
		dir:       dir,
		images:    opts.Images,
		addresses: addresses,
		spawner:   spawner,
		client:    client,
		from: objects{
			configMaps: everywhere.Core().V1().ConfigMaps().Lister(),
			secrets:    everywhere.Core().V1().Secrets().Lister(),
		},
		recorder: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: opts.Name}),
		apiHost:  api.Hostname(),
		apiPort:  api.Port(),
	}, onNode.Core().V1().Pods().Lister())
	defer provider.close(shutdownGrace)

	pods, err := node.NewPodController(node.PodControllerConfig{
		PodClient:                                podsGetter{client.CoreV1()},
		EventRecorder:                            &record.FakeRecorder{}, // What it would tell, the containers' own events tell better.
		Provider:                                 provider,
		PodInformer:                              onNode.Core().V1().Pods(),
		ConfigMapInformer:                        everywhere.Core().V1().ConfigMaps(),
		SecretInformer:                           everywhere.Core().V1().Secrets(),
		ServiceInformer:                          everywhere.Core().V1().Services(),
		SyncPodsFromKubernetesRateLimiter:        newRateLimiter(),
		DeletePodsFromKubernetesRateLimiter:      newRateLimiter(),
		SyncPodStatusFromProviderRateLimiter:     newRateLimiter(),
		SyncPodStatusFromProviderShouldRetryFunc: retryUnlessInvalid,
		// The node resolves variables when a container starts, as a kubelet does: then the pod's
		// address is known, and a ConfigMap that is missing may come.
		SkipDownwardAPIResolution: true,
	})
	if err != nil {
		return err
	}
	port, err := serveKubeletAPI(ctx, addresses.node(), provider)
	if err != nil {
		return err
	}
	object, err := newNodeObject(client, opts, addresses.node(), port)
	if err != nil {
		return err
	}
	registration, err := node.NewNodeController(node.NaiveNodeProvider{}, object, client.CoreV1().Nodes(),
		node.WithNodeEnableLeaseV1(client.CoordinationV1().Leases(corev1.NamespaceNodeLease), node.DefaultLeaseDuration))
	if err != nil {
		return err
	}

	if err := startInformers(ctx, onNode, everywhere, provider); err != nil {
		return err
	}
	return runControllers(ctx, cancel, pods, registration, opts.Ready)
}

// newClient makes a client without limits of its own: a kubelet's limits protect an API server from
// hundreds of nodes, and here they would only make tests slow.
func newClient(cfg *rest.Config) (kubernetes.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	return kubernetes.NewForConfig(rest.AddUserAgent(cfg, "process-node"))
}

func newRateLimiter() workqueue.TypedRateLimiter[any] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[any](5*time.Millisecond, time.Second)
}

// startInformers returns when all that pods may refer to is known.
func startInformers(ctx context.Context, onNode, everywhere informers.SharedInformerFactory, provider *provider) error {
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		onNode.Core().V1().Pods().Informer():           provider.watchPods(),
		everywhere.Core().V1().ConfigMaps().Informer(): provider.watchObjects(),
		everywhere.Core().V1().Secrets().Informer():    provider.watchObjects(),
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	for _, factory := range []informers.SharedInformerFactory{onNode, everywhere} {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
	}
	return nil
}

// runControllers runs both controllers until ctx is done or one of them fails, and returns when both
// have ended.
func runControllers(ctx context.Context, cancel func(), pods *node.PodController, registration *node.NodeController, ready func()) error {
	const workers = 8
	go pods.Run(ctx, workers) //nolint:errcheck // Err tells.
	defer func() { cancel(); <-pods.Done() }()
	select {
	case <-ctx.Done():
		return nil
	case <-pods.Done():
		return fmt.Errorf("pod controller: %w", pods.Err())
	case <-pods.Ready():
	}

	go registration.Run(ctx) //nolint:errcheck // Err tells.
	defer func() { cancel(); <-registration.Done() }()
	for registered := registration.Ready(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-pods.Done():
			return fmt.Errorf("pod controller: %w", pods.Err())
		case <-registration.Done():
			return fmt.Errorf("registering the node: %w", registration.Err())
		case <-registered:
			registered = nil
			if ready != nil {
				ready()
			}
		}
	}
}

// newNodeObject describes the node as a kubelet of the API server's version would.
func newNodeObject(client kubernetes.Interface, opts Options, ip string, port int32) (*corev1.Node, error) {
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking the API server for its version: %w", err)
	}
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
			// Without a host name, the API server reaches the kubelet's API by the address.
			Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: port}},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion:          version.GitVersion,
				OperatingSystem:         runtime.GOOS,
				Architecture:            runtime.GOARCH,
				OSImage:                 "process node",
				ContainerRuntimeVersion: "process://",
			},
		},
	}, nil
}
