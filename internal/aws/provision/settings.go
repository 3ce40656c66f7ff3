package provision

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"

	"github.com/berth-csi/berth/internal/aws/client"
)

// settingDifferences says how an existing file system differs from the request in settings that AWS describes separately: its replication,
// its policy, its lifecycle and its backups. Whoever has made the file system may have given it a replication or backups that copy all data
// elsewhere, or a policy that lets others in.
func (c creator) settingDifferences(ctx context.Context, fs efstypes.FileSystemDescription) (all []string, _ error) {
	replications, err := c.EFS.DescribeReplicationConfigurations(ctx, &efs.DescribeReplicationConfigurationsInput{FileSystemId: fs.FileSystemId})
	if err != nil && client.CodeOf(err) != "ReplicationNotFound" {
		return nil, fmt.Errorf("reading the replication of file system %s: %w", aws.ToString(fs.FileSystemId), err)
	}
	if err == nil {
		for _, r := range replications.Replications {
			all = append(all, replicationDifferences(aws.ToString(fs.FileSystemId), r)...)
		}
	}
	policy, err := c.EFS.DescribeFileSystemPolicy(ctx, &efs.DescribeFileSystemPolicyInput{FileSystemId: fs.FileSystemId})
	if err != nil && client.CodeOf(err) != "PolicyNotFound" {
		return nil, fmt.Errorf("reading the policy of file system %s: %w", aws.ToString(fs.FileSystemId), err)
	}
	if err == nil {
		all = append(all, policyDifferences(aws.ToString(policy.Policy), aws.ToString(fs.OwnerId))...)
	}
	if fs.NumberOfMountTargets > 0 {
		return all, nil // it is in use, and its administrators choose where its files are stored, and whether they are backed up
	}
	lifecycle, err := c.EFS.DescribeLifecycleConfiguration(ctx, &efs.DescribeLifecycleConfigurationInput{FileSystemId: fs.FileSystemId})
	if err != nil {
		return nil, fmt.Errorf("reading the lifecycle of file system %s: %w", aws.ToString(fs.FileSystemId), err)
	}
	for _, l := range lifecycle.LifecyclePolicies {
		for _, move := range []struct{ to, after string }{{"Infrequent Access", string(l.TransitionToIA)}, {"Archive", string(l.TransitionToArchive)}} {
			if move.after != "" {
				all = append(all, fmt.Sprintf("its lifecycle moves files to %s (%s)", move.to, move.after))
			}
		}
	}
	backup, err := c.EFS.DescribeBackupPolicy(ctx, &efs.DescribeBackupPolicyInput{FileSystemId: fs.FileSystemId})
	if err != nil && client.CodeOf(err) != "PolicyNotFound" {
		return nil, fmt.Errorf("reading the backup policy of file system %s: %w", aws.ToString(fs.FileSystemId), err)
	}
	if err == nil && backup.BackupPolicy != nil && slices.Contains([]efstypes.Status{efstypes.StatusEnabled, efstypes.StatusEnabling}, backup.BackupPolicy.Status) {
		all = append(all, "it is backed up automatically, and whoever may restore backups in the account can read its files")
	}
	return all, nil
}

// replicationDifferences says what a replication copies a file system to, or which one it overwrites the file system with.
func replicationDifferences(fileSystem string, r efstypes.ReplicationConfigurationDescription) (all []string) {
	if source := aws.ToString(r.SourceFileSystemId); source != fileSystem {
		return []string{fmt.Sprintf("it is a replica of file system %s in region %s", source, aws.ToString(r.SourceFileSystemRegion))}
	}
	for _, to := range r.Destinations {
		where := "file system " + aws.ToString(to.FileSystemId) + " in region " + aws.ToString(to.Region)
		if account := aws.ToString(to.OwnerId); account != "" {
			where += " of account " + account
		}
		all = append(all, "it is replicated to "+where)
	}
	return all
}

// clientActions are the actions that a policy may allow: to mount. Without a policy, everybody who reaches a mount target may do so.
var clientActions = []string{"elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite", "elasticfilesystem:ClientRootAccess"}

// words are one text or several in a policy.
type words []string

func (w *words) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*w = words{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(w))
}

// principals are the principals of a statement: "*", or names, with their kind unless that is "AWS".
type principals []string

func (p *principals) UnmarshalJSON(text []byte) error {
	var everybody string
	if json.Unmarshal(text, &everybody) == nil {
		*p = principals{everybody}
		return nil
	}
	var kinds map[string]words
	if err := json.Unmarshal(text, &kinds); err != nil {
		return err
	}
	for kind, names := range kinds {
		for _, name := range names {
			if kind != "AWS" {
				name = kind + " " + name
			}
			*p = append(*p, name)
		}
	}
	slices.Sort(*p)
	return nil
}

// statement is a statement of a policy.
type statement struct {
	Effect    string
	Principal principals
	Action    words
}

// statements are one statement or several.
type statements []statement

func (s *statements) UnmarshalJSON(text []byte) error {
	var one statement
	if json.Unmarshal(text, &one) == nil {
		*s = statements{one}
		return nil
	}
	return json.Unmarshal(text, (*[]statement)(s))
}

// accountIn returns the account in an ARN, or "". The path of a role comes after that, and may contain anything.
func accountIn(arn string) string {
	if parts := strings.SplitN(arn, ":", 6); len(parts) == 6 && parts[0] == "arn" {
		return parts[4]
	}
	return ""
}

// policyDifferences says what a policy allows beyond clientActions, and whom from other accounts it lets in. An administrator may have
// restricted who mounts the file system, as docs/reference/security.md advises: that is no difference.
func policyDifferences(policy, account string) (all []string) {
	var document struct{ Statement statements }
	if err := json.Unmarshal([]byte(policy), &document); err != nil {
		return []string{fmt.Sprintf("its policy cannot be read: %v", err)}
	}
	for _, s := range document.Statement {
		if s.Effect == "Deny" {
			continue
		}
		who := strings.Join(s.Principal, ", ")
		if len(s.Principal) == 0 {
			who = "all but some"
		}
		foreign := len(s.Principal) == 0 || slices.ContainsFunc(s.Principal, func(name string) bool {
			return name != "*" && name != account && accountIn(name) != account
		})
		further := len(s.Action) == 0 || slices.ContainsFunc(s.Action, func(action string) bool { return !slices.Contains(clientActions, action) })
		switch {
		case further && len(s.Action) == 0:
			all = append(all, "its policy allows all but some actions to "+who)
		case foreign || further:
			all = append(all, fmt.Sprintf("its policy allows %s to %s", strings.Join(s.Action, ", "), who))
		}
	}
	return all
}
