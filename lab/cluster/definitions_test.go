package cluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/berth-csi/berth/lab/cluster/crds"
	"github.com/berth-csi/berth/lab/cluster/tools"
)

// TestRulesOfAddresses: a cluster of an old Kubernetes gets OpenShift's definitions without the rules that it cannot read, and with all others.
func TestRulesOfAddresses(t *testing.T) {
	file, err := crds.OpenShift.Ensure(t.Context())
	require.NoError(t, err)
	rulesOn := func(kubernetes string) (addresses, others int) {
		t.Setenv(tools.KubernetesVariable, kubernetes)
		definitions, err := readDefinitions([]string{file})
		require.NoError(t, err)
		for _, d := range definitions {
			for _, v := range d.Spec.Versions {
				count(v.Schema.OpenAPIV3Schema, &addresses, &others)
			}
		}
		return addresses, others
	}
	addresses, others := rulesOn("1.31.0")
	assert.NotZero(t, addresses)
	assert.NotZero(t, others)
	oldAddresses, oldOthers := rulesOn("1.30.14")
	assert.Zero(t, oldAddresses)
	assert.Equal(t, others, oldOthers)
}

// count adds the rules of a schema, which may be nil, to those that call functions of IP addresses and to the others.
func count(schema *apiextensionsv1.JSONSchemaProps, addresses, others *int) {
	if schema == nil {
		return
	}
	for _, r := range schema.XValidations {
		if ofAddresses.MatchString(r.Rule) {
			*addresses++
		} else {
			*others++
		}
	}
	for _, property := range schema.Properties {
		count(&property, addresses, others)
	}
	if schema.Items != nil {
		count(schema.Items.Schema, addresses, others)
	}
	if schema.AdditionalProperties != nil {
		count(schema.AdditionalProperties.Schema, addresses, others)
	}
}
