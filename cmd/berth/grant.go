package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

func newGrantCommand() *cobra.Command {
	f := &clusterFlags{}
	var output, dryRun string
	grant := func(cmd *cobra.Command, args []string) error {
		wanted, err := parseGrant(args)
		if err != nil {
			return err
		}
		c, err := f.grantsClient()
		if err != nil {
			return err
		}
		if dryRun == dryRunServer {
			c = client.NewDryRunClient(c)
		}
		granted, added, err := wanted.write(cmd.Context(), c)
		if err != nil {
			return err
		}
		if output == inYAML {
			return printGrant(cmd.OutOrStdout(), granted)
		}
		verb := "granted"
		switch {
		case len(added) == 0:
			verb, added = "granted already", wanted.accessPoints
		case dryRun == dryRunServer:
			verb = "would be granted (server dry run)"
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: namespace %s may use %s of file system %s\n", verb, wanted.namespace, strings.Join(added, ", "), wanted.fileSystem)
		return err
	}
	cmd := &cobra.Command{
		Use:   "grant NAMESPACE FILESYSTEM ACCESSPOINT...",
		Short: "Let the SharedVolumes of a namespace use access points of an EFS file system",
		Long: `Let the SharedVolumes of a namespace use access points of an EFS file system: create the SharedVolumeGrant of the
namespace, or add to it. '*' means all access points of the file system, also future ones.

The grant is for this namespace, not for a later one of the same name. SharedVolumes that wait for it become
Ready by themselves.`,
		Example: `  berth grant shop fs-0123456789abcdef0 fsap-0123456789abcdef0
  berth grant shop fs-0123456789abcdef0 '*' --dry-run=server -o yaml
  berth grant list -n shop`,
		Args:              takes("NAMESPACE", "FILESYSTEM", "ACCESSPOINT..."),
		ValidArgsFunction: completing(f.completeNamespace, nothing),
		RunE:              grant,
	}
	addGrantFlags := func(cmd *cobra.Command) {
		f.addConnection(cmd)
		cmd.Flags().StringVar(&dryRun, "dry-run", dryRunNone, "`MODE` none, or "+dryRunServer+": have the API server check the grant, and write nothing")
		completeFlag(cmd, "dry-run", oneOf(dryRunNone, dryRunServer))
		addOutputFlag(cmd, &output, "text", []string{"text", inYAML})
		check := cmd.Args
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if dryRun != dryRunNone && dryRun != dryRunServer {
				return fmt.Errorf("--dry-run is %q, want %s or %s", dryRun, dryRunNone, dryRunServer)
			}
			return check(cmd, args)
		}
	}
	addGrantFlags(cmd)
	list := newGrantListCommand(f, grant)
	addGrantFlags(list)
	for _, hidden := range []string{"dry-run", "output"} {
		list.Flags().Lookup(hidden).Hidden = true // they only work when the argument "list" is the name of a namespace
	}
	cmd.AddCommand(list)
	return cmd
}

// Values of --dry-run, as kubectl has them.
const (
	dryRunNone   = "none"
	dryRunServer = "server"
)

// newGrantListCommand returns the command that lists grants. With arguments, it grants access to the namespace "list" instead.
func newGrantListCommand(f *clusterFlags, grant func(*cobra.Command, []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what namespaces were granted",
		Long: `List what namespaces were granted. A team sees that of its own namespace with -n NAMESPACE, if an administrator lets it read the
SharedVolumeGrant of that name.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && f.namespace != "" {
				return fmt.Errorf("unexpected argument %q: want none", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return grant(cmd, append([]string{"list"}, args...))
			}
			c, err := f.grantsClient()
			if err != nil {
				return err
			}
			grants, err := grantsOf(cmd.Context(), c, f.namespace)
			if err != nil {
				return err
			}
			return listGrants(cmd.OutOrStdout(), grants)
		},
	}
	f.addNamespace(cmd, "`namespace` whose grant is listed (default all)")
	return cmd
}

// grantRequest is the grant that a command line requests.
type grantRequest struct {
	namespace, fileSystem string
	accessPoints          []string
}

var (
	fileSystemPattern  = regexp.MustCompile(`^fs-[0-9a-f]+$`)
	accessPointPattern = regexp.MustCompile(`^fsap-[0-9a-f]+$`)
)

// parseGrant parses the arguments of a command line. It trusts none: they may be copied from a message that quotes a tenant's text.
func parseGrant(args []string) (grantRequest, error) {
	if len(args) < 3 {
		return grantRequest{}, errors.New("found no access point; want NAMESPACE FILESYSTEM and one ACCESSPOINT or more")
	}
	r := grantRequest{args[0], args[1], args[2:]}
	if wrong := validation.IsDNS1123Label(r.namespace); len(wrong) > 0 {
		return r, fmt.Errorf("NAMESPACE is %.64q, want the name of a namespace", r.namespace)
	}
	if !fileSystemPattern.MatchString(r.fileSystem) {
		return r, fmt.Errorf("FILESYSTEM is %.64q, want an ID such as fs-0123456789abcdef0", r.fileSystem)
	}
	for _, id := range r.accessPoints {
		if id != v1alpha1.AllAccessPoints && !accessPointPattern.MatchString(id) {
			return r, fmt.Errorf("ACCESSPOINT is %.64q, want an ID such as fsap-0123456789abcdef0, or '*'", id)
		}
	}
	return r, nil
}

// write creates or extends the grant of the namespace. It returns the grant and the access points that it added.
func (r grantRequest) write(ctx context.Context, c client.Client) (*v1alpha1.SharedVolumeGrant, []string, error) {
	namespace, grant := &corev1.Namespace{}, &v1alpha1.SharedVolumeGrant{}
	if err := c.Get(ctx, client.ObjectKey{Name: r.namespace}, namespace); apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("there is no namespace %s: a grant is for one that exists", r.namespace)
	} else if err != nil {
		return nil, nil, fmt.Errorf("reading namespace %s: %w", r.namespace, err)
	}
	err := c.Get(ctx, client.ObjectKey{Name: r.namespace}, grant)
	switch {
	case apierrors.IsNotFound(err):
		grant.Name, grant.Spec.NamespaceUID = r.namespace, string(namespace.UID)
		added := r.addTo(grant)
		return grant, added, c.Create(ctx, grant, client.FieldOwner("berth"))
	case err != nil:
		return nil, nil, grantError("reading", r.namespace, err)
	case !isFor(grant, namespace):
		return nil, nil, fmt.Errorf("SharedVolumeGrant %[1]s was written for an earlier namespace %[1]s: this one would get all that it lists, too. "+
			"Find out who owns it; then, to write it again: %s; or, to grant all of it: %s", r.namespace,
			escape.Command("oc delete sharedvolumegrant %s", r.namespace),
			escape.Command("oc patch sharedvolumegrant %s --type=merge -p %s", r.namespace, fmt.Sprintf(`{"spec":{"namespaceUID":%q}}`, namespace.UID)))
	}
	added := r.addTo(grant)
	if len(added) == 0 {
		return grant, nil, nil
	}
	if err := c.Update(ctx, grant, client.FieldOwner("berth")); apierrors.IsConflict(err) {
		return nil, nil, fmt.Errorf("somebody else has changed SharedVolumeGrant %s at the same time: run it again", r.namespace)
	} else if err != nil {
		return nil, nil, grantError("writing", r.namespace, err)
	}
	return grant, added, nil
}

// isFor reports whether a grant is for this namespace, and not for an earlier one of the same name. It decides as the operator does.
func isFor(grant *v1alpha1.SharedVolumeGrant, namespace *corev1.Namespace) bool {
	if wanted := cmp.Or(grant.Spec.NamespaceUID, grant.Status.NamespaceUID); wanted != "" {
		return wanted == string(namespace.UID)
	}
	return !namespace.CreationTimestamp.After(grant.CreationTimestamp.Time)
}

// addTo adds the requested access points that a grant lacks, and returns them.
func (r grantRequest) addTo(grant *v1alpha1.SharedVolumeGrant) (added []string) {
	i := slices.IndexFunc(grant.Spec.FileSystems, func(f v1alpha1.FileSystemGrant) bool { return f.FileSystemID == r.fileSystem })
	if i < 0 {
		i = len(grant.Spec.FileSystems)
		grant.Spec.FileSystems = append(grant.Spec.FileSystems, v1alpha1.FileSystemGrant{FileSystemID: r.fileSystem})
	}
	of := &grant.Spec.FileSystems[i]
	for _, id := range r.accessPoints {
		if !slices.Contains(of.AccessPointIDs, id) && !slices.Contains(of.AccessPointIDs, v1alpha1.AllAccessPoints) {
			of.AccessPointIDs = append(of.AccessPointIDs, id)
			added = append(added, id)
		}
	}
	return added
}

// grantError explains why a grant cannot be read or written.
func grantError(doing, name string, err error) error {
	switch {
	case meta.IsNoMatchError(err):
		return errors.New("the cluster does not serve SharedVolumeGrants: install the operator that serves them")
	case apierrors.IsForbidden(err) && doing == "reading" && name != "":
		return fmt.Errorf("you may not read SharedVolumeGrant %s: a cluster administrator can let you", name)
	}
	return fmt.Errorf("%s SharedVolumeGrant %s: %w", doing, name, err)
}

// grantsOf returns the grant of a namespace, or all grants. There may be none.
func grantsOf(ctx context.Context, c client.Client, namespace string) ([]v1alpha1.SharedVolumeGrant, error) {
	if namespace == "" {
		all := &v1alpha1.SharedVolumeGrantList{}
		if err := c.List(ctx, all); apierrors.IsForbidden(err) {
			return nil, errors.New("you may not list the SharedVolumeGrants of all namespaces: name yours with -n NAMESPACE")
		} else if err != nil {
			return nil, grantError("listing", "", err)
		}
		return all.Items, nil
	}
	grant := &v1alpha1.SharedVolumeGrant{}
	if err := c.Get(ctx, client.ObjectKey{Name: namespace}, grant); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, grantError("reading", namespace, err)
	}
	return []v1alpha1.SharedVolumeGrant{*grant}, nil
}

// listGrants prints a table of grants.
func listGrants(w io.Writer, grants []v1alpha1.SharedVolumeGrant) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NAMESPACE\tFILE SYSTEM\tACCESS POINT\tEFFECTIVE")
	for _, grant := range grants {
		effective := "not yet"
		if c := meta.FindStatusCondition(grant.Status.Conditions, v1alpha1.ConditionEffective); c != nil {
			if effective = "yes"; c.Status != metav1.ConditionTrue {
				effective = "no: " + c.Reason
			}
		}
		for _, of := range grant.Spec.FileSystems {
			for _, id := range of.AccessPointIDs {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", escape.Cell(grant.Name), escape.Cell(of.FileSystemID), escape.Cell(id), escape.Cell(effective))
			}
		}
	}
	return table.Flush()
}

// printGrant prints a grant like kubectl, without fields that only the API server writes.
func printGrant(w io.Writer, grant *v1alpha1.SharedVolumeGrant) error {
	text, err := boundedyaml.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "SharedVolumeGrant",
		"metadata": map[string]any{"name": grant.Name}, "spec": grant.Spec,
	})
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// grantsClient returns a client for grants.
func (f *clusterFlags) grantsClient() (client.Client, error) {
	config, err := f.limited()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.New(config, client.Options{Scheme: scheme})
}
