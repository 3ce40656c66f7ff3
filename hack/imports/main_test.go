package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestViolations(t *testing.T) {
	for _, tc := range []struct {
		name string
		p    goPackage
		want []string // fragments, one for each violation
	}{
		{"downward", goPackage{ImportPath: module + "/operator", Imports: []string{module + "/drivers", "fmt"}}, nil},
		{"within a room", goPackage{ImportPath: module + "/sharedvolume", Imports: []string{module + "/sharedvolume/api/v1alpha1"}}, nil},
		{"upward", goPackage{ImportPath: module + "/drivers/efs", Imports: []string{module + "/operator"}}, []string{"imports " + module + "/operator"}},
		{"sideways", goPackage{ImportPath: module + "/catalog", Imports: []string{module + "/bundle", module + "/drivers"}},
			[]string{"imports " + module + "/bundle", "imports " + module + "/drivers"}},
		{"a test uses the cluster", goPackage{ImportPath: module + "/drivers/efs", XTestImports: []string{module + "/lab/cluster"}}, nil},
		{"code uses the cluster", goPackage{ImportPath: module + "/operator", Imports: []string{module + "/lab/cluster"}}, []string{"imports " + module + "/lab/cluster"}},
		{"an inner room", goPackage{ImportPath: module + "/catalog/graph", Imports: []string{module + "/catalog/fbc/document", module + "/bundle/registryv1"}}, nil},
		{"out of an inner room", goPackage{ImportPath: module + "/catalog/fbc", Imports: []string{module + "/catalog/graph"}}, []string{"imports " + module + "/catalog/graph"}},
		{"the lab's tests use Berth", goPackage{ImportPath: module + "/lab/cluster", XTestImports: []string{module + "/sharedvolume"}}, []string{"imports " + module + "/sharedvolume"}},
		{"a test goes up", goPackage{ImportPath: module + "/drivers/efs", TestImports: []string{module + "/operator"}}, []string{"imports " + module + "/operator"}},
		{"templates in a shipped program", goPackage{ImportPath: module + "/catalog/graph", Imports: []string{"html/template"}}, []string{"imports html/template"}},
		{"templates in a tool", goPackage{ImportPath: module + "/hack/rbac", Imports: []string{"text/template"}, TestImports: []string{"text/template"}}, nil},
		{"comparisons in a shipped program", goPackage{ImportPath: module + "/catalog/diff", Imports: []string{"github.com/google/go-cmp/cmp"}}, []string{"94.6 MB with it, and would have been 66.9 MB without"}},
		{"comparisons in tests", goPackage{ImportPath: module + "/catalog/diff", TestImports: []string{"github.com/google/go-cmp/cmp"}}, nil},
		{"crdify where it is needed", goPackage{ImportPath: module + "/olm/crdsafety", Imports: []string{"sigs.k8s.io/crdify/pkg/runner"}}, nil},
		{"crdify elsewhere", goPackage{ImportPath: module + "/catalog/rules", Imports: []string{"sigs.k8s.io/crdify/pkg/runner"}}, []string{"28 MB larger"}},
		{"a client of everything", goPackage{ImportPath: module + "/catalog/fbc/remote", Imports: []string{"k8s.io/client-go/kubernetes"}}, []string{"10 MB larger"}},
		{"informers of the operator", goPackage{ImportPath: module + "/operator", Imports: []string{"k8s.io/client-go/kubernetes"}}, nil},
		{"kubectl's flags by kubectl's library", goPackage{ImportPath: module + "/cmd/berth", Imports: []string{"k8s.io/cli-runtime/pkg/genericclioptions"}}, []string{"2.6 times as large"}},
		{"YAML without bounds", goPackage{ImportPath: module + "/catalog", Imports: []string{"sigs.k8s.io/yaml"}}, []string{"imports sigs.k8s.io/yaml"}},
		{"YAML within bounds", goPackage{ImportPath: module + "/internal/boundedyaml", Imports: []string{"sigs.k8s.io/yaml"}}, nil},
		{"YAML in tests and tools", goPackage{ImportPath: module + "/hack/rbac", Imports: []string{"sigs.k8s.io/yaml"}, TestImports: []string{"sigs.k8s.io/yaml"}}, nil},
		{"retries that lose errors", goPackage{ImportPath: module + "/operator/objects", Imports: []string{"k8s.io/client-go/util/retry"}}, []string{"imports k8s.io/client-go/util/retry"}},
		{"retries in tests", goPackage{ImportPath: module + "/drivers", XTestImports: []string{"k8s.io/client-go/util/retry"}}, nil},
		{"a cloud's SDK in a definition", goPackage{ImportPath: module + "/drivers/efs", Imports: []string{"github.com/aws/aws-sdk-go-v2/service/efs"}}, []string{"a definition is data"}},
		{"a cloud's SDK in a controller", goPackage{ImportPath: module + "/drivers/efs/controller", Imports: []string{"github.com/aws/aws-sdk-go-v2/service/efs"}}, nil},
		{"an unknown room", goPackage{ImportPath: module + "/util"}, []string{`room "util" is unknown`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := violations(tc.p)
			require.Lenf(t, got, len(tc.want), "violations:\n%s", cmp.Diff(tc.want, got))
			for i := range got {
				assert.Contains(t, got[i], tc.want[i])
			}
		})
	}
}

func TestLinked(t *testing.T) {
	const gophercloud = "github.com/gophercloud/gophercloud/v2"
	for name, tc := range map[string]struct {
		p    goPackage
		want string // "" for nothing
	}{
		"the operator":        {goPackage{ImportPath: module + "/cmd/berth-operator", Name: "main", Deps: []string{"fmt", gophercloud}}, ""},
		"another program":     {goPackage{ImportPath: module + "/cmd/berth", Name: "main", Deps: []string{"fmt", gophercloud}}, "links " + gophercloud},
		"a library":           {goPackage{ImportPath: module + "/drivers/openstack", Name: "openstack", Deps: []string{gophercloud}}, ""},
		"a program for tests": {goPackage{ImportPath: module + "/lab/openstack/serve", Name: "main", Deps: []string{gophercloud}}, ""},
		"what drivers bring":  {goPackage{ImportPath: module + "/cmd/berth", Name: "main", Deps: []string{module + "/drivers/registry/controllers"}}, "only the operator"},
	} {
		got := strings.Join(linked(tc.p), "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
