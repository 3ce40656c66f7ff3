package matrix

import "strings"

// Rows are the drivers.
var Rows = []Row{
	{Driver: "EFS, version 2.1.11 of OpenShift 4.21", Cells: efsCells("efs"), Image: openshift + "aws-efs-csi-driver"},
	{Driver: "EFS, version 3.4.1", Cells: efsCells("efs-3.4.1"), Image: "public.ecr.aws/efs-csi-driver/amazon/aws-efs-csi-driver"},
	{Driver: "EBS, version 1.63.1", Cells: allCells("ebs"), Image: openshift + "aws-ebs-csi-driver"},
	{Driver: "GCP PD, version 1.28.1", Cells: allCells("gcppd"), Image: openshift + "gcp-pd-csi-driver"},
	{Driver: "Manila, version 1.36.0", Cells: manilaCells(), Image: openshift + "csi-driver-manila", More: map[string]string{"NFS plugin of nodes": openshift + "csi-driver-nfs"}},
	{Driver: "Azure Disk", Cells: azureDiskCells(), Image: openshift + "azure-disk-csi-driver"},
	{Driver: "Azure File", Cells: azureFileCells(), Image: openshift + "azure-file-csi-driver"},
	{Driver: "Cinder, version 1.36.0", Cells: cinderCells(), Image: openshift + "openstack-cinder-csi-driver"},
	{Driver: "vSphere", Cells: vSphereCells(), Image: openshift + "vsphere-csi-driver", More: map[string]string{"syncer": openshift + "vsphere-csi-driver-syncer"}},
	{Driver: "the sample driver, which is in no release", Cells: sampleCells, Image: "quay.io/berth-csi/sample-csi-driver"},
}

// openshift begins the repositories of OpenShift's images.
const openshift = "quay.io/openshift/origin-"

var sampleCells = map[Capability]Cell{
	Provision:       {Test: "TestMatrix/sample/provision"},
	Attach:          {Not: "all nodes have the folder with the volumes; nothing is attached to a node"},
	Publish:         {Test: "TestMatrix/sample/publish"},
	Expand:          {Test: "TestMatrix/sample/expand"},
	Snapshot:        {Test: "TestMatrix/sample/snapshot"},
	Delete:          {Test: "TestMatrix/sample/delete"},
	Tags:            {Not: "it calls no cloud, so there is nothing to tag"},
	STS:             {Not: "it calls no cloud, so it has no credentials"},
	PrivateEndpoint: {Not: "it calls no cloud, so it has no endpoints"},
}

// efsCells returns the cells of a version of the EFS driver.
func efsCells(name string) map[Capability]Cell {
	test := func(capability string) Cell { return Cell{Test: "TestMatrix/" + name + "/" + capability} }
	return map[Capability]Cell{
		Provision:       test("provision"),
		Attach:          {Not: "a file system is mounted over the network; nothing is attached to a node"},
		Publish:         test("publish"),
		Expand:          {Not: "a file system has no size, and neither have its access points"},
		Snapshot:        {Not: "EFS has no snapshots; AWS Backup makes backups of whole file systems"},
		Delete:          test("delete"),
		Tags:            test("tags"),
		STS:             test("STS"),
		PrivateEndpoint: test("private_endpoint"),
	}
}

// allCells returns the cells of a driver that can do everything.
func allCells(name string) map[Capability]Cell {
	cells := map[Capability]Cell{}
	for _, c := range Capabilities {
		cells[c.Name] = Cell{Test: "TestMatrix/" + name + "/" + strings.ReplaceAll(string(c.Name), " ", "_")}
	}
	return cells
}

func cinderCells() map[Capability]Cell {
	cells := map[Capability]Cell{}
	for _, c := range Capabilities {
		cells[c.Name] = Cell{Test: "TestMatrix/cinder/" + strings.ReplaceAll(string(c.Name), " ", "_")}
	}
	cells[STS] = manilaCells()[STS]
	return cells
}

func manilaCells() map[Capability]Cell {
	test := func(capability string) Cell { return Cell{Test: "TestMatrix/manila/" + capability} }
	return map[Capability]Cell{
		Provision:       test("provision"),
		Attach:          {Not: "a share is mounted over the network; nothing is attached to a node"},
		Publish:         test("publish"),
		Expand:          test("expand"),
		Snapshot:        test("snapshot"),
		Delete:          test("delete"),
		Tags:            test("tags"),
		STS:             {Not: "Keystone does not accept tokens of service accounts; the tests log in with an application credential, the closest equivalent"},
		PrivateEndpoint: test("private_endpoint"),
	}
}

// noAzureEndpoint is why no test shows that drivers for Azure work on a cloud with endpoints of its own.
const noAzureEndpoint = "what stands in for the driver calls no endpoints; a test of the definition shows that an Azure Stack's reach the driver's container"

func azureDiskCells() map[Capability]Cell {
	cells := allCells("azuredisk")
	cells[PrivateEndpoint] = Cell{Not: noAzureEndpoint}
	return cells
}

func azureFileCells() map[Capability]Cell {
	cells := allCells("azurefile")
	cells[Attach] = Cell{Not: "a share is mounted over the network; nothing is attached to a node"}
	cells[PrivateEndpoint] = Cell{Not: noAzureEndpoint}
	return cells
}

func vSphereCells() map[Capability]Cell {
	test := func(capability string) Cell { return Cell{Test: "TestMatrix/vsphere/" + capability} }
	return map[Capability]Cell{
		Provision:       test("provision"),
		Attach:          test("attach"),
		Publish:         test("publish"),
		Expand:          test("expand"),
		Snapshot:        test("snapshot"),
		Delete:          test("delete"),
		Tags:            {Not: "the Infrastructure has no tags for vSphere; a volume is marked with the cluster's ID, as the test of provisioning shows"},
		STS:             {Not: "vCenter does not accept tokens of service accounts"},
		PrivateEndpoint: {Not: "each vCenter is a private endpoint; the cloud configuration says whether its certificate is verified"},
	}
}
