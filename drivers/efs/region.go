package efs

import "github.com/berth-csi/berth/drivers"

// cloudCAFile is where the assets mount the CA bundle of the cloud.
const cloudCAFile = "/var/run/cloud-ca/" + drivers.CABundleKey

// region tells the driver its region, in the controller and on nodes, where mount.efs reads the variables, too. The
// driver calls EFS, and STS when it assumes a role. If a file system's name cannot be resolved, mount.efs asks EFS and
// EC2 for the address of a mount target.
var region = drivers.AWSRegion{
	Endpoints: map[string]string{"elasticfilesystem": "AWS_ENDPOINT_URL_EFS", "ec2": "AWS_ENDPOINT_URL_EC2", "sts": "AWS_ENDPOINT_URL_STS"},
	CAFile:    cloudCAFile,
}
