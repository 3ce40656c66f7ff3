package prediction

// Code tells programs which reason it is. It stays as it is when the text changes.
type Code string

// Why OLM resolves nothing in a namespace, or nothing for a Subscription.
const (
	// NoEdge: nothing in the channel leads on from what is installed. OLM says nothing of it.
	NoEdge Code = "no-edge"
	// Unsatisfied: what leads on cannot be installed beside what is there.
	Unsatisfied Code = "unsatisfied"
	// DependencyMissing: what leads on requires something that no catalog has and nobody has installed.
	DependencyMissing Code = "dependency-missing"
	// PackageAbsent: the catalog has no such package.
	PackageAbsent Code = "package-absent"
	// ChannelAbsent: the package has no such channel.
	ChannelAbsent Code = "channel-absent"
	// ChannelBroken: OLM finds no order in the channel.
	ChannelBroken Code = "channel-broken"
	// StartAbsent: the channel has no entry that spec.startingCSV names.
	StartAbsent Code = "starting-csv-absent"
	// SourceMissing: there is no such CatalogSource, or not one for this namespace.
	SourceMissing Code = "source-missing"
	// SourceUnreachable: OLM has no connection to a catalog that it would look at for the namespace.
	SourceUnreachable Code = "source-unreachable"
	// OperatorGroups: the namespace has none, or more than one.
	OperatorGroups Code = "operator-groups"
	// SecondSubscription: another Subscription of the namespace is for the same package.
	SecondSubscription Code = "second-subscription"
	// OrphanedCSV: a ClusterServiceVersion of the package is there that no Subscription has installed.
	OrphanedCSV Code = "orphaned-csv"
)

// What OLM waits for, or fails at, when it has chosen.
const (
	// Installing: OLM is at it.
	Installing Code = "installing"
	// PendingInstallPlan: there is an InstallPlan already, which is not carried out.
	PendingInstallPlan Code = "pending-install-plan"
	// InstallPlanGone: OLM waits for an InstallPlan that is gone.
	InstallPlanGone Code = "install-plan-gone"
	// ManualApproval: the Subscription asks for approval.
	ManualApproval Code = "manual-approval"
	// ManualApprovalElsewhere: another Subscription of the namespace asks for approval.
	ManualApprovalElsewhere Code = "manual-approval-elsewhere"
	// NotUpgradeable: what is installed says that it must not be updated now.
	NotUpgradeable Code = "not-upgradeable"
	// OldKubernetes: the cluster's Kubernetes is older than minKubeVersion.
	OldKubernetes Code = "old-kubernetes"
	// InstallMode: the OperatorGroup has namespaces that the operator does not support.
	InstallMode Code = "install-mode"
	// ProvidedElsewhere: an operator of another namespace, whose OperatorGroup has namespaces of this one,
	// provides the same API.
	ProvidedElsewhere Code = "provided-elsewhere"
	// InvalidObjects: objects in the cluster are not valid by the CRD that comes.
	InvalidObjects Code = "invalid-objects"
	// StoredVersionRemoved: the CRD that comes lacks a version in which objects may be stored.
	StoredVersionRemoved Code = "stored-version-removed"
	// OldDefinition: a CRD that comes is of an API version that Kubernetes no longer serves.
	OldDefinition Code = "old-definition"
)

// What people should know beforehand.
const (
	// Downgrade: what OLM installs is an earlier version.
	Downgrade Code = "downgrade"
	// SecondSubscriptionElsewhere: a Subscription of another namespace is for the same package, and serves
	// a namespace that this one serves.
	SecondSubscriptionElsewhere Code = "second-subscription-elsewhere"
	// SameCSV: the new catalog has what is installed under the same name, and so OLM changes nothing.
	SameCSV Code = "same-csv"
	// OpenShiftHeldBack: OLM keeps the cluster from updates to the next minor version of OpenShift.
	OpenShiftHeldBack Code = "openshift-held-back"
	// EndsEarly: updates end before the head of the channel.
	EndsEarly Code = "ends-early"
	// Deprecated is what the catalog's maker says not to use any more.
	Deprecated Code = "deprecated"
	// DefinitionsUnchecked: whether objects are valid by the CRDs that come cannot be told.
	DefinitionsUnchecked Code = "definitions-unchecked"
)
