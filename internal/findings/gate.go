package findings

// Gate is what a change of a bundle or a catalog has to pass before it is released, beside OLM itself. A rule names the gates that
// refuse what violates it.
type Gate string

// The gates.
const (
	// Community is the pipeline of the repository of OpenShift's community catalog.
	Community Gate = "community"
	// Certified is the pipeline of the repositories of OpenShift's certified and marketplace catalogs, with preflight.
	Certified Gate = "certified"
	// Konflux is the tasks that check catalogs which Konflux builds.
	Konflux Gate = "konflux"
	// OperatorHub is the pipeline of operatorhub.io.
	OperatorHub Gate = "operatorhub"
	// OpenShift is a version of OpenShift that has to install what is checked.
	OpenShift Gate = "openshift"
)
