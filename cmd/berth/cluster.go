package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// clusterFlags say which cluster is meant, as they do for kubectl.
type clusterFlags struct {
	kubeconfig string
	context    string
	namespace  string
}

// add gives a command the flags.
func (f *clusterFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "`FILE` that says where the cluster is (default as kubectl finds it)")
	cmd.Flags().StringVar(&f.context, "context", "", "`NAME` of the context in it (default the current one)")
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "`NAMESPACE` of the Subscriptions (default all)")
}

// given tells whether any of them is set.
func (f *clusterFlags) given() bool { return *f != clusterFlags{} }

// config returns how to reach the cluster.
func (f *clusterFlags) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to ask: %w", err)
	}
	return config, nil
}
