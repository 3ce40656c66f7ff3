// Package operator runs one optional CSI driver on a cluster: it installs, configures and removes the driver that a
// drivers.Driver describes, as the driver's ClusterCSIDriver object asks. Without that object it touches nothing of the
// driver.
//
// Run starts the operator. The reconciler runs a cycle for each desired state of the ClusterCSIDriver, and a cycle runs
// the controllers for that state: those of library-go's that every CSI driver of OpenShift has, and those of the
// packages in this folder.
//
// Log messages are structured, and name the object that they are about. Their verbosity is
//
//	V(0)  changes of state, waits that need an administrator, and errors
//	V(2)  each write to the cluster, and each request to a backend that fails
//	V(4)  why nothing was written
//
// spec.operatorLogLevel of the ClusterCSIDriver sets it: Normal is 2, Debug is 4.
//
// # How it works
//
// operator.Run is what berth-operator driver efs runs. It first acquires the leader-for-life lock (operator/leader) that
// all operators of the driver use, including the community's, so that only one is ever active. If the driver is in
// another namespace, it also waits until nobody holds the lock there; any tenant can create one, so it counts only where
// cluster-scoped objects show an operator of the driver. A lock is free once its pod has ended (drivers/lock), which
// operator-lib would not notice. A wait shows in a metric, in the log and, while no operator is active, in a condition,
// but not in readiness: rolling updates are not delayed by pods on lost nodes. Meanwhile, operator/controllers (unowned.go) gives what
// OLM v0 has created without an owner the ClusterServiceVersion as one, so that it is removed with the operator. Then
// these run side by side:
//
//   - the reconciler (operator/reconciler.go). It watches ClusterCSIDriver/efs.csi.aws.com (operator/clustercsidriver)
//     and runs a cycle for each desired state: Absent, Managed, Unmanaged, Removed or Orphaned. When the desired
//     state changes, all controllers of the old cycle end before those of the new one start.
//   - the API controllers, which serve the APIs that come with the driver. For EFS that is sharedvolume, which
//     reconciles SharedVolumes whether or not the driver is installed, and waits while their CRDs are missing
//     (sharedvolume/definitions.go). Before the operator touches the driver, it calls Prepare of each API controller:
//     what an earlier operator created shows whether SharedVolumes need grants from the beginning, and adopting those
//     objects would destroy that evidence.
//
// A cycle (operator/cycle.go) finds the driver's namespace, renders the driver's objects once, and writes to the
// ClusterCSIDriver what must be there before any object of the driver: the finalizer, and annotations with the driver's
// namespace and its UID. Then it runs controllers until the desired state changes. To install the driver
// (operator/install.go) it adopts the objects of earlier operators and runs the controllers of operator/controllers:
//
//   - adoption: adopts what the API server refused to have adopted at first, and reports what it still refuses
//   - staticresources: applies service accounts, RBAC, the CSIDriver, monitoring: everything that depends only on its
//     asset
//   - configobserver: observes the cluster's proxy and TLS settings, copies them to the ClusterCSIDriver (wraps
//     library-go's), and gives them to the workloads' controllers, which do not follow what others write there
//   - cloudconfig: fills the driver's ConfigMap with what its pods need of the cloud's configuration, such
//     as its CA bundle
//   - credentialsrequest: requests cloud credentials from the cloud credential operator
//   - storageclass: manages the StorageClasses, replaces one only if nobody else made what would change, and
//     makes that of a platform the default of a fresh cluster
//   - snapshotclass: manages the VolumeSnapshotClasses of drivers whose snapshots depend on the cluster's
//     configuration, and makes that of a platform the driver's default in a fresh cluster
//   - workloads: library-go's controllers of the Deployment and the DaemonSet, with hooks for the driver's
//     settings and for nodes that are NotReady; reports settings that the driver cannot honor, and why the API server
//     refuses pods
//   - backend: asks the backend what it offers, for drivers that have one
//   - retirement: deletes objects that the driver's definition has retired, and names those that other
//     versions of the operator created
//   - clustercsidriver: adds the finalizer again when somebody has removed it
//   - operator/drivernamespace: checks that the driver's namespace is the same, and that no other operator has
//     installed a driver for the same volumes
//   - upgradeable: reports to OLM whether it may replace the operator
//   - clustercsidriver: writes the conditions that all controllers report, folded by subject (subjects.go), and their
//     summary in Available, Progressing and Degraded, in one request, at most five times a second
//   - library-go's loglevel: sets the operator's own log level
//   - the driver's own controllers, in drivers/NAME/controller, such as that of vSphere's configuration and that of EFS's
//     volumes in AWS
//
// A version of a driver may lack objects that an earlier one has. Its definition lists them as Retired, and the operator
// has exactly the permissions to read and delete these. It deletes them, if an operator of the driver created them:
// workloads at once, and what their pods need when the driver has rolled out without them. After a downgrade there are
// objects of a later version, which the earlier one can neither know nor has permissions for. So each operator records
// its objects in an annotation of the ClusterCSIDriver, and names those that it does not know in a condition, and when
// it removes the driver. It deletes nothing because of a record.
//
// An earlier operator may have written keys into a Secret that the driver still has. All pods read such a Secret at each
// call, so they get the same keys, old and new pods alike. The definition names the keys (History.Keys), and its pods
// understand them. The controller of static resources leaves the Secret as it is, until that of retired objects finds no
// pod of the earlier driver any more, and replaces the old keys by the new ones in one write.
//
// A write may be lost: etcd can be restored to any version, also to exactly the one before that write, and then no watch
// shows another one. So nothing waits for a write of its own without a limit. After five seconds the cache counts as
// right.
//
// To remove the driver it runs operator/uninstall, which waits until no pod uses the driver's volumes and the driver's
// controller has nothing left to detach or delete, deletes the objects stage by stage, and then removes the finalizer.
// While it waits, it pauses for ten times as long as it took to observe the cluster, and no change of a pod or an object
// shortens the pause. A definition says which volumes of Kubernetes' own API are the driver's, too (drivers.InTree).
// operator/objects applies, adopts and deletes objects for all of them. A driver's definition says how its containers
// follow the cluster, as Settings: pure functions from the observed cluster to a container.
//
// An object that the API server refuses, for example because of a policy, holds up no other. Each controller reports it
// in its condition, and tries again. objects.Readiness lets the driver's pods start when the objects that they need are
// applied, or were refused several times. In a removal only Deployments and DaemonSets hold up what comes after them.
// What has to be written first, such as the finalizer, holds up everything: the condition …ReconcileDegraded quotes the
// refusal (operator/cycle.go). The cluster storage operator updates a driver's operator although one of its objects is
// refused, and sharedvolume.Prepare leaves a refused SharedVolumePolicy to the controller.
//
// Pods on nodes that are NotReady can be neither updated nor ended. The operator knows these nodes, from a cache that
// keeps a few bytes of each node. While pods on other nodes are to be updated, it allows as many more pods to be
// unavailable. When the status of a DaemonSet shows no more outdated or unavailable pods than nodes are NotReady, it reads the pods, and drivers/rollout decides whether those are the ones. If so, it records that the
// rollout is complete in library-go's annotation on the DaemonSet, on which the conditions, the end of an adoption and
// berth switch depend.
//
// Some clouds have nothing for a driver to serve, such as Manila. The operator asks the backend what it offers, with the
// credentials that the driver will have, and installs the driver once there is an offer, with a StorageClass for each.
// It never withdraws an offer, not even when the backend cannot be asked. drivers.Backend in the definition says which
// Secret has the credentials, and how often to ask.
//
// A definition is data, and imports no SDK of a cloud. What asks a cloud is in drivers/NAME/controller, with the controllers
// that serve one driver alone; drivers/registry/controllers lists these, and only cmd/berth-operator imports it. They get
// their dependencies from the cycle, as the type in drivers/controller says.
package operator
