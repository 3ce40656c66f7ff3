package ebs

import "github.com/berth-csi/berth/drivers"

// cloudCAFile is where the controller's asset mounts the CA bundle of the cloud.
const cloudCAFile = "/var/run/cloud-ca/" + drivers.CABundleKey

// region is the driver's. Without it, the driver asks the instance metadata service, which answers no pod on the pod
// network by default, and exits. The AWS SDK calls STS when the driver assumes a role; all other calls of the driver are
// to EC2.
var region = drivers.AWSRegion{
	Endpoints: map[string]string{"ec2": "AWS_EC2_ENDPOINT", "sts": "AWS_ENDPOINT_URL_STS"},
	CAFile:    cloudCAFile,
}
