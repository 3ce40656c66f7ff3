package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-csi/berth/internal/findings/nearest"
)

// requestTimeout is the time limit for a single request to the API server, unless --request-timeout sets another one.
const requestTimeout = 30 * time.Second

// clusterFlags select the cluster, like kubectl's flags.
type clusterFlags struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
	namespace  string
	all        []*pflag.Flag
}

func (f *clusterFlags) add(cmd *cobra.Command) {
	f.addConnection(cmd)
	f.addNamespace(cmd, "`namespace` of the Subscriptions (default all)")
}

// addNamespace adds the flag --namespace. Its meaning, and so its description, depends on the command. No command uses the namespace of the
// kubeconfig file.
func (f *clusterFlags) addNamespace(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", usage)
	completeFlag(cmd, "namespace", f.completeNamespace)
	f.all = append(f.all, cmd.Flags().Lookup("namespace"))
}

// connectionFlags are client-go's flags for a connection, with our own descriptions. The flags for a user name and a password are left out,
// because API servers no longer accept passwords.
var connectionFlags = []struct{ name, usage string }{
	{"kubeconfig", "`file` with the connection to the cluster (default as for kubectl)"},
	{clientcmd.FlagContext, "`NAME` context in the kubeconfig file (default the current one)"},
	{clientcmd.FlagClusterName, "`NAME` cluster in the kubeconfig file (default: the context's)"},
	{clientcmd.FlagAuthInfoName, "`NAME` user in the kubeconfig file (default: the context's)"},
	{clientcmd.FlagAPIServer, "`URL` address of the API server"},
	{clientcmd.FlagTLSServerName, "`NAME` host that the API server's certificate is for (default: the address's)"},
	{clientcmd.FlagCAFile, "`file` with the certificate authority of the API server"},
	{clientcmd.FlagInsecure, "do not verify the API server's certificate: another server could pose as the cluster"},
	{clientcmd.FlagProxyURL, "`URL` proxy on the way to the API server"},
	{clientcmd.FlagDisableCompression, "ask the API server not to compress responses"},
	{clientcmd.FlagBearerToken, "`TOKEN` bearer token for the API server"},
	{clientcmd.FlagCertFile, "`file` with your client certificate"},
	{clientcmd.FlagKeyFile, "`file` with the key of your client certificate"},
	{clientcmd.FlagImpersonate, "`USER` act as this user or service account"},
	{clientcmd.FlagImpersonateGroup, "`GROUP` act as a member of this group (repeatable)"},
	{clientcmd.FlagImpersonateUID, "`UID` act as the user whose ID this is"},
	{clientcmd.FlagTimeout, "`DURATION` how long to wait for the answer to a request, such as 10s; 0 means no limit (default " + requestTimeout.String() + ")"},
}

// frequent are the connection flags that the help of each command lists.
var frequent = []string{"kubeconfig", clientcmd.FlagContext}

// addConnection adds the flags for the connection. Commands that have no use for --namespace call it instead of add.
func (f *clusterFlags) addConnection(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{}
	names.Timeout.Default = ""
	clientcmd.BindOverrideFlags(&f.overrides, flags, names)
	for _, known := range connectionFlags {
		flag := flags.Lookup(known.name)
		flag.Usage = known.usage
		f.all = append(f.all, flag)
		if slices.Contains(frequent, known.name) {
			continue
		}
		if flag.Annotations == nil {
			flag.Annotations = map[string][]string{}
		}
		flag.Annotations[connectionAnnotation] = []string{"true"}
	}
	completeFlag(cmd, clientcmd.FlagContext, f.completeContext)
}

// given reports whether any of the flags is set.
func (f *clusterFlags) given() bool {
	return slices.ContainsFunc(f.all, func(flag *pflag.Flag) bool { return flag.Changed })
}

// config returns the configuration of a client. The client may send as many requests as kubectl: fifty a second after the first three
// hundred. client-go's default, five a second, is for controllers, and would make an administrator wait.
func (f *clusterFlags) config() (*rest.Config, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	loading := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.overrides)
	config, err := loading.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("cannot connect to a cluster: none is configured: set KUBECONFIG or --kubeconfig")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot connect to a cluster: %w%s", err, otherContext(loading, f.overrides.CurrentContext))
	}
	config.QPS, config.Burst = 50, 300
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &connection{next} })
	return config, nil
}

// otherContext returns what to do about a context that the kubeconfig does not have.
func otherContext(loading clientcmd.ClientConfig, name string) string {
	known, err := loading.RawConfig()
	if err != nil || name == "" || known.Contexts[name] != nil {
		return ""
	}
	all := slices.Sorted(maps.Keys(known.Contexts))
	return cmp.Or(nearest.Hint(name, all), "; kubectl config get-contexts lists all")
}

// check finds faults of flags that client-go would report without the flags' names.
func (f *clusterFlags) check() error {
	if _, err := clientcmd.ParseTimeout(cmp.Or(f.overrides.Timeout, "0")); err != nil {
		return fmt.Errorf("--request-timeout is %q, want a duration such as 10s, or 0 for no limit", f.overrides.Timeout)
	}
	if user := f.overrides.AuthInfo; user.Impersonate == "" && (user.ImpersonateUID != "" || len(user.ImpersonateGroups) > 0) {
		return errors.New("--as-group and --as-uid are for --as, which is missing: want the user to act as")
	}
	return nil
}

// limited is like config, for a client whose requests are all short.
func (f *clusterFlags) limited() (*rest.Config, error) {
	config, err := f.config()
	if err == nil && f.overrides.Timeout == "" {
		config.Timeout = requestTimeout
	}
	return config, err
}
