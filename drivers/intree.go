package drivers

// InTree is a volume source of Kubernetes' own API whose volumes CSI migration hands to a driver. The objects that name
// it stay as they are: nothing in a PersistentVolume or a pod says that a CSI driver serves it. The names are those of
// k8s.io/csi-translation-lib, by which Kubernetes and the sidecars translate such volumes.
type InTree struct {
	// Source is the field with the volume source, as in JSON. It has the same name in the spec of a PersistentVolume and
	// in a volume of a pod.
	Source string
	// Plugin is the name by which StorageClasses provision such volumes.
	Plugin string
	// Gate is the feature gate that hands the volumes to the driver, besides the one of CSI migration in general.
	Gate string
	// Preview is the OpenShift version from which the feature sets for previews include the gate, and Migrated the one
	// from which the gate is on and cannot be switched off.
	Preview, Migrated string
}
