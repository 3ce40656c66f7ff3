// Package operator runs one optional CSI driver on a cluster: it installs, configures and removes the driver that a
// drivers.Driver describes, as the driver's ClusterCSIDriver object asks. Without that object it touches nothing of the
// driver.
//
// Run starts the operator. The reconciler runs a cycle for each desired state of the ClusterCSIDriver, and a cycle runs
// the controllers for that state: library-go's controllers, which every CSI driver of OpenShift has, and the
// controllers in this folder.
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
// The command berth-operator driver efs calls operator.Run, which first acquires the leader-for-life lock (operator/leader) that all
// operators of the driver use, including the community's, so that only one is ever active. If the driver is in another namespace,
// operator.Run also waits until nobody holds the lock there. Any tenant can create such a lock, so it counts only in namespaces where
// cluster-scoped objects show an operator of the driver. A lock is free once its pod has ended (drivers/lock), which operator-lib alone
// would not notice. A wait shows in a metric, in the log and, while no operator is active, in a condition. It does not affect readiness,
// so that pods on lost nodes do not delay rolling updates. Meanwhile, operator/controllers (unowned.go) makes the ClusterServiceVersion
// the owner of objects that OLM v0 created without an owner, so that they are removed with the operator. Once the operator has acquired
// the lock, these run side by side:
//
//   - the reconciler (operator/reconciler.go). It watches ClusterCSIDriver/efs.csi.aws.com (operator/clustercsidriver) and runs a cycle
//     for each desired state: Managed, Kept, Unmanaged, Removed or Orphaned. In the state Absent it runs no cycle. When the desired state
//     changes, all controllers of the old cycle end before those of the new one start.
//   - the API controllers, which serve the APIs that come with the driver. For EFS that is sharedvolume, which
//     reconciles SharedVolumes whether or not the driver is installed, and waits while their CRDs are missing
//     (sharedvolume/definitions.go). Before the operator touches the driver, it calls Prepare of each API controller:
//     the objects of an earlier operator show whether SharedVolumes need grants from the beginning, and adopting these
//     objects would destroy that evidence.
//
// A cycle (operator/cycle.go) finds the driver's namespace, and renders the driver's objects once. Before it writes any object of the
// driver, it adds the finalizer to the ClusterCSIDriver, and annotations with the driver's namespace and the UID of that namespace. Then
// it runs controllers until the desired state changes. To install the driver (operator/install.go) it adopts the objects of earlier
// operators and runs the controllers of operator/controllers:
//
//   - adoption: adopts objects whose adoption the API server refused at first, and reports continuing refusals
//   - staticresources: applies everything that depends only on its asset: service accounts, RBAC, the CSIDriver,
//     monitoring
//   - configobserver: wraps library-go's controller, which copies the cluster's proxy and TLS settings to the ClusterCSIDriver. The
//     workloads' controllers get these settings from the configobserver, and ignore what others write to that copy
//   - cloudconfig: fills the driver's ConfigMap with the parts of the cloud's configuration that its pods need, such as
//     the CA bundle
//   - credentialsrequest: requests cloud credentials from the cloud credential operator
//   - storageclass: manages the StorageClasses, replaces one only if nobody else set the fields that would change, and
//     makes a platform's class the default of a fresh cluster
//   - snapshotclass: manages the VolumeSnapshotClasses of drivers whose snapshots depend on the cluster's
//     configuration, and makes a platform's class the driver's default in a fresh cluster
//   - workloads: library-go's controllers of the Deployment and the DaemonSet, with hooks for the driver's
//     settings and for nodes that are NotReady; reports settings that the driver cannot honor, and why the API server
//     refuses pods
//   - backend: queries the backend for its offers, if the driver has a backend
//   - retirement: deletes objects that the driver's definition has retired, and names objects that other versions of
//     the operator created
//   - clustercsidriver: adds the finalizer again when somebody has removed it
//   - operator/drivernamespace: checks that the driver's namespace is still the same, and that no other operator has installed a driver
//     for the same volumes
//   - upgradeable: reports to OLM whether OLM may replace the operator
//   - clustercsidriver: writes the conditions that all controllers report, folded by subject (subjects.go), and their
//     summary in Available, Progressing and Degraded, in one request, at most five times a second
//   - library-go's loglevel: sets the operator's own log level
//   - the driver's own controllers, in drivers/NAME/controller, such as the controller of vSphere's configuration and
//     the controller of EFS's access points in AWS
//
// A version of a driver may lack objects that an earlier version has. The later version's definition lists these objects as Retired, and
// the operator has exactly the permissions to read and delete them. It deletes a retired object if an operator of the driver created the
// object: workloads at once, and the objects that their pods need once the driver has rolled out without these workloads. After a
// downgrade, objects of a later version remain, which the earlier version neither knows nor may delete. So each operator records its
// objects in an annotation of the ClusterCSIDriver. In a condition, and when it removes the driver, an operator names the recorded
// objects that it does not know. It never deletes an object because of a record.
//
// An earlier operator may have written keys into a Secret that the driver still has. All pods, old and new, read such a Secret at each
// call, so they get the same keys. The driver's definition names these keys (History.Keys), and its pods understand them. The controller
// of static resources leaves the Secret as it is. When the controller of retired objects finds no pod of the earlier driver any more, it
// replaces the old keys with the new ones in one write.
//
// A write may be lost, because etcd can be restored to any version. If etcd is restored to exactly the version before the write, no watch
// shows another version. So the operator never waits without a limit until a cache shows its own write: after five seconds it trusts the
// cache.
//
// To remove the driver, a cycle runs operator/uninstall, which waits until no pod uses the driver's volumes and the driver's controller
// has nothing left to detach or delete, deletes the objects stage by stage, and then removes the finalizer. While it waits, it observes
// the cluster again and again. After each observation, it pauses for ten times as long as the observation took, and no change of a pod or
// an object shortens the pause. A definition says which in-tree volumes also belong to the driver (drivers.InTree). operator/objects
// applies, adopts and deletes objects for all these controllers. A driver's definition says in Settings how its containers depend on the
// cluster: these are pure functions from the observed cluster to a container.
//
// An object that the API server refuses, for example because of a policy, does not block the others. Each controller reports refused
// objects in its condition, and tries again. objects.Readiness lets the driver's pods start when the objects that they need are applied,
// or were refused several times. In a removal, only Deployments and DaemonSets block later objects. A write that has to come first, such
// as the finalizer, blocks everything: the condition …ReconcileDegraded quotes the refusal (operator/cycle.go). The cluster storage
// operator updates a driver's operator even if one of that operator's objects is refused, and sharedvolume.Prepare leaves a refused
// SharedVolumePolicy to the controller.
//
// Pods on nodes that are NotReady can be neither updated nor ended. The operator knows these nodes, from a cache that keeps a few bytes
// of each node. While pods on other nodes are to be updated, it allows one more pod to be unavailable for each of these nodes. When the
// status of a DaemonSet shows no more outdated or unavailable pods than there are NotReady nodes, the operator reads the pods, and
// drivers/rollout decides whether the outdated and unavailable pods are on those nodes. If so, the operator records in library-go's
// annotation on the DaemonSet that the rollout is complete. The conditions, the end of an adoption and berth switch depend on that
// annotation.
//
// Some clouds have nothing for a driver to serve: not every OpenStack has Manila, for example. The operator queries the backend with the
// driver's future credentials. Once there is an offer, it installs the driver, with a StorageClass for each offer. It keeps the
// StorageClass of an offer even when the backend withdraws the offer or cannot be reached. drivers.Backend in the definition says which
// Secret has the credentials, and how often to ask.
//
// A definition is data, and imports no cloud SDK. Code that calls a cloud is in drivers/NAME/controller, together with the controllers
// that serve one driver alone. drivers/registry/controllers lists these controllers, and only cmd/berth-operator imports that package.
// The controllers get their dependencies from the cycle (drivers/controller.Dependencies).
package operator
