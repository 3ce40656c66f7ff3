package controller

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/blang/semver/v4"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-csi/berth/drivers/efs"
)

const (
	// awsLimit is how many access points AWS allows for a file system.
	awsLimit = 10000
	// earlyLimit is how many access points versions of the driver before manyFrom can handle. They give each access point a group ID from
	// 50000 to 51000, and read only one page of 1,000 access points to find a free ID. Beyond that limit, they find no ID, or an ID that
	// is in use.
	earlyLimit = 1000
)

// manyFrom is the first version of the driver that can handle as many access points as AWS allows.
var manyFrom = semver.MustParse("2.3.1")

// accessPointLimit returns how many access points a file system may have before claims fail, by the version of the driver.
func accessPointLimit(environment map[string]string) int {
	version, err := semver.ParseTolerant(cmp.Or(environment[efs.VersionEnv], efs.DefaultVersion))
	if err != nil || version.LT(manyFrom) {
		return earlyLimit
	}
	return awsLimit
}

// fileSystemID matches IDs of file systems.
var fileSystemID = regexp.MustCompile(`^fs-[0-9a-f]{8,40}$`)

// accountSecret is the parameter of a StorageClass with which the driver assumes a role in another account.
const accountSecret = "csi.storage.k8s.io/provisioner-secret-name"

// maxParameter is more than the bytes of a value that fileSystemOf and groupRange accept.
const maxParameter = 64

// counted returns the parameters that fileSystemOf and groupRange read. It cuts off longer values, which they refuse in any case.
func counted(parameters map[string]string) map[string]string {
	kept := map[string]string{}
	for _, name := range []string{"provisioningMode", "fileSystemId", accountSecret, "gid", "gidRangeStart", "gidRangeEnd"} {
		if value, has := parameters[name]; has {
			kept[name] = strings.Clone(value[:min(len(value), maxParameter)])
		}
	}
	return kept
}

// fileSystemOf returns the file system of a StorageClass, if the driver creates an access point for each claim and the
// file system is in the cluster's account. The operator cannot see other accounts.
func fileSystemOf(class *storagev1.StorageClass) string {
	id := class.Parameters["fileSystemId"]
	if class.Parameters["provisioningMode"] != "efs-ap" || class.Parameters[accountSecret] != "" || !fileSystemID.MatchString(id) {
		return ""
	}
	return id
}

// The range from which the driver takes a group ID for an access point, unless the StorageClass has another range. See
// https://github.com/kubernetes-sigs/aws-efs-csi-driver/blob/master/docs/README.md#storage-class-parameters-for-dynamic-provisioning.
const firstGroup, lastGroup = 50000, 7000000

// groupRange returns the range from which the driver chooses group IDs for a class, and false if the class fixes the
// ID.
func groupRange(class *storagev1.StorageClass) (first, last int64, chosen bool) {
	if class.Parameters["gid"] != "" {
		return 0, 0, false
	}
	bound := func(parameter string, otherwise int64) int64 {
		if n, err := strconv.ParseInt(class.Parameters[parameter], 10, 64); err == nil {
			return n
		}
		return otherwise
	}
	return bound("gidRangeStart", firstGroup), bound("gidRangeEnd", lastGroup), true
}

// isChosen reports whether the driver has chosen a group ID for an access point: it is in the range of a class, and no class fixes it.
func isChosen(group int64, classes []storagev1.StorageClass) bool {
	inRange := false
	for i := range classes {
		if classes[i].Parameters["gid"] == strconv.FormatInt(group, 10) {
			return false
		}
		first, last, chosen := groupRange(&classes[i])
		inRange = inRange || chosen && first <= group && group <= last
	}
	return inRange
}

// isFromDriver reports whether an access point with these tags was created by the driver, in this or another cluster.
func isFromDriver(tags []types.Tag) bool {
	return slices.ContainsFunc(tags, func(tag types.Tag) bool {
		return aws.ToString(tag.Key) == efs.MarkKey && aws.ToString(tag.Value) == efs.MarkValue
	})
}

// usage is how full a file system is.
type usage struct {
	accessPoints int
	// shared are the group IDs that the driver has given to several access points. A user of one such access point can read and write the
	// files of another, wherever both reach the same directory.
	shared []string
}

// A counter counts the access points of a file system that StorageClasses name, including access points that other
// clusters or people created. See https://docs.aws.amazon.com/efs/latest/ug/limits.html.
type counter struct {
	classes      []storagev1.StorageClass
	accessPoints int
	groups       map[int64]int
}

func (c *counter) add(ap types.AccessPointDescription) {
	c.accessPoints++
	if ap.PosixUser != nil && ap.PosixUser.Gid != nil && isFromDriver(ap.Tags) {
		c.groups[*ap.PosixUser.Gid]++
	}
}

func (c *counter) usage() usage {
	counted := usage{accessPoints: c.accessPoints}
	for _, group := range slices.Sorted(maps.Keys(c.groups)) {
		if c.groups[group] > 1 && isChosen(group, c.classes) {
			counted.shared = append(counted.shared, strconv.FormatInt(group, 10))
		}
	}
	return counted
}
