package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	smithyhttp "github.com/aws/smithy-go/transport/http"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsclient "github.com/berth-csi/berth/internal/aws/client"
	"github.com/berth-csi/berth/internal/aws/ownership"
	"github.com/berth-csi/berth/internal/aws/provision"
	"github.com/berth-csi/berth/internal/aws/removal"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
)

func newAWSCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "aws",
		Short: "Create an EFS file system for a cluster, and delete the resources that a cluster has left in AWS",
		Long: `Create an EFS file system for a cluster, and delete the resources that a cluster has left in AWS.

The credentials are the ones that the AWS CLI uses: environment variables, ~/.aws, or the instance's role.`,
		Args: takesCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAWSCreateCommand(), newAWSDestroyCommand())
	return cmd
}

func newAWSCreateCommand() *cobra.Command {
	f := &clusterFlags{}
	var output, name string
	var points, trusted []string
	var dryRun bool
	run := &runFlags{}
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create an EFS file system for a cluster",
		Long: `Create an EFS file system for a cluster: encrypted, with a mount target in each zone that has nodes, a security group
that admits the nodes, and access points. Region, tags and nodes are read from the cluster. Everything gets the
cluster's tag, so that 'berth aws destroy' and the installer find it.

Existing resources stay as they are, so that the same command continues after an interruption.

It needs these permissions:` + listed(provision.Permissions) + `

The first file system of an account also needs iam:CreateServiceLinkedRole.`,
		Example: `  berth aws create --dry-run
  berth aws create --access-point /team-a --access-point /team-b:2000:2000:0700
  berth aws create -o storageclass | oc apply -f -
  berth aws create --access-point /team-a -o sharedvolume | oc -n team-a apply -f -`,
		Args: takesNothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var parsed []provision.AccessPoint
			for _, text := range points {
				point, err := provision.ParseAccessPoint(text)
				if err != nil {
					return err
				}
				parsed = append(parsed, point)
			}
			switch {
			case output == formatSharedVolume && len(parsed) == 0:
				return fmt.Errorf("--output %s needs an --access-point", output)
			case dryRun && (output == formatSharedVolume || output == formatStorageClass):
				return fmt.Errorf("--output %s needs the file system's ID, which --dry-run does not know", output)
			}
			c, err := f.storageClient()
			if err != nil {
				return err
			}
			request, region, err := provision.RequestFor(cmd.Context(), c)
			if err != nil {
				return err
			}
			request.Name, request.AccessPoints, request.TrustedPoints = name, parsed, trusted
			clients, err := awsclient.New(cmd.Context(), region, unanswered(cmd))
			if err != nil {
				return err
			}
			ctx, cancel := run.limit(cmd.Context())
			defer cancel()
			progress := map[string]io.Writer{"text": cmd.OutOrStdout(), formatSharedVolume: cmd.ErrOrStderr(), formatStorageClass: cmd.ErrOrStderr()}[output]
			created := provision.Report{Schema: provision.Schema, Cluster: string(request.Cluster), Region: region, DryRun: dryRun, Resources: []provision.Resource{}}
			err = provision.Create(ctx, clients, request, dryRun, func(r provision.Resource) {
				created.Resources = append(created.Resources, r)
				if progress != nil {
					showResource(progress, r, dryRun)
				}
			})
			if err != nil {
				return stopped(ctx, err)
			}
			return printCreated(cmd.OutOrStdout(), output, created, name)
		},
	}
	f.addConnection(cmd)
	cmd.Flags().StringVar(&name, "name", "efs", "`name` that distinguishes the file systems of a cluster")
	cmd.Flags().StringArrayVar(&points, "access-point", nil, "`PATH[:UID:GID[:PERMISSIONS]]` access point to create (repeatable)")
	cmd.Flags().StringArrayVar(&trusted, "trust-access-point", nil, "`ID` of an access point that may write in the directories of the requested ones (repeatable)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be created, and create nothing")
	run.addTimeout(cmd, 15*time.Minute)
	addOutputFlag(cmd, &output, "text", append(slices.Clone(migrate.Formats), formatSharedVolume, formatStorageClass))
	return cmd
}

// Further output formats of berth aws create: manifests of objects that use the created resources.
const (
	formatSharedVolume = "sharedvolume"
	formatStorageClass = "storageclass"
)

// printCreated prints the result in any format but text: the text is printed during the creation.
func printCreated(w io.Writer, format string, created provision.Report, name string) error {
	var manifests []byte
	var err error
	switch format {
	case "json":
		return escape.JSON(w, created)
	case formatSharedVolume:
		manifests, err = created.SharedVolumes()
	case formatStorageClass:
		manifests, err = created.StorageClass(name)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(manifests)
	return err
}

// showResource prints a line about a resource.
func showResource(w io.Writer, r provision.Resource, dryRun bool) {
	about := r.About
	if r.LeftOut != "" {
		about += ": " + r.LeftOut
	}
	fmt.Fprintf(escape.Messages(w), "%-9s %-15s %-25s %s\n", verbOf(r, dryRun), r.Kind, cmp.Or(r.ID, "-"), about)
}

// verbOf returns "left out", "found", "missing" or "created" for a resource.
func verbOf(r provision.Resource, dryRun bool) string {
	switch {
	case r.LeftOut != "":
		return "left out"
	case r.Found:
		return "found"
	case dryRun:
		return "missing"
	}
	return "created"
}

// storageClient returns a client for the objects that describe a cluster: its configuration and its nodes.
func (f *clusterFlags) storageClient() (client.Client, error) {
	config, err := f.limited()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{configv1.Install, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.New(config, client.Options{Scheme: scheme})
}

func newAWSDestroyCommand() *cobra.Command {
	var output, cluster, region, confirm string
	var trusted []string
	run := &runFlags{}
	cmd := &cobra.Command{
		Use:   "destroy",
		Short: "Delete the resources that a cluster's storage has left in AWS",
		Long: `Delete the access points, mount targets, file systems, volumes, snapshots and security groups that have the tag
kubernetes.io/cluster/ID=owned, WITH ALL DATA IN THEM: the file systems and security groups that 'berth aws create' made, the access
points in these file systems, and the volumes and snapshots that the EBS driver made.

It keeps resources without the tag, resources that also have another cluster's tag, and whatever contains these. It also keeps
resources that have the tag, but were created otherwise: whoever may set tags can set them on resources of others. --trust-tags-of
deletes these, too. Only tags say which cluster a volume or a snapshot was created for, so check the list first.

Without --confirm, it lists what it would delete, and roughly what that costs a month. It also prints the command that deletes this list,
with --confirm=DIGEST. If there is anything else to delete by then, that command deletes nothing, prints the new list, and fails. --confirm
without a digest deletes whatever it finds itself: whoever may set tags can add to that after you have read the list.

To list, it needs these permissions:` + listed(removal.PermissionsToFind) + `

To delete, it needs these:` + listed(removal.Permissions),
		Example: `  berth aws destroy --infra-id prod-x7k2p --region us-east-1
  berth aws destroy --infra-id prod-x7k2p --region us-east-1 --confirm=9b1c0e4d7a52`,
		Args: cobra.MatchAll(takesNothing, requiredFlags),
		RunE: func(cmd *cobra.Command, _ []string) error {
			confirmed, digest, err := confirmation(confirm)
			if err != nil {
				return err
			}
			clients, err := awsclient.New(cmd.Context(), region, unanswered(cmd))
			if err != nil {
				return err
			}
			ctx, cancel := run.limit(cmd.Context())
			defer cancel()
			stop := startProgress(cmd.ErrOrStderr(), "searching AWS for remaining resources")
			inventory, err := removal.Find(ctx, clients, ownership.Cluster(cluster), trusted...)
			stop()
			if err != nil {
				return stopped(ctx, err)
			}
			found := removal.Digest(inventory.Delete)
			// If nothing is left to delete, nothing has been added.
			changed := digest != "" && digest != found && len(inventory.Delete) > 0
			if output == "json" {
				report := removal.Report{Schema: removal.Schema, Cluster: cluster, DryRun: !confirmed || changed, Inventory: *inventory, Digest: found, USDPerMonth: removal.Cost(inventory.Delete)}
				if err := escape.JSON(cmd.OutOrStdout(), report); err != nil {
					return err
				}
			} else {
				listInventory(cmd, inventory)
			}
			next := destruction(cluster, region, trusted, found)
			switch {
			case changed:
				return fmt.Errorf("the list has changed: its digest is %s, want %s, as in --confirm; nothing was deleted; read the new list, and to delete it, run `%s`", found, digest, next)
			case !confirmed:
				if output == "text" && len(inventory.Delete) > 0 {
					fmt.Fprintf(cmd.OutOrStdout(), "Nothing was deleted. To delete these and nothing else, with all data in them, run:\n  %s\n", next)
				}
				return nil
			}
			return stopped(ctx, removal.Delete(ctx, clients, inventory, func(r removal.Resource) {
				if output == "text" {
					fmt.Fprintf(escape.Messages(cmd.OutOrStdout()), "deleted   %s\n", r)
				}
			}))
		},
	}
	cmd.Flags().StringVar(&cluster, "infra-id", "", "`ID` status.infrastructureName of the cluster's Infrastructure object")
	cmd.Flags().StringVar(&region, "region", "", "`region` of AWS (default AWS_REGION or the profile's)")
	cmd.Flags().StringArrayVar(&trusted, "trust-tags-of", nil, "`ID` of a resource with the cluster's tag to delete too, although it was created otherwise; for a file system, also its access points (repeatable)")
	cmd.Flags().StringVar(&confirm, "confirm", "false", "`DIGEST` delete what is listed; with the digest of an earlier list, delete nothing if the list has changed")
	cmd.Flags().Lookup("confirm").NoOptDefVal = "true"
	run.addTimeout(cmd, 30*time.Minute)
	addOutputFlag(cmd, &output, "text", migrate.Formats)
	if err := cmd.MarkFlagRequired("infra-id"); err != nil {
		panic(err) // the flag exists
	}
	return cmd
}

// confirmation returns what a value of --confirm means: whether to delete, and the digest of the list to delete, or "" for any list.
func confirmation(value string) (confirmed bool, digest string, err error) {
	if removal.IsDigest(value) {
		return true, value, nil
	}
	if confirmed, err = strconv.ParseBool(value); err != nil {
		return false, "", fmt.Errorf("--confirm is %q, want no value, or the digest that the same command prints without --confirm", value)
	}
	return confirmed, "", nil
}

// destruction returns the command that deletes the resources with a digest, if nothing else is to be deleted by then.
func destruction(cluster, region string, trusted []string, digest string) string {
	command := escape.Command("berth aws destroy --infra-id %s", cluster)
	if region != "" {
		command += escape.Command(" --region %s", region)
	}
	for _, id := range trusted {
		command += escape.Command(" --trust-tags-of %s", id)
	}
	return command + " --confirm=" + digest
}

// listed returns permissions, sorted and indented, each on a line of its own.
func listed(permissions []string) string {
	return "\n  " + strings.Join(slices.Sorted(slices.Values(permissions)), "\n  ")
}

// listInventory prints an inventory. It escapes names of resources, because anybody who may tag a resource chooses its name.
func listInventory(cmd *cobra.Command, inventory *removal.Inventory) {
	w := escape.Messages(cmd.OutOrStdout())
	for _, r := range inventory.Delete {
		line := fmt.Sprintf("delete    %-15s %-25s %s", r.Kind, r.ID, r.Name)
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	for _, r := range inventory.Keep {
		fmt.Fprintf(w, "keep      %-15s %-25s %s: %s\n", r.Kind, r.ID, r.Name, r.Kept)
	}
	fmt.Fprintf(w, "%d to delete, %d to keep. To keep all costs about $%.2f a month.\n", len(inventory.Delete), len(inventory.Keep), removal.Cost(inventory.Delete))
}

// unanswered returns a function that says why a request did not reach AWS. Without that, all attempts would be made in silence.
func unanswered(cmd *cobra.Command) func(*smithyhttp.RequestSendError) {
	return func(err *smithyhttp.RequestSendError) {
		if isTerminal(cmd.ErrOrStderr()) {
			cmd.PrintErr("\r\x1b[K") // the progress is in this line
		}
		cmd.PrintErrf("AWS does not answer: %s; trying up to %d times\n", escape.Line(err.Err.Error()), awsclient.Attempts)
	}
}

// stopped explains the error of a command that was interrupted, timed out, or did not reach AWS.
func stopped(ctx context.Context, err error) error {
	const next = "run the same command to continue"
	switch {
	case err != nil && ctx.Err() == nil && as[*smithyhttp.RequestSendError](err):
		return fmt.Errorf("%w; check the network, such as a VPN or HTTPS_PROXY, and AWS_ENDPOINT_URL", err)
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &exitError{code: exitTimeout, err: fmt.Errorf("timed out: %w; %s", err, next)}
	}
	return fmt.Errorf("%w; %s", errInterrupted, next)
}
