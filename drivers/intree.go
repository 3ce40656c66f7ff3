package drivers

// InTree is a volume source of Kubernetes' own API whose volumes CSI migration hands to a driver. Objects with such volumes stay as they
// are: nothing in a PersistentVolume or a pod says that a CSI driver serves the volume. The names come from k8s.io/csi-translation-lib,
// with which Kubernetes and the sidecars translate such volumes.
type InTree struct {
	// Source is the field with the volume source, as in JSON. It has the same name in the spec of a PersistentVolume and
	// in a volume of a pod.
	Source string
	// Plugin is the name by which StorageClasses provision such volumes.
	Plugin string
	// Gate is the feature gate that hands the volumes to the driver, in addition to the general gate of CSI migration.
	Gate string
	// Preview is the OpenShift version from which the preview feature sets include the gate. Migrated is the version
	// from which the gate is always on.
	Preview, Migrated string
}
