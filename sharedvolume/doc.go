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
// between, because neither side is ever open. Both have the storage class "": nothing provisions
// such a claim, and no StorageClass object is needed.
//
// Objects that the community aws-efs-operator made are kept as they are, under the names they have.
package sharedvolume
