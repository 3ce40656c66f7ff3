package ebs

import "github.com/berth-csi/berth/drivers"

// cloudCAFile is where the controller's asset mounts the CA bundle of the cloud.
const cloudCAFile = "/var/run/cloud-ca/" + drivers.CABundleKey

// region tells the driver its region. Otherwise, the driver would ask the instance metadata service, which by default
// answers no pod on the pod network, and exit. The AWS SDK calls STS when the driver assumes a role. All other calls of
// the driver are to EC2.
var region = drivers.AWSRegion{
	Endpoints: map[string]string{"ec2": "AWS_EC2_ENDPOINT", "sts": "AWS_ENDPOINT_URL_STS"},
	CAFile:    cloudCAFile,
}
