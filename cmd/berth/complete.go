package main

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/findings"
)

// completionTimeout limits how long a shell waits for a cluster.
const completionTimeout = 3 * time.Second

// completerOf returns the parent, kubectl or oc, that runs this program to complete the arguments of its plugin. The parent is part of the
// program's name. For any other name, completerOf returns "".
func completerOf(program string) string {
	parent, is := strings.CutSuffix(filepath.Base(program), "_complete-berth")
	if is && slices.Contains(parents, parent) {
		return parent
	}
	return ""
}

// completing returns a function that completes each argument with the function at its position, and further ones with the last function.
func completing(each ...cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return each[min(len(args), len(each)-1)](cmd, args, typed)
	}
}

// nothing completes nothing.
func nothing(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// folders completes the names of folders.
func folders(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// files completes the names of files and folders.
func files(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// oneOf completes one of some names.
func oneOf(all ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return offered(all, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// harmless matches the names that are offered to a shell. Catalogs and clusters may have names that a shell would interpret.
var harmless = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9./_+@=:-]*$`)

// offered returns the harmless names that begin with the typed text.
func offered(names []string, typed string) (all []cobra.Completion) {
	for _, name := range names {
		if strings.HasPrefix(name, typed) && harmless.MatchString(name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// packagesOf completes the packages of the catalogs that some arguments name.
func packagesOf(catalogs ...int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return offered(packageNames(cmd.Context(), args, catalogs...), typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// packageNames returns the packages of the catalogs that some arguments name. If a catalog has faults, it returns the readable packages.
func packageNames(ctx context.Context, args []string, catalogs ...int) (names []string) {
	for _, at := range catalogs {
		if at >= len(args) {
			continue
		}
		c, _, err := fbc.Read(ctx, args[at])
		if err != nil {
			continue
		}
		for _, p := range c.Packages {
			names = append(names, p.Name)
		}
	}
	return names
}

// versionsOf completes PACKAGE@VERSION, for a package of the catalog that the first argument names.
func versionsOf(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	name, _, version := strings.Cut(typed, "@")
	if !version {
		all, directive := packagesOf(0)(cmd, args, typed)
		return all, directive | cobra.ShellCompDirectiveNoSpace
	}
	var versions []string
	for _, b := range packageOf(cmd.Context(), args, name).Bundles {
		if number := b.Number(); number != nil {
			versions = append(versions, name+"@"+number.String())
		}
	}
	return offered(versions, typed), cobra.ShellCompDirectiveNoFileComp
}

// channelsOf completes the channels of the package that the second argument names, in the catalog that the first one names.
func channelsOf(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) < 2 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	name, _, _ := strings.Cut(args[1], "@")
	var channels []string
	for _, c := range packageOf(cmd.Context(), args, name).Channels {
		channels = append(channels, c.Name)
	}
	return offered(channels, typed), cobra.ShellCompDirectiveNoFileComp
}

// packageOf returns a package of the catalog that the first argument names, or an empty package if there is none of that name.
func packageOf(ctx context.Context, args []string, name string) *fbc.Package {
	if len(args) > 0 {
		if c, _, err := fbc.Read(ctx, args[0]); err == nil && c.Find(name) != nil {
			return c.Find(name)
		}
	}
	return &fbc.Package{}
}

// severitiesOf completes RULE=SEVERITY.
func severitiesOf(rules []findings.Rule) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var all []string
		for _, r := range rules {
			for _, s := range findings.Severities {
				all = append(all, r.ID+"="+string(s))
			}
		}
		return offered(all, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// scopesOf completes RULE and RULE:PACKAGE, for a package of the catalog that the first argument names.
func scopesOf(rules []findings.Rule) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var all []string
		for _, r := range rules {
			all = append(all, r.ID)
		}
		if id, _, given := strings.Cut(typed, ":"); given {
			all = nil
			for _, pkg := range packageNames(cmd.Context(), args, 0) {
				all = append(all, id+":"+pkg)
			}
		}
		return offered(all, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// registerCompletion tells Cobra how to complete a flag. Cobra keeps every registered flag and its command in memory, so a test that
// creates thousands of commands replaces this function.
var registerCompletion = (*cobra.Command).RegisterFlagCompletionFunc

// completeFlag sets how a flag of a command is completed.
func completeFlag(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := registerCompletion(cmd, flag, by); err != nil {
		panic(err) // the command has no such flag, or it is registered twice
	}
}

// completeNamespace completes the namespaces of the cluster.
func (f *clusterFlags) completeNamespace(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := f.config()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	config.Timeout = completionTimeout
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	c, err := client.New(config, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NamespaceList"})
	if err := c.List(ctx, namespaces, client.Limit(500)); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var all []string
	for _, n := range namespaces.Items {
		all = append(all, n.Name)
	}
	return offered(all, typed), cobra.ShellCompDirectiveNoFileComp
}

// completeContext completes the contexts of the kubeconfig.
func (f *clusterFlags) completeContext(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var all []string
	for name := range config.Contexts {
		all = append(all, name)
	}
	return offered(all, typed), cobra.ShellCompDirectiveNoFileComp
}
