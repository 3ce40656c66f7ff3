package drivers

import (
	"embed"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/yaml"
)

//go:embed monitoring
var monitoring embed.FS

// OperatorMonitoring returns the objects by which the cluster's monitoring finds the driver's operator,
// reads its metrics over a verified connection, and alerts. As with OperatorDeployment, the namespace is
// left to whoever installs them; nothing in them depends on it.
func (d Driver) OperatorMonitoring() ([]Manifest, error) {
	placeholders := strings.NewReplacer(
		"${DRIVER}", d.CSIName,
		"${CONDITION_PREFIX}", d.ConditionPrefix,
		"${OPERATOR}", d.Operator.Name,
		"${SERVING_CERT}", d.servingCertSecret(),
		"${PORT}", strconv.Itoa(operatorPort),
	)
	manifests, err := d.render(monitoring, placeholders)
	if err != nil {
		return nil, err
	}
	for i := range manifests {
		if manifests[i].Object.GetKind() == "PrometheusRule" {
			if err := manifests[i].addAlerts(placeholders.Replace(d.Operator.Alerts)); err != nil {
				return nil, fmt.Errorf("alerts of driver %s: %w", d.Name, err)
			}
		}
	}
	return manifests, nil
}

// addAlerts adds alerts to the one group of a PrometheusRule.
func (m *Manifest) addAlerts(list string) error {
	var alerts []any
	if err := yaml.UnmarshalStrict([]byte(list), &alerts); err != nil {
		return err
	}
	groups, found, err := unstructured.NestedSlice(m.Object.Object, "spec", "groups")
	if err != nil || !found || len(groups) != 1 {
		return fmt.Errorf("%s: want one group of rules, found %d: %v", m.File, len(groups), err)
	}
	group := groups[0].(map[string]any)
	group["rules"] = append(group["rules"].([]any), alerts...)
	if err := unstructured.SetNestedSlice(m.Object.Object, groups, "spec", "groups"); err != nil {
		return err
	}
	m.YAML, err = yaml.Marshal(m.Object.Object)
	return err
}

// servingCertSecret names the Secret with the certificate that the operator serves its metrics with.
func (d Driver) servingCertSecret() string { return d.Operator.Name + "-serving-cert" }

// MetricsHost is the name that the operator's metrics are served under when it runs in a namespace. Tokens
// that are for reading them and nothing else have it as their audience; must-gather/gather asks for one.
func (d Driver) MetricsHost(namespace string) string {
	return d.Operator.Name + "-metrics." + namespace + ".svc"
}
