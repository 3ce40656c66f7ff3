// Package node is the process node: a Kubernetes node whose containers are processes of this machine.
//
// It replaces kubelet and container runtime. A container whose image is in the node's table runs as a local program
// with everything from its pod: arguments and environment, its service account's token and other volumes at their
// paths, its own address, probes, restarts and graceful termination. Any other container is only reported as running.
// So Deployments, DaemonSets and Jobs work with the real controllers, and a program under test finds the same
// environment as in a cluster.
//
// Its limits: a program sees the files of this machine, except that it has its own /run and /tmp: see Options.Kept. It shares the
// machine's network, so a program should listen on its pod's address: on all addresses, it would take the port from
// all pods. Users, security contexts, limits and lifecycle hooks are ignored.
package node

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/node"
	corev1 "k8s.io/api/core/v1"
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

// Options describe a node.
type Options struct {
	// Name is the name of the Node object.
	Name string
	// Labels are added to the labels of every Linux node.
	Labels map[string]string
	// Taints keep away pods that do not tolerate them.
	Taints []corev1.Taint
	// Dir is the folder for the pods' volumes and logs. The log of a container is
	// <namespace>_<pod>_<uid>/<container>.log in it, and stays when the pod is gone.
	Dir string
	// Images maps an image repository, without tag and digest, to the path of the local program for its containers.
	Images map[string]string
	// Kept are folders of this machine that programs see at their paths, even below /run or /tmp, which programs have for
	// themselves.
	Kept []string
	// Subnet is the first three octets of a loopback network, such as "127.83.12", that no other node of this machine
	// uses. Its .1 is the node's address, and each pod gets one of the others.
	Subnet string
	// Ready, if set, is called once, when the Node object is ready and pods are accepted.
	Ready func()
}

// shutdownGrace is the maximum grace period of pods when the node itself stops.
const shutdownGrace = 10 * time.Second

// Run registers the node with the API server and runs the pods that are bound to it, until ctx is done. Then it stops
// every process that it started, gracefully at first, and returns nil. The Node object stays, as if the machine were
// switched off.
//
// The program that calls Run must have called Launcher first.
func Run(ctx context.Context, cfg *rest.Config, opts Options) error {
	if os.Args[0] == launcherName {
		return errors.New("this process was started to become a container's program: call node.Launcher first thing in main")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := newClient(cfg)
	if err != nil {
		return err
	}
	host, err := newHost(cfg, client, opts)
	if err != nil {
		return fmt.Errorf("node %s: %w", opts.Name, err)
	}
	defer host.spawner.close()
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	host.recorder = events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: opts.Name})

	onNode := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", opts.Name).String()
	}))
	everywhere := informers.NewSharedInformerFactory(client, 0)
	host.from = objects{
		configMaps: everywhere.Core().V1().ConfigMaps().Lister(),
		secrets:    everywhere.Core().V1().Secrets().Lister(),
	}
	provider := newProvider(host, onNode.Core().V1().Pods().Lister())
	defer provider.close(shutdownGrace)
	pods, err := newPodController(client, provider, onNode, everywhere)
	if err != nil {
		return err
	}
	port, err := serveKubeletAPI(ctx, host.addresses.node(), provider)
	if err != nil {
		return err
	}
	registration, err := newRegistration(client, opts, host.addresses.node(), port)
	if err != nil {
		return err
	}
	if err := startInformers(ctx, onNode, everywhere, provider); err != nil {
		return err
	}
	return runControllers(ctx, cancel, pods, registration, opts.Ready)
}

// newHost creates the resources of pods, except for objects from the API server.
func newHost(cfg *rest.Config, client kubernetes.Interface, opts Options) (*host, error) {
	addresses, err := newAddresses(opts.Subnet)
	if err != nil {
		return nil, err
	}
	api, err := url.Parse(cfg.Host)
	if err != nil || api.Port() == "" {
		return nil, fmt.Errorf("the API server's address is %q, expected https://<host>:<port>", cfg.Host)
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return &host{
		dir:       dir,
		images:    opts.Images,
		kept:      opts.Kept,
		addresses: addresses,
		spawner:   newSpawner(dir),
		client:    client,
		apiHost:   api.Hostname(),
		apiPort:   api.Port(),
	}, nil
}

// newPodController creates the controller that tells the provider which pods the API server wants here.
func newPodController(client kubernetes.Interface, provider *provider, onNode, everywhere informers.SharedInformerFactory) (*node.PodController, error) {
	limit := func() workqueue.TypedRateLimiter[any] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[any](5*time.Millisecond, time.Second)
	}
	return node.NewPodController(node.PodControllerConfig{
		PodClient:                                podsGetter{client.CoreV1()},
		EventRecorder:                            &record.FakeRecorder{}, // The pods' own events are more useful.
		Provider:                                 provider,
		PodInformer:                              onNode.Core().V1().Pods(),
		ConfigMapInformer:                        everywhere.Core().V1().ConfigMaps(),
		SecretInformer:                           everywhere.Core().V1().Secrets(),
		ServiceInformer:                          everywhere.Core().V1().Services(),
		SyncPodsFromKubernetesRateLimiter:        limit(),
		DeletePodsFromKubernetesRateLimiter:      limit(),
		SyncPodStatusFromProviderRateLimiter:     limit(),
		SyncPodStatusFromProviderShouldRetryFunc: retryUnlessInvalid,
		// The node resolves variables when a container starts, like a kubelet: then the pod's address is known, and
		// missing ConfigMaps may have been created.
		SkipDownwardAPIResolution: true,
	})
}

// newClient creates a client without throttling. A kubelet's limits protect an API server from hundreds of nodes;
// here they would only slow down tests.
func newClient(cfg *rest.Config) (kubernetes.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	return kubernetes.NewForConfig(rest.AddUserAgent(cfg, "process-node"))
}

// startInformers starts informers for everything that pods may refer to, and waits for their caches.
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

// runControllers runs both controllers until ctx is done or one of them fails, and returns when both have ended.
func runControllers(ctx context.Context, cancel func(), pods *node.PodController, registration *node.NodeController, ready func()) error {
	const workers = 8
	go pods.Run(ctx, workers) //nolint:errcheck // Err returns the error.
	defer func() { cancel(); <-pods.Done() }()
	select {
	case <-ctx.Done():
		return nil
	case <-pods.Done():
		return fmt.Errorf("pod controller: %w", pods.Err())
	case <-pods.Ready():
	}

	go registration.Run(ctx) //nolint:errcheck // Err returns the error.
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
