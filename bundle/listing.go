package bundle

import (
	"slices"
	"strconv"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/berth-csi/berth/drivers"
)

// What is the same for every package of this project: who publishes it and what its operator can do.
// The operator is one program for all drivers, so its abilities are no property of a driver.
const (
	publisher       = "Berth"
	publisherEmail  = "berth-csi@users.noreply.github.com"
	repository      = "https://github.com/berth-csi/berth"
	capabilityLevel = "Seamless Upgrades"
	// The namespace that OpenShift keeps for CSI drivers. It is a hint to the console: the operator
	// runs in, and installs its driver to, whichever namespace it is subscribed in.
	suggestedNamespace = "openshift-cluster-csi-drivers"
	// The newest OpenShift that the operator has been tested on. OpenShift does not update to a newer one
	// before the operator.
	maxOpenShiftVersion = "4.22"
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

// MaxOpenShiftProperty is the type of the property that names the newest OpenShift that the operator supports.
const MaxOpenShiftProperty = "olm.maxOpenShiftVersion"

// platforms returns the labels by which a console hides a package from clusters it cannot run on.
func platforms() map[string]string {
	labels := map[string]string{"operatorframework.io/os.linux": "supported"}
	for _, architecture := range architectures {
		labels["operatorframework.io/arch."+architecture] = "supported"
	}
	return labels
}

// FeaturePrefix is how annotations begin that say which features of OpenShift an operator supports.
const FeaturePrefix = "features.operators.openshift.io/"

// features says what a console's filters ask of an operator. The API wants strings, not booleans.
func features(d drivers.Driver) map[string]string {
	features := map[string]bool{
		"csi":            true,
		"disconnected":   true, // every image is in relatedImages and reaches the pods from there
		"proxy-aware":    true, // the cluster's proxy is passed on to the driver
		"tls-profiles":   true, // the cluster's TLS profile is passed on to the driver
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

// tokenAuthEnv tells by which variable a console hands an operator its cloud identity, where
// credentials are short-lived tokens. An operator that takes the variable supports them.
var tokenAuthEnv = map[string]string{
	"token-auth-aws":   "ROLEARN",
	"token-auth-azure": "CLIENTID",
	"token-auth-gcp":   "SERVICE_ACCOUNT_EMAIL",
}
