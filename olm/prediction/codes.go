package prediction

// Code identifies a reason to programs. It does not change when the text of the reason does.
type Code string

// Reasons why OLM resolves nothing in a namespace, or nothing for a Subscription.
const (
	// NoEdge: no entry of the channel has an upgrade edge from the installed version. OLM does not report it.
	NoEdge Code = "no-edge"
	// Unsatisfied: the next version conflicts with installed operators.
	Unsatisfied Code = "unsatisfied"
	// DependencyMissing: the next version has a dependency that is neither in a catalog nor installed.
	DependencyMissing Code = "dependency-missing"
	// NoBundle: no bundle is in the channels and versions that a ClusterExtension wants.
	NoBundle Code = "no-bundle"
	// PackageAbsent: the catalog has no such package.
	PackageAbsent Code = "package-absent"
	// ChannelAbsent: the package has no such channel.
	ChannelAbsent Code = "channel-absent"
	// ChannelBroken: the channel has no single head, or its entries replace each other in a cycle.
	ChannelBroken Code = "channel-broken"
	// StartAbsent: the channel has no entry with the name in spec.startingCSV.
	StartAbsent Code = "starting-csv-absent"
	// SourceMissing: the CatalogSource does not exist, or OLM does not use it for this namespace.
	SourceMissing Code = "source-missing"
	// SourceUnreachable: OLM has no connection to a catalog that it uses for the namespace.
	SourceUnreachable Code = "source-unreachable"
	// DependencyMalformed: a bundle of the package has a dependency that OLM cannot read.
	DependencyMalformed Code = "dependency-malformed"
	// CatalogsAmbiguous: several catalogs of OLM v1 have a bundle, and none has a higher priority than the others.
	CatalogsAmbiguous Code = "catalogs-ambiguous"
	// OperatorGroups: the namespace has no OperatorGroup, or more than one.
	OperatorGroups Code = "operator-groups"
	// SecondSubscription: another Subscription of the namespace is for the same package.
	SecondSubscription Code = "second-subscription"
	// OrphanedCSV: the namespace has a ClusterServiceVersion of the package that no Subscription has installed.
	OrphanedCSV Code = "orphaned-csv"
)

// Reasons that block OLM after it has chosen.
const (
	// Installing: OLM is installing the version already.
	Installing Code = "installing"
	// PendingInstallPlan: an earlier InstallPlan is not complete.
	PendingInstallPlan Code = "pending-install-plan"
	// InstallPlanGone: OLM waits for a deleted InstallPlan.
	InstallPlanGone Code = "install-plan-gone"
	// ManualApproval: the Subscription requires approval.
	ManualApproval Code = "manual-approval"
	// ManualApprovalElsewhere: another Subscription of the namespace requires approval.
	ManualApprovalElsewhere Code = "manual-approval-elsewhere"
	// NotUpgradeable: the installed operator has set Upgradeable to False.
	NotUpgradeable Code = "not-upgradeable"
	// OldKubernetes: the cluster's Kubernetes is older than minKubeVersion.
	OldKubernetes Code = "old-kubernetes"
	// InstallMode: the operator does not support the target namespaces of the OperatorGroup.
	InstallMode Code = "install-mode"
	// ProvidedElsewhere: an operator in another namespace, whose OperatorGroup overlaps with this one, provides the same
	// API.
	ProvidedElsewhere Code = "provided-elsewhere"
	// InvalidObjects: custom resources in the cluster are invalid under the bundle's CRD.
	InvalidObjects Code = "invalid-objects"
	// UnreadableObjects: the API server cannot convert the custom resources of a CRD, which OLM reads before it updates the CRD.
	UnreadableObjects Code = "unreadable-objects"
	// StoredVersionRemoved: the bundle's CRD lacks a version in which custom resources may be stored.
	StoredVersionRemoved Code = "stored-version-removed"
	// Undecodable: OLM cannot decode the ClusterServiceVersion that the bundle carries in the catalog.
	Undecodable Code = "undecodable"
	// OldDefinition: the bundle's CRD has an API version that Kubernetes no longer serves.
	OldDefinition Code = "old-definition"
)

// Risks that people should know before OLM proceeds.
const (
	// Downgrade: OLM will install an earlier version than the installed one.
	Downgrade Code = "downgrade"
	// SecondSubscriptionElsewhere: a Subscription in another namespace is for the same package, and their OperatorGroups
	// overlap.
	SecondSubscriptionElsewhere Code = "second-subscription-elsewhere"
	// SameCSV: the new catalog has a bundle of the same name as the installed one, so OLM changes nothing.
	SameCSV Code = "same-csv"
	// OpenShiftHeldBack: OLM will block updates of the cluster to the next minor version of OpenShift.
	OpenShiftHeldBack Code = "openshift-held-back"
	// ResolverSlow: OLM's resolver exceeds the time limit of predictions.
	ResolverSlow Code = "resolver-slow"
	// EndsEarly: updates end before the head of the channel.
	EndsEarly Code = "ends-early"
	// Deprecated means that the catalog deprecates the package, the channel, the installed bundle or the next one.
	Deprecated Code = "deprecated"
	// VersionRemoved: an update removes a version of an API, in which clusters may have stored objects.
	VersionRemoved Code = "version-removed"
	// SupportEnded: support has ended for the version at which updates end, or for the installed one if there is no
	// update.
	SupportEnded Code = "support-ended"
	// OpenShiftUnsupported: the lifecycle of the next version does not name the cluster's OpenShift.
	OpenShiftUnsupported Code = "openshift-unsupported"
	// RangeIgnored: a skipRange of the channel is not a valid range, so OLM ignores it.
	RangeIgnored Code = "skip-range-ignored"
	// VersionAmbiguous: several bundles have the version that OLM v1 chooses, and it takes any of them.
	VersionAmbiguous Code = "version-ambiguous"
	// BundleUnread: the catalog lacks the manifests of a bundle, so OLM v1 may refuse it because of them.
	BundleUnread Code = "bundle-unread"
	// APINeeded: OLM v1 refuses the bundle on clusters that do not serve a certain API.
	APINeeded Code = "api-needed"
	// DefinitionsUnchecked: the catalog lacks the bundle's CRDs, so custom resources cannot be checked against them.
	DefinitionsUnchecked Code = "definitions-unchecked"
)
