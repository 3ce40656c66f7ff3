package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clusterFlags select the cluster, like those of kubectl.
type clusterFlags struct {
	kubeconfig string
	context    string
	namespace  string
}

func (f *clusterFlags) add(cmd *cobra.Command) {
	f.addConnection(cmd)
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "`NAMESPACE` of the Subscriptions (default all)")
	completeFlag(cmd, "namespace", f.completeNamespace)
}

// addConnection adds the flags for commands that are about no namespace.
func (f *clusterFlags) addConnection(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "`FILE` with the connection to the cluster (default as for kubectl)")
	cmd.Flags().StringVar(&f.context, "context", "", "`NAME` of the context in the kubeconfig file (default the current one)")
	completeFlag(cmd, "context", f.completeContext)
}

// given reports whether any of them is set.
func (f *clusterFlags) given() bool { return *f != clusterFlags{} }

// config returns the configuration of a client. It may send as many requests as kubectl, fifty a second after the first three
// hundred: a client's default, five, is for controllers, and would let an administrator wait.
func (f *clusterFlags) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("cannot connect to a cluster: none is configured: set KUBECONFIG or --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot connect to a cluster: %w", err)
	}
	config.QPS, config.Burst = 50, 300
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &connection{next} })
	return config, nil
}
