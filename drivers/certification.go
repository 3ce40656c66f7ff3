package drivers

// Certification describes a driver's volumes for the tests of Kubernetes and OpenShift: it has the facts that are not in the assets.
type Certification struct {
	// Class names the StorageClass that the tests copy.
	Class string
	// Parameters are the parameters of a StorageClass that an administrator has to create, because the driver needs to
	// know more about the cloud to provision volumes. They are empty if the operator creates Class.
	Parameters map[string]string
	// SnapshotClass names the VolumeSnapshotClass among the assets that the tests copy; "" if the driver takes no snapshots.
	SnapshotClass string
	// MinSize and MaxSize are the limits of a volume's size; MaxSize is "" if there is none.
	MinSize, MaxSize string
	// FileSystems are the file systems that a StorageClass can ask for; empty if it cannot choose.
	FileSystems []string
	// MountOptions are mount options that the driver accepts.
	MountOptions []string
	// TopologyKeys are the topology keys that the driver sets on nodes, if the topology decides where a volume can be
	// used.
	TopologyKeys []string
	// Clones says that a claim can be the source of another claim.
	Clones bool
	// MountGroup says that the driver mounts volumes for the group of a pod, so that the kubelet need not change the
	// owners of files.
	MountGroup bool
	// Attributes are the parameters of a VolumeAttributesClass to which the driver can change a volume; empty if it cannot.
	Attributes map[string]string
	// Create is a shell command that creates the cloud resources which the driver cannot create itself, and prints a
	// StorageClass that uses them; "" if nothing is missing. Destroy deletes resources that the driver and Create leave
	// in the cloud and that OpenShift's installer does not delete; "" if there are none. INFRA_ID and REGION describe
	// the cluster.
	Create, Destroy string
}

// AWSDestroy is the Destroy command of AWS drivers.
const AWSDestroy = `berth aws destroy --infra-id "$INFRA_ID" --region "$REGION" --confirm`
