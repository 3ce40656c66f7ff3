package certification

import "regexp"

// reasons are the reasons for all drivers. The first one that explains an outcome counts.
var reasons = []Reason{
	// Features that the format of the manifest cannot describe.
	{Name: "pre-provisioned", Kind: NotApplicable, Tests: pattern("Pre-provisioned PV"),
		Why: "the manifest has no volumes that exist already"},
	{Name: "in-tree", Kind: NotApplicable, Tests: pattern("Inline-volume"),
		Why: "for volume plugins in Kubernetes itself"},
	{Name: "windows", Kind: NotApplicable, Tests: regexp.MustCompile(`\(ntfs\)`),
		Why: "NTFS, for nodes with Windows"},
	{Name: "inline", Kind: NotApplicable, Tests: pattern("CSI Ephemeral-volume"), Drivers: []string{"azuredisk", "cinder", "ebs", "efs", "gcppd", "manila", "vsphere"},
		Why: "the driver has no volumes without a claim"},
	{Name: "inline with a Secret", Kind: NotApplicable, Tests: pattern("CSI Ephemeral-volume"), Drivers: []string{"azurefile"},
		Why: "volumes without a claim need a Secret in the namespace of the pod, and the manifest cannot create one"},

	// Features that drivers lack.
	{Name: "block", Kind: NotApplicable, Tests: regexp.MustCompile(`\(block volmode\)|different volume mode|mismatched mode`), Without: "block",
		Why: "there are no devices: volumes are mounted over the network"},
	{Name: "file systems", Kind: NotApplicable, Tests: regexp.MustCompile(`\((ext3|ext4|xfs)\)`), Without: "block",
		Why: "volumes are in file systems of the storage, which has them already"},
	{Name: "ext3", Kind: NotApplicable, Tests: regexp.MustCompile(`\(ext3\)`),
		Why: "ext3 is an old file system that the manifest does not name"},
	{Name: "two modes", Kind: NotApplicable, Tests: regexp.MustCompile(`\(filesystem volmode\)\].*different volume mode`),
		Why: "the tests have this case with a device as the first volume"},
	{Name: "several ephemeral volumes", Kind: NotApplicable, Tests: regexp.MustCompile(`\(immediate-binding\)\].*multiple inline ephemeral volumes`),
		Why: "volumes that exist before the pod has a node may be in different zones"},
	{Name: "immediate binding", Kind: NotApplicable, Tests: regexp.MustCompile(`\(immediate-binding\)\] ephemeral `), Drivers: []string{"azuredisk", "ebs", "gcppd"},
		Why: "a volume that exists before the pod has a node may be in another zone"},
	{Name: "devices", Kind: NotApplicable, Tests: regexp.MustCompile(`\(block volmode\).*(mount multiple PV|correct filesystem size|with mount options|read-only inline)`),
		Why: "a device has no file system and no mount options, and is never read-only"},
	{Name: "snapshots", Kind: NotApplicable, Tests: regexp.MustCompile(`(?i)snapshot`), Without: "snapshotDataSource",
		Why: "the storage takes no snapshots"},
	{Name: "snapshots of no pattern", Kind: NotApplicable, Tests: regexp.MustCompile(`access the volume and restored snapshot`),
		Why: "no pattern of this test says how to take a snapshot"},
	{Name: "other lifetime", Kind: NotApplicable, Tests: regexp.MustCompile(`(Dynamic|Pre-provisioned) Snapshot .*\(ephemeral\)|Ephemeral Snapshot .*\(persistent\)`),
		Why: "a volume either lives as long as a pod or not, and each pattern has tests for both"},
	{Name: "group snapshots", Kind: NotApplicable, Tests: regexp.MustCompile(`VolumeGroupSnapshot|volumegroupsnapshot`), Without: "groupSnapshot",
		Why: "snapshots of several volumes at once are off in the snapshotter"},
	{Name: "snapshot metadata", Kind: NotApplicable, Tests: regexp.MustCompile(`SnapshotMetadata|snapshotmetadata`), Without: "snapshotMetadata",
		Why: "drivers do not say what differs between snapshots"},
	{Name: "clones", Kind: NotApplicable, Tests: regexp.MustCompile(`pvc data source|its clone`), Without: "pvcDataSource",
		Why: "a claim cannot be the source of another one"},
	{Name: "read-only many", Kind: NotApplicable, Tests: regexp.MustCompile(`\(ROX mode\)`), Without: "capReadOnlyMany",
		Why: "the manifest does not promise copies that are read-only"},
	{Name: "expansion", Kind: NotApplicable, Tests: regexp.MustCompile(`volume-expand|support expansion of pvcs`), Without: "controllerExpansion",
		Why: "volumes have no size"},
	{Name: "topology", Kind: NotApplicable, Tests: regexp.MustCompile(`\] topology `), Without: "topology",
		Why: "nodes in all zones can use a volume"},
	{Name: "capacity", Kind: NotApplicable, Tests: regexp.MustCompile(`\] capacity `), Without: "capacity",
		Why: "the cloud does not say how much storage it has"},
	{Name: "SELinux mounts", Kind: NotApplicable, Tests: regexp.MustCompile(`\] seLinuxMount `), Without: "seLinuxMount",
		Why: "several pods share a mount, which has one SELinux label"},
	{Name: "fsGroup", Kind: NotApplicable, Tests: regexp.MustCompile(`\] fsgroupchangepolicy `), Without: "fsGroup",
		Why: "the kubelet leaves owners of files as they are"},
	{Name: "fsGroup by the driver", Kind: NotApplicable, Tests: regexp.MustCompile(`\] fsgroupchangepolicy `), Drivers: []string{"azurefile"},
		Why: "the driver mounts for the group of a pod, so there are no owners to change"},
	{Name: "several nodes", Kind: NotApplicable, Tests: regexp.MustCompile(`single volume from pods on different node`), Without: "RWX",
		Why: "a volume is attached to one node at a time"},
	{Name: "limits", Kind: NotApplicable, Tests: regexp.MustCompile(`\] volumeLimits `), Without: "volumeLimits",
		Why: "the manifest asks for no test that fills a node; OpenShift's LUN stress test does that"},
	{Name: "attributes", Kind: NotApplicable, Tests: regexp.MustCompile(`\] volume-modify `), Drivers: []string{"azuredisk", "azurefile", "cinder", "efs", "gcppd", "manila", "vsphere"},
		Why: "the manifest has no VolumeAttributesClass"},
	{Name: "mount options", Kind: NotApplicable, Tests: regexp.MustCompile(`with mount options`), Drivers: []string{"azurefile", "efs", "manila"},
		Why: "the manifest has no mount option that every server accepts"},
	{Name: "options of stress tests", Kind: NotApplicable, Tests: regexp.MustCompile(`(-stress|performance) `),
		Why: "the manifest has no numbers for stress and performance tests, which are for one cloud"},

	// Features that the tests' cluster lacks.
	{Name: "populators", Kind: NotHere, Excluded: true, Tests: regexp.MustCompile(`any volume data source`),
		Why: "needs the images of a populator and a validator of volumes, which are other projects'"},
	{Name: "SSH", Kind: NotHere, Tests: regexp.MustCompile(`\] disruptive |while kubelet is down`),
		Why: "stops the kubelet by SSH, which the nodes do not serve"},
	{Name: "ext4 grows", Kind: NotHere, Excluded: true, Tests: regexp.MustCompile(`\(default fs\).*(volume-expand (should resize|Verify)|support expansion of pvcs|correct filesystem size)`), Drivers: []string{"cinder", "ebs", "gcppd"},
		Why: "no process of the machine has the capability CAP_SYS_RESOURCE, without which Linux expands no ext4 that is mounted"},
	{Name: "folders", Kind: NotHere, Excluded: true, Tests: regexp.MustCompile(`\((block volmode|ext4|xfs)\)|with mount options`), Drivers: []string{"azuredisk", "vsphere"},
		Why: "needs disks; the volumes of the program in place of the driver are folders, which are no devices and have the machine's file system and its mount options"},
	{Name: "SELinux", Kind: NotHere, Excluded: true, Tests: regexp.MustCompile(`\[Feature:SELinux\]`),
		Why: "the machine's kernel has no SELinux"},
	{Name: "zones", Kind: NotHere, Tests: regexp.MustCompile(`topologies that conflict with AllowedTopologies`),
		Why: "all nodes are in one zone"},

	// Tests that run and fail.
	{Name: "size of a folder", Kind: Fails, Tests: regexp.MustCompile(`correct filesystem size when restoring`), Drivers: []string{"azuredisk", "azurefile", "manila", "vsphere"},
		Why: "a volume here is a folder of the machine, which has the size of the machine's file system"},
}

// pattern matches the tests of patterns that begin with a text.
func pattern(begin string) *regexp.Regexp {
	return regexp.MustCompile(`^\[Testpattern: ` + regexp.QuoteMeta(begin))
}
