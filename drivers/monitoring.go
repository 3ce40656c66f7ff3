package drivers

import (
	"embed"
	"strconv"
	"strings"
)

//go:embed monitoring
var monitoring embed.FS

// OperatorMonitoring returns the objects by which the cluster's monitoring finds the driver's operator,
// reads its metrics over a verified connection, and alerts. As with OperatorDeployment, the namespace is
// left to whoever installs them; nothing in them depends on it.
func (d Driver) OperatorMonitoring() ([]Manifest, error) {
	return d.render(monitoring, strings.NewReplacer(
		"${DRIVER}", d.CSIName,
		"${CONDITION_PREFIX}", d.ConditionPrefix,
		"${OPERATOR}", d.Operator.Name,
		"${SERVING_CERT}", d.servingCertSecret(),
		"${PORT}", strconv.Itoa(operatorPort),
	))
}

// servingCertSecret names the Secret with the certificate that the operator serves its metrics with.
func (d Driver) servingCertSecret() string { return d.Operator.Name + "-serving-cert" }

// MetricsHost is the name that the operator's metrics are served under when it runs in a namespace. Tokens
// that are for reading them and nothing else have it as their audience; must-gather/gather asks for one.
func (d Driver) MetricsHost(namespace string) string {
	return d.Operator.Name + "-metrics." + namespace + ".svc"
}
