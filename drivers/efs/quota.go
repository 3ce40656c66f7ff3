package efs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-csi/berth/drivers"
)

// accessPointQuota is that of the access points of a file system, those of other clusters and those that people have created among
// them. See https://docs.aws.amazon.com/efs/latest/ug/limits.html.
var accessPointQuota = drivers.Quota{
	Resources: "access points",
	Limit:     10000,
	Interval:  time.Hour,
	Parent:    fileSystemOf,
	Count:     countAccessPoints,
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
