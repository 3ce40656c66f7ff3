package bundle

import (
	"slices"
	"strconv"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/drivers"
)

// The publisher and the capabilities are the same for every package of this project: one program is the operator of all
// drivers.
const (
	publisher       = "Berth"
	publisherEmail  = "berth-csi@users.noreply.github.com"
	repository      = "https://github.com/berth-csi/berth"
	capabilityLevel = "Seamless Upgrades"
	// The namespace that OpenShift reserves for CSI drivers. It is a suggestion to the console: the operator runs and
	// installs its driver in the namespace of its Subscription.
	suggestedNamespace = "openshift-cluster-csi-drivers"
	// The newest OpenShift that the operator was tested on. OpenShift does not update to a newer one before the operator
	// supports it.
	maxOpenShiftVersion = "5.0"
)

var (
	architectures = []string{"amd64", "arm64"}
	maintainers   = []v1alpha1.Maintainer{{Name: publisher + " maintainers", Email: publisherEmail}}
	provider      = v1alpha1.AppLink{Name: publisher, URL: repository}
	links         = []v1alpha1.AppLink{
		{Name: "Documentation", URL: repository + "/tree/main/docs"},
		{Name: "Source code", URL: repository},
	}
)

// platforms returns the labels that make consoles hide a package from clusters it cannot run on.
func platforms() map[string]string {
	labels := map[string]string{"operatorframework.io/os.linux": "supported"}
	for _, architecture := range architectures {
		labels["operatorframework.io/arch."+architecture] = "supported"
	}
	return labels
}

// FeaturePrefix is the prefix of annotations that say which features of OpenShift an operator supports.
const FeaturePrefix = "features.operators.openshift.io/"

// features returns the annotations that consoles filter operators by. Their values are strings, not booleans.
func features(d drivers.Driver) map[string]string {
	features := map[string]bool{
		"csi":            true,
		"disconnected":   true, // every image is in relatedImages, and the pods use no others
		"proxy-aware":    true, // the cluster's proxy is passed on to the driver
		"tls-profiles":   true, // the operator's endpoint and the driver's follow the cluster's TLS profile
		"fips-compliant": false,
		"cnf":            false,
		"cni":            false,
	}
	for feature, env := range tokenAuthEnv {
		features[feature] = slices.Contains(d.Operator.Env, env)
	}
	annotations := map[string]string{}
	for feature, has := range features {
		annotations[FeaturePrefix+feature] = strconv.FormatBool(has)
	}
	return annotations
}

// tokenAuthEnv are the variables in which a console passes an operator its cloud identity if credentials are short-lived
// tokens. An operator that has such a variable supports them.
var tokenAuthEnv = map[string]string{
	"token-auth-aws":   "ROLEARN",
	"token-auth-azure": "CLIENTID",
	"token-auth-gcp":   "SERVICE_ACCOUNT_EMAIL",
}
