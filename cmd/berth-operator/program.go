package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/openshift/library-go/pkg/operator/events"
	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berth-csi/berth/cmd/internal/version"
	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/operator"
	"github.com/berth-csi/berth/operator/metrics"
	"github.com/berth-csi/berth/operator/serving"
)

// namespaceFile has the namespace of the pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// program is the process of one driver's operator. The fields are its flags.
type program struct {
	driver     drivers.Driver
	kubeconfig string
	address    string
	namespace  string
	limits     limits // of requests about the driver
}

// run runs the operator, and serves its health and metrics, until ctx ends.
func (p program) run(ctx context.Context, apis []operator.APIController) error {
	klog.InfoS("Starting", "operator", p.driver.Operator.Name, "version", version.Get().GitVersion)
	process, err := p.process(ctx)
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(process.KubeConfig)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return serving.Run(ctx, serving.Options{
			Address: p.address, CertFolder: drivers.ServingCertFolder, Kube: kube,
			Account:  serviceaccount.MakeUsername(process.OperatorNamespace, p.driver.Operator.Name),
			Audience: p.driver.MetricsHost(process.OperatorNamespace),
		})
	})
	group.Go(func() error { return operator.Run(ctx, p.driver, version.Get().GitVersion, process, apis...) })
	return group.Wait()
}

// process determines the namespace, the connection and the event recorder of the process.
func (p program) process(ctx context.Context) (*operator.Process, error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	namespace, err := p.ownNamespace()
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	// Events are about the Deployment that the pod belongs to.
	about, err := events.GetControllerReferenceForCurrentPod(ctx, kube, namespace, nil)
	if err != nil {
		klog.InfoS("Events are about the namespace: the pod's controller is unknown", "namespace", namespace, "reason", err)
	}
	return &operator.Process{
		KubeConfig:        p.limits.applyTo(config),
		OperatorNamespace: namespace,
		Clock:             clock.RealClock{},
		Metrics:           metrics.New(legacyregistry.MustRegister),
		Getenv:            os.Getenv,
		EventRecorder: events.NewKubeRecorderWithOptions(kube.CoreV1().Events(namespace),
			events.RecommendedClusterSingletonCorrelatorOptions(), p.driver.Operator.Name, about, clock.RealClock{}),
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
