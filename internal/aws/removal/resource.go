package removal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/aws/ownership"
)

// Kind is a kind of resources.
type Kind string

// The kinds, in the order in which AWS allows their deletion: mount targets come before their file system and security group.
const (
	AccessPoint   Kind = "access point"   // of EFS
	MountTarget   Kind = "mount target"   // of EFS
	FileSystem    Kind = "file system"    // of EFS
	Volume        Kind = "volume"         // of EBS
	Snapshot      Kind = "snapshot"       // of EBS
	SecurityGroup Kind = "security group" // of mount targets
)

var kinds = []Kind{AccessPoint, MountTarget, FileSystem, Volume, Snapshot, SecurityGroup}

// Resource is a resource of AWS.
type Resource struct {
	Kind Kind `json:"kind"`
	// ID is AWS's ID.
	ID string `json:"id"`
	// Name is its tag Name, which anybody with permission to tag it chooses.
	Name string `json:"name,omitempty"`
	// FileSystem is the file system of an access point or a mount target.
	FileSystem string `json:"fileSystem,omitempty"`
	// Bytes is the amount of stored data. For volumes and snapshots, it is the size of the volume.
	Bytes int64 `json:"bytes,omitempty"`
	// Kept says why the resource is not deleted. It is empty for resources to delete.
	Kept string `json:"kept,omitempty"`
}

func (r Resource) String() string { return fmt.Sprintf("%s %s", r.Kind, r.ID) }

// Inventory lists the resources with a cluster's tag.
type Inventory struct {
	// Cluster is the cluster.
	Cluster ownership.Cluster `json:"-"`
	// Delete are the resources to delete, in order.
	Delete []Resource `json:"delete"`
	// Keep are the resources that are not deleted, although they or their file system have the cluster's tag.
	Keep []Resource `json:"keep"`
}

// Schema is the schema of Report as JSON.
const Schema = "berth.aws-destroy.v1"

// Report lists the resources to delete, as JSON.
type Report struct {
	Schema string `json:"schema"`
	// Cluster is the infrastructure ID.
	Cluster string `json:"cluster"`
	// DryRun says that nothing was deleted.
	DryRun bool `json:"dryRun"`
	Inventory
	// Digest is the digest of Delete. With it, --confirm=DIGEST deletes these resources, or none if others would be deleted by then.
	Digest string `json:"digest"`
	// USDPerMonth is the approximate cost of keeping the resources in Delete, in US dollars a month.
	USDPerMonth float64 `json:"usdPerMonth"`
}

// digestLength is the number of digits of a digest. AWS chooses the IDs, so nobody can search for resources that have the digest of others.
const digestLength = 12

// Digest returns a short digest of kinds and IDs of resources, in whatever order. Other resources have another digest.
func Digest(all []Resource) string {
	var lines []string
	for _, r := range all {
		lines = append(lines, r.String()+"\n")
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:])[:digestLength]
}

var aDigest = regexp.MustCompile(fmt.Sprintf("^[0-9a-f]{%d}$", digestLength))

// IsDigest reports whether a text may be a digest.
func IsDigest(text string) bool { return aDigest.MatchString(text) }

// prices are in US dollars a month for a GiB, in the region us-east-1, for the storage that the drivers choose by default: EFS
// Standard, EBS gp3, and standard snapshots. See https://aws.amazon.com/efs/pricing and https://aws.amazon.com/ebs/pricing.
var prices = map[Kind]float64{FileSystem: 0.30, Volume: 0.08, Snapshot: 0.05}

// Cost returns the approximate cost of keeping resources, in US dollars a month. Snapshots may cost less: AWS stores only the
// blocks that differ.
func Cost(all []Resource) float64 {
	sum := 0.0
	for _, r := range all {
		sum += prices[r.Kind] * float64(r.Bytes) / (1 << 30)
	}
	return sum
}
