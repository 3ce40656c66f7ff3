package efs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-csi/berth/drivers"
)

// accessPointQuota is that of the access points of a file system, those of other clusters and those that people have created among
// them. See https://docs.aws.amazon.com/efs/latest/ug/limits.html.
var accessPointQuota = drivers.Quota{
	Resources: "access points",
	Limit:     accessPointLimit,
	Interval:  time.Hour,
	Parent:    fileSystemOf,
	Count:     countAccessPoints,
}

const (
	// awsLimit is how many access points AWS allows for a file system.
	awsLimit = 10000
	// earlyLimit is how many the driver can handle before version manyFrom: it gives each access point a group ID out of 50000 to 51000,
	// and reads one page of 1,000 access points to find a free one. Beyond that it finds none, or one that another access point has.
	earlyLimit = 1000
)

// manyFrom is the first version of the driver that can handle as many access points as AWS allows.
var manyFrom = semver.MustParse("2.3.1")

// accessPointLimit returns how many access points a file system may have before claims fail, by the version of the driver.
func accessPointLimit(environment map[string]string) int {
	version, err := semver.ParseTolerant(cmp.Or(environment[versionEnv], defaultVersion))
	if err != nil || version.LT(manyFrom) {
		return earlyLimit
	}
	return awsLimit
}

// sharedDirectory says what it endangers if the access points of a StorageClass share a directory. The driver deletes the directory of an
// access point with it, and all that is in it.
func sharedDirectory(class *storagev1.StorageClass) string {
	pattern, has := class.Parameters["subPathPattern"]
	deletes := class.ReclaimPolicy == nil || *class.ReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	names := strings.Contains(pattern, "${.PV.name}") || strings.Contains(pattern, "${.PVC.name}") && strings.Contains(pattern, "${.PVC.namespace}")
	if class.Parameters["provisioningMode"] != "efs-ap" || !has || class.Parameters["ensureUniqueDirectory"] != "false" || !deletes || names {
		return ""
	}
	return "its volumes can share a directory, and the deletion of the first claim deletes the files of all"
}

// fileSystemID matches IDs of file systems.
var fileSystemID = regexp.MustCompile(`^fs-[0-9a-f]{8,40}$`)

// accountSecret is the parameter of a StorageClass with which the driver assumes a role in another account.
const accountSecret = "csi.storage.k8s.io/provisioner-secret-name"

// fileSystemOf returns the file system of a StorageClass with which the driver creates an access point for each claim. The operator
// sees none of other accounts.
func fileSystemOf(class *storagev1.StorageClass) string {
	id := class.Parameters["fileSystemId"]
	if class.Parameters["provisioningMode"] != "efs-ap" || class.Parameters[accountSecret] != "" || !fileSystemID.MatchString(id) {
		return ""
	}
	return id
}

// countAccessPoints counts the access points of a file system. If it is not in the cluster's account, that is an error.
func countAccessPoints(ctx context.Context, access drivers.CloudAccess, fileSystem string) (int, error) {
	c, err := connect(access)
	if err != nil {
		return 0, err
	}
	defer c.close()
	count := 0
	err = c.eachAccessPoint(ctx, fileSystem, func(types.AccessPointDescription) (more bool) {
		count++
		return true
	})
	if none := (*types.FileSystemNotFound)(nil); errors.As(err, &none) {
		return 0, fmt.Errorf("file system %s does not exist in the account and region of the cluster: change fileSystemId in the StorageClass, or, if it is of another account, look there", fileSystem)
	}
	if err != nil {
		return 0, fmt.Errorf("counting the access points of file system %s: %w", fileSystem, err)
	}
	return count, nil
}
