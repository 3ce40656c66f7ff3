package drivers

// Certification says of a driver's volumes what tests of Kubernetes and OpenShift have to know and the assets do not say.
type Certification struct {
	// Class names the StorageClass that the tests copy.
	Class string
	// Parameters are the parameters of a StorageClass that an administrator has to create, as the driver cannot provision without
	// knowing more of the cloud. They are empty if the operator creates Class.
	Parameters map[string]string
	// SnapshotClass names the VolumeSnapshotClass among the assets that the tests copy; "" if the driver takes no snapshots.
	SnapshotClass string
	// MinSize and MaxSize are the limits of a volume's size; MaxSize is "" if there is none.
	MinSize, MaxSize string
	// FileSystems are the file systems that a StorageClass can ask for; empty if it cannot choose.
	FileSystems []string
	// MountOptions are some that the driver's mounts accept.
	MountOptions []string
	// TopologyKeys are the keys of the topology that the driver gives to nodes, if that decides where a volume can be used.
	TopologyKeys []string
	// Clones says that a claim can be the source of another one.
	Clones bool
	// MountGroup says that the driver mounts volumes for the group of a pod, instead of the kubelet changing owners of files.
	MountGroup bool
	// Attributes are the parameters of a VolumeAttributesClass to which the driver can change a volume; empty if it cannot.
	Attributes map[string]string
	// Create is a shell command that creates in the cloud what the driver cannot create itself, and prints a StorageClass with it; ""
	// if nothing is missing. Destroy deletes what the driver and Create leave in the cloud and the installer of OpenShift does not
	// know; "" if that is nothing. INFRA_ID and REGION are those of the cluster.
	Create, Destroy string
}

// AWSDestroy is what Destroy of drivers for AWS is.
const AWSDestroy = `berth aws destroy --infra-id "$INFRA_ID" --region "$REGION" --confirm`
