// Package sharedvolume creates a PersistentVolumeClaim and a PersistentVolume for each SharedVolume, bound to each other, and deletes
// both with the SharedVolume.
//
// One pass of the reconciler observes the state (observe), asks a pure function for the next decision (next), performs its
// action, adds the result to the observed state, and repeats that until the decision is to wait. The status is part of each
// decision, so it follows from the observed state too, never from an earlier status.
//
// The claim is created first. It names no volume, but has a selector that only the SharedVolume's own volume matches. Then the volume is
// created, reserved for the claim by the claim's UID. In this order Kubernetes' binder needs the fewest writes, and no other claim or
// volume can be bound to either, because neither is ever open to others. When 300 pairs were created at once with Kubernetes 1.36, this
// order took 5.05 writes per pair: 2 by this package, and 0.05 for the binder's events. Creating the volume first, and then a claim that
// names it, took 7.8 writes per pair, of which 0.8 failed, and more than one and a half times as long.
//
// Both have the storage class "". A class with the provisioner kubernetes.io/no-provisioner would cost the same writes and need a
// StorageClass object that somebody may change or delete; with a class of efs.csi.aws.com, the external provisioner would handle some
// claims.
//
// Objects that the community aws-efs-operator created are kept as they are, under the names they have.
//
// The log is structured. Lines about a SharedVolume, a grant, a policy or a volume carry its key. By verbosity:
//
//	0  errors, and the creation of the SharedVolumePolicy, which decides who may mount what
//	2  each create, patch and delete, with the object and what was changed; each change of a status, with its reason;
//	   when a SharedVolume starts to wait for an in-flight slot
//	4  each decision of each pass, including decisions to read or to wait, and each list of a namespace's pods
//
// # Grants
//
// A SharedVolume without a volume of its own requires a grant (sharedvolume/decide.go). The decision is based on the SharedVolumePolicy
// and the SharedVolumeGrant with the namespace's name, both cluster-scoped and cached. If the grant lists the access point, the
// controller reads the namespace's UID from the API server. A pure function (grants.go) decides whether the grant is effective for that
// UID, and computes the grant's status. Namespaces are not watched: when a pass for a SharedVolume finds that the status of a grant is
// stale, the grant is reconciled again. A SharedVolume without a grant gets no in-flight slot, and waits for a change of the grant or the
// policy.
//
// # The binder
//
// Kubernetes' binder handles the claims of a cluster one after the other, in the order of their creation, and in
// OpenShift it may send 150 requests per second. With the claims of ten thousand SharedVolumes in its queue, all other
// claims would wait for minutes. So sharedvolume does two things:
//
//   - Its work queue serves namespaces round-robin (queue.go): however many SharedVolumes a namespace has, the next request is for
//     another namespace.
//   - Each namespace may have only a few claims in flight, that is, being created and bound. The next claim is created when one of them
//     is bound (record.go). A concurrency limiter (limiter.go) finds out how many claims keep the binder busy, between 2 and 16. It works
//     like the congestion control of TCP Vegas. A SharedVolume that is blocked, for example by a quota, releases its slot immediately,
//     and a SharedVolume whose claim is never bound loses its slot after ten seconds.
//
// The caches hold SharedVolumes and, by a label, the claims and volumes that belong to them. They hold only the fields that the package
// reads, a few KiB per object at most, regardless of its size (trim.go). Pods are not cached: a namespace's pods are listed when a claim is
// deleted, in the background, with one pod in memory at a time (users.go, listing). They are listed again after ten seconds or after twenty
// times the duration of the last list, whichever is longer. Volumes of deleted SharedVolumes are found by the SharedVolume's UID
// (orphans.go).
//
// # Where to read on
//
// Reconcile (sharedvolume/reconcile.go) observes the state: the caches, its record of earlier passes (record.go) with writes that the
// caches do not show yet, and the in-flight slot. A pure function (decide.go) returns the next decision: the status (status.go) and one
// action, such as to create the claim or the volume (objects.go). Reconcile performs the action (write.go), adds the result to the
// observed state, and repeats that until the decision is to wait. At log level 2 it logs each write and each change of a status; all
// levels are listed above.
package sharedvolume
