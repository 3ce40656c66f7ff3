package release

import (
	_ "embed"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

//go:embed prometheusrule.yaml
var prometheusRule []byte

// Rule returns the PrometheusRule.
func Rule() (*unstructured.Unstructured, error) {
	rule := &unstructured.Unstructured{}
	if err := boundedyaml.UnmarshalStrict(prometheusRule, &rule.Object); err != nil {
		return nil, fmt.Errorf("prometheusrule.yaml: %w", err)
	}
	return rule, nil
}
