package drivers

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// MonitoringLabel on a namespace, with the value "true", makes the cluster's monitoring read metrics there.
const MonitoringLabel = "openshift.io/cluster-monitoring"

//go:embed monitoring
var monitoring embed.FS

// Monitoring returns the objects with which the cluster's monitoring finds an operator's pods (OperatorPod), and reads
// their metrics over a verified connection. Whoever installs them sets the namespace.
func Monitoring(operator string) ([]Manifest, error) {
	return render(Folder(monitoring, "monitoring/metrics"), strings.NewReplacer(
		"${OPERATOR}", operator,
		"${SERVING_CERT}", servingCertSecret(operator),
		"${PORT}", strconv.Itoa(operatorPort),
	))
}

// OperatorMonitoring returns the monitoring objects of the driver's operator, and its alerts.
func (d Driver) OperatorMonitoring() ([]Manifest, error) {
	manifests, err := Monitoring(d.Operator.Name)
	if err != nil {
		return nil, err
	}
	placeholders := strings.NewReplacer("${DRIVER}", d.CSIName, "${CONDITION_PREFIX}", d.ConditionPrefix, "${OPERATOR}", d.Operator.Name)
	rules, err := render(Folder(monitoring, "monitoring/alerts"), placeholders)
	if err != nil {
		return nil, err
	}
	for i := range rules {
		if err := rules[i].addAlerts(placeholders.Replace(d.Operator.Alerts)); err != nil {
			return nil, fmt.Errorf("alerts of driver %s: %w", d.Name, err)
		}
	}
	return append(manifests, rules...), nil
}

// UnownedInBundle returns the objects of the operator's bundle that OLM v0 creates without an owner.
func (d Driver) UnownedInBundle() ([]Manifest, error) {
	monitoring, err := d.OperatorMonitoring()
	return slices.DeleteFunc(monitoring, func(m Manifest) bool {
		kind := m.Object.GetKind()
		return kind != "Role" && kind != "RoleBinding"
	}), err
}

// addAlerts adds alerts to the only group of a PrometheusRule.
func (m *Manifest) addAlerts(list string) error {
	var alerts []any
	if err := boundedyaml.UnmarshalStrict([]byte(list), &alerts); err != nil {
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
	m.YAML, err = boundedyaml.Marshal(m.Object.Object)
	return err
}

// servingCertSecret names the Secret with the certificate of an operator's metrics endpoint.
func servingCertSecret(operator string) string { return operator + "-serving-cert" }

// MetricsHost returns the host name of the operator's metrics endpoint if the operator runs in namespace. Tokens for reading metrics have
// this name as their only audience; deploy/must-gather/gather requests such a token.
func (d Driver) MetricsHost(namespace string) string {
	return d.Operator.Name + "-metrics." + namespace + ".svc"
}
