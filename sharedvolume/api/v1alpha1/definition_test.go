package v1alpha1_test

import (
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// kubectl explain shows a field's description; every field must have one.
func TestEveryFieldIsDescribed(t *testing.T) {
	raw, err := os.ReadFile("../../../drivers/efs/assets/crd/aws-efs.managed.openshift.io_sharedvolumes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &definition); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, schema apiextensionsv1.JSONSchemaProps)
	walk = func(path string, schema apiextensionsv1.JSONSchemaProps) {
		if schema.Description == "" && path != ".metadata" { // the API server describes that one
			t.Errorf("%s has no description", path)
		}
		for name, field := range schema.Properties {
			walk(path+"."+name, field)
		}
		if schema.Items != nil {
			walk(path+"[]", *schema.Items.Schema)
		}
	}
	walk("", *definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
}
