package findings

// Gate is a check besides OLM's that a change of a bundle or a catalog has to pass before its release. A rule names the gates that
// refuse its violations.
type Gate string

// The gates.
const (
	// Community is the pipeline of the repository of OpenShift's community catalog.
	Community Gate = "community"
	// Certified is the pipeline of the repositories of OpenShift's certified and marketplace catalogs, with preflight.
	Certified Gate = "certified"
	// Konflux are the tasks that check the catalogs that Konflux builds.
	Konflux Gate = "konflux"
	// OperatorHub is the pipeline of operatorhub.io.
	OperatorHub Gate = "operatorhub"
	// OpenShift is a version of OpenShift that has to install the checked bundles.
	OpenShift Gate = "openshift"
)
