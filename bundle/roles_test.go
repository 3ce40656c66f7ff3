package bundle

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestTeamsGetNoRightsToClusterScopedAPIs(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Name, crd.Spec.Scope = "widgets.example.com", apiextensionsv1.ClusterScoped
	if roles := teamRoles(crd); len(roles) > 0 {
		t.Errorf("there are %d", len(roles))
	}
}
