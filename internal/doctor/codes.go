package doctor

// Code identifies a result. It stays the same when the text changes.
type Code string

// The codes of results.
const (
	notExaminedCode           Code = "not-examined"                // the API server did not show it
	olmFine                   Code = "olm"                         // OLM can install operators
	olmMissing                Code = "olm-missing"                 // the cluster does not serve OLM's API
	olmUnhealthy              Code = "olm-unhealthy"               // a ClusterOperator of OLM reports trouble
	defaultClass              Code = "default-class"               // one StorageClass is the default
	defaultClassNone          Code = "default-class-none"          // no StorageClass is the default
	defaultClassSeveral       Code = "default-class-several"       // several StorageClasses are the default
	classRisk                 Code = "class-risk"                  // a StorageClass of the driver endangers files
	operatorOfPlatform        Code = "operator-of-platform"        // the cluster storage operator runs the driver's operator
	operatorMissing           Code = "operator-missing"            // nobody runs the operator of a driver that is in no catalog
	subscriptionFine          Code = "subscription"                // OLM has installed the Subscription's package
	subscriptionMissing       Code = "subscription-missing"        // no Subscription asks for the package
	subscriptionUnhealthy     Code = "subscription-unhealthy"      // a condition of the Subscription is a fault
	subscriptionsSeveral      Code = "subscriptions-several"       // several Subscriptions ask for the package
	extensionFine             Code = "clusterextension"            // OLM v1 has installed the ClusterExtension's package
	extensionUnhealthy        Code = "clusterextension-unhealthy"  // a condition of the ClusterExtension is a fault, or it is being deleted
	olmTwice                  Code = "olm-twice"                   // both OLM v0 and OLM v1 are asked for the package
	nothingInstalled          Code = "nothing-installed"           // OLM has installed nothing yet
	approvalPending           Code = "approval-pending"            // an InstallPlan waits for approval
	updatePending             Code = "update-pending"              // OLM is updating the operator
	catalogFine               Code = "catalog"                     // OLM reaches the catalog
	catalogMissing            Code = "catalog-missing"             // the CatalogSource does not exist
	catalogUnreachable        Code = "catalog-unreachable"         // OLM does not reach the catalog
	operatorGroupFine         Code = "operatorgroup"               // the OperatorGroup is for all namespaces
	operatorGroupCount        Code = "operatorgroup-count"         // the namespace has no OperatorGroup, or several
	operatorGroupScope        Code = "operatorgroup-scope"         // the OperatorGroup is not for all namespaces
	csvFine                   Code = "csv"                         // the ClusterServiceVersion has succeeded
	csvMissing                Code = "csv-missing"                 // the installed ClusterServiceVersion does not exist
	csvUnsubscribed           Code = "csv-without-subscription"    // no Subscription updates the ClusterServiceVersion
	csvFailed                 Code = "csv-failed"                  // the ClusterServiceVersion has failed
	csvUnfinished             Code = "csv-unfinished"              // the ClusterServiceVersion has neither succeeded nor failed
	operatorActive            Code = "operator-active"             // a pod of the operator holds the lock
	operatorInactive          Code = "operator-inactive"           // no pod of the operator holds the lock, or one that is not Ready
	operatorPermitted         Code = "operator-permitted"          // the operator may see the ClusterCSIDriver and write its status
	operatorForbidden         Code = "operator-forbidden"          // the operator may not do so
	customResourceMissing     Code = "clustercsidriver-missing"    // there is no ClusterCSIDriver
	conditionsFine            Code = "conditions"                  // no condition reports a fault
	conditionBad              Code = "condition"                   // a condition reports a fault
	conditionsMissing         Code = "no-conditions"               // no operator has reported anything
	conditionsStale           Code = "conditions-stale"            // nobody writes conditions any more
	generationUnobserved      Code = "generation-unobserved"       // the operator has not reported on the last change of the ClusterCSIDriver
	removing                  Code = "removing"                    // the ClusterCSIDriver is being deleted
	removed                   Code = "removed"                     // spec.managementState is Removed
	unmanaged                 Code = "unmanaged"                   // spec.managementState is Unmanaged
	managementState           Code = "management-state"            // spec.managementState has another value
	namespaceFine             Code = "namespace"                   // the driver's namespace is certain
	namespaceMissing          Code = "namespace-missing"           // the driver's namespace does not exist
	namespaceUnknown          Code = "namespace-unknown"           // the driver's namespace is uncertain
	monitored                 Code = "monitored"                   // the cluster's monitoring reads the namespace's metrics
	notMonitored              Code = "not-monitored"               // the namespace lacks the label for the cluster's monitoring
	credentialsFine           Code = "credentials"                 // the CredentialsRequest is provisioned
	credentialsRefused        Code = "credentials-refused"         // the cloud credential operator reports trouble
	credentialsNotProvisioned Code = "credentials-not-provisioned" // the CredentialsRequest is not provisioned
	workloadFine              Code = "workload"                    // all pods are available and up to date
	deploymentMissing         Code = "deployment-missing"          // a Deployment does not exist
	daemonSetMissing          Code = "daemonset-missing"           // a DaemonSet does not exist
	noNodes                   Code = "no-nodes"                    // a DaemonSet is for no node
	nodesNotReady             Code = "nodes-not-ready"             // pods are missing on nodes that are NotReady
	podsFail                  Code = "pods-fail"                   // pods do not start
	podsRefused               Code = "pods-refused"                // the API server refuses pods
	podSecurity               Code = "pod-security"                // the namespace's label makes the API server refuse the driver's pods
	scaledToZero              Code = "scaled-to-zero"              // a Deployment wants no pods
	podsMissing               Code = "pods-missing"                // no pod is available
	rolloutPending            Code = "rollout"                     // pods are being updated
	registrationFine          Code = "registered"                  // the kubelets know the driver
	notRegistered             Code = "not-registered"              // kubelets do not know the driver
	registrationNotExamined   Code = "registration-not-examined"   // pods of the driver are only reported as running, so that no kubelet can know it
	startupTaint              Code = "startup-taint"               // nodes keep the taint with which they wait for the driver
	sharedVolumesFine         Code = "sharedvolumes"               // all SharedVolumes are Ready
	claimsFine                Code = "claims"                      // all claims of a namespace are bound
	claimNotBound             Code = "claim-not-bound"             // a claim is not bound
	podsStarted               Code = "pods"                        // no pod of a namespace that uses claims waits to start
	podWaits                  Code = "pod-waits"                   // a pod that uses claims waits to start
	sharedVolumesNotReady     Code = "sharedvolume-not-ready"      // SharedVolumes are not Ready
	fileSystemNotAvailable    Code = "filesystem-not-available"    // AWS lacks a file system or access point of SharedVolumes
	sharedVolumeAPIMissing    Code = "sharedvolume-api-missing"    // the cluster does not serve SharedVolumes
)
