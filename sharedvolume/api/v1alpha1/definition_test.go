package v1alpha1_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// kubectl explain shows a field's description; every field must have one.
func TestEveryFieldIsDescribed(t *testing.T) {
	for _, file := range []string{
		"../../../drivers/efs/assets/crd/aws-efs.managed.openshift.io_sharedvolumes.yaml",
		"../../../drivers/efs/assets/crd/aws-efs.managed.openshift.io_sharedvolumegrants.yaml",
		"../../../drivers/efs/assets/crd/aws-efs.managed.openshift.io_sharedvolumepolicies.yaml",
	} {
		t.Run(filepath.Base(file), func(t *testing.T) { checkDescriptions(t, file) })
	}
}

func checkDescriptions(t *testing.T, file string) {
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var definition apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.UnmarshalStrict(raw, &definition))
	var walk func(path string, schema apiextensionsv1.JSONSchemaProps)
	walk = func(path string, schema apiextensionsv1.JSONSchemaProps) {
		described := schema.Description != "" || path == ".metadata" || // the API server describes that one
			strings.HasSuffix(path, "[]") && schema.Type == "string" // the list's description covers its strings
		assert.Truef(t, described, "%s has no description", path)
		for name, field := range schema.Properties {
			walk(path+"."+name, field)
		}
		if schema.Items != nil {
			walk(path+"[]", *schema.Items.Schema)
		}
	}
	walk("", *definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
}
