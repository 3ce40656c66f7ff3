package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	configclient "github.com/openshift/client-go/config/clientset/versioned"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/cmd/internal/version"
	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator/metrics"
)

// namespaceFile contains the namespace of the pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// program describes how to run an operator. All fields but the first two are set by flags.
type program struct {
	name       string                        // of the operator's Deployment and ServiceAccount
	audience   func(namespace string) string // of tokens for reading metrics
	kubeconfig string
	address    string
	namespace  string
	limits     limits
}

// addFlags adds the flags that every operator has. about says in their help what the operator's requests are about.
func (p *program) addFlags(flags *pflag.FlagSet, about string) {
	// The client's default of 5 requests a second would slow down the installation of a driver with its two dozen
	// objects by many seconds. These limits only keep a buggy loop from flooding the API server.
	p.limits = limits{qps: 50, burst: 100}
	p.limits.addFlags(flags, "", about)
	flags.StringVar(&p.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` to use outside of a cluster (default: the pod's service account)")
	flags.StringVar(&p.address, "listen", "0.0.0.0:8443", "`ADDRESS:PORT` to serve health and metrics on")
}

// A process is a program that runs, with its connection to the cluster.
type process struct {
	config    *rest.Config // with the limits of requests
	namespace string
	recorder  events.Recorder
}

// run runs an operator, and serves its health and metrics, until ctx ends.
func (p program) run(ctx context.Context, operate func(context.Context, process) error) error {
	klog.InfoS("Starting", "operator", p.name, "version", version.Get().Version)
	own, err := p.connect(ctx)
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(own.config)
	if err != nil {
		return err
	}
	config, err := configclient.NewForConfig(own.config)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return metrics.Serve(ctx, metrics.ServeOptions{
			Address: p.address, CertFolder: drivers.ServingCertFolder, Kube: kube, Config: config,
			Account:  serviceaccount.MakeUsername(own.namespace, p.name),
			Audience: p.audience(own.namespace),
		})
	})
	group.Go(func() error { return operate(ctx, own) })
	return group.Wait()
}

// connect determines the namespace, the connection and the event recorder of the process.
func (p program) connect(ctx context.Context) (process, error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		return process{}, fmt.Errorf("connecting to the cluster: %w", err)
	}
	namespace, err := p.ownNamespace()
	if err != nil {
		return process{}, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return process{}, err
	}
	// Events are about the Deployment that the pod belongs to.
	about, err := events.GetControllerReferenceForCurrentPod(ctx, kube, namespace, nil)
	if err != nil {
		klog.InfoS("Events are about the namespace: the pod's controller is unknown", "namespace", namespace, "reason", err)
	}
	return process{
		config: p.limits.applyTo(config), namespace: namespace,
		recorder: escaping{events.NewKubeRecorderWithOptions(kube.CoreV1().Events(namespace),
			events.RecommendedClusterSingletonCorrelatorOptions(), p.name, about, clock.RealClock{})},
	}, nil
}

func (p program) ownNamespace() (string, error) {
	if p.namespace != "" {
		return p.namespace, nil
	}
	namespace, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "", fmt.Errorf("determining the operator's namespace; outside of a pod, set --namespace: %w", err)
	}
	return strings.TrimSpace(string(namespace)), nil
}
