package drivers_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	gocmp "github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestOperatorRules shows in testdata what the operator of each driver may do.
func TestOperatorRules(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, _ []drivers.Manifest) {
		rules, err := d.OperatorRules()
		if err != nil {
			t.Fatal(err)
		}
		var table strings.Builder
		for _, part := range []struct {
			scope string
			rules []rbacv1.PolicyRule
		}{{"namespace", rules.Permissions}, {"cluster", rules.ClusterPermissions}} {
			for _, r := range part.rules {
				fmt.Fprintf(&table, "%s  %s/%s", part.scope, cmp.Or(r.APIGroups[0], "core"), strings.Join(r.Resources, ","))
				if len(r.ResourceNames) > 0 {
					fmt.Fprintf(&table, " named %s", strings.Join(r.ResourceNames, ","))
				}
				fmt.Fprintf(&table, ": %s\n", strings.Join(r.Verbs, " "))
			}
		}
		compareWithGolden(t, filepath.Join("testdata", d.Name, "rules.txt"), table.String())
	})
}

func TestOperatorDeployment(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, _ []drivers.Manifest) {
		deployment, err := yaml.Marshal(d.OperatorDeployment())
		if err != nil {
			t.Fatal(err)
		}
		compareWithGolden(t, filepath.Join("testdata", d.Name, "deployment.yaml"), string(deployment))
	})
}

func compareWithGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), `go test ./drivers -update` writes it anew:\n%s", file, diff)
	}
}

func TestOperatorRulesOfUnknownKind(t *testing.T) {
	d := drivers.Driver{Name: "tug", Assets: fstest.MapFS{
		"rope.yaml": {Data: []byte("apiVersion: harbour.example/v1\nkind: Rope\nmetadata:\n  name: long\n")},
	}}
	_, err := d.OperatorRules()
	want := "asset rope.yaml of driver tug: Rope long: the API resource of kind Rope.harbour.example is not known"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}
