package permissions_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/berth-csi/berth/drivers/permissions"
)

// rule parses a rule about one resource, and at most one name, from its text.
func rule(t *testing.T, text string) permissions.Rule {
	t.Helper()
	_, verbs, _ := strings.Cut(text, ": ")
	g := permissions.Rule{For: "To sail", From: "crew.go", Verbs: strings.Fields(verbs)}
	for p := range parse(t, text) {
		g.Own, g.Group, g.Resources = p.Own, p.Group, []string{p.Resource}
		if p.Name != "" {
			g.Names = []string{p.Name}
		}
	}
	return g
}

func parse(t *testing.T, lines ...string) permissions.Set {
	t.Helper()
	set, err := permissions.Parse(strings.Join(lines, "\n"))
	require.NoError(t, err)
	return set
}

// TestRules: RBAC rules are few, sorted, and allow exactly the same.
func TestRules(t *testing.T) {
	for name, test := range map[string]struct{ rules, want []string }{
		"none": {},
		"verbs of one object make one rule, in order": {
			[]string{"cluster  apps/deployments named crane: patch delete", "cluster  apps/deployments named crane: use get approve"},
			[]string{"cluster  apps/deployments named crane: get patch delete approve use"},
		},
		"repeated": {
			[]string{"cluster  core/pods: get", "cluster  core/pods: get list"},
			[]string{"cluster  core/pods: get list"},
		},
		"allowed for any name": {
			[]string{"cluster  core/secrets named key: get delete", "cluster  core/secrets: get"},
			[]string{"cluster  core/secrets: get", "cluster  core/secrets named key: delete"},
		},
		"allowed everywhere": {
			[]string{"namespace  core/secrets named key: get", "namespace  core/secrets: delete", "cluster  core/secrets named key: get"},
			[]string{"namespace  core/secrets: delete", "cluster  core/secrets named key: get"},
		},
		"allowed everywhere for any name": {
			[]string{"namespace  core/secrets named key: get", "cluster  core/secrets: get"},
			[]string{"cluster  core/secrets: get"},
		},
		"names with the same verbs": {
			[]string{"cluster  core/secrets named lock: get", "cluster  core/secrets named key: get", "cluster  core/secrets named door: delete"},
			[]string{"cluster  core/secrets named door: delete", "cluster  core/secrets named key,lock: get"},
		},
		"a name and any name with the same verbs of different resources": {
			[]string{"cluster  core/pods: get", "cluster  core/secrets named key: get"},
			[]string{"cluster  core/pods: get", "cluster  core/secrets named key: get"},
		},
		"resources with the same verbs": {
			[]string{"cluster  core/secrets: get list", "cluster  core/configmaps: list get", "cluster  apps/deployments: get list"},
			[]string{"cluster  core/configmaps,secrets: get list", "cluster  apps/deployments: get list"},
		},
		"resources with the same name and verbs": {
			[]string{"cluster  core/secrets named key: get", "cluster  core/configmaps named key: get"},
			[]string{"cluster  core/configmaps,secrets named key: get"},
		},
		"groups stay apart": {
			[]string{"cluster  core/events: create", "cluster  events.k8s.io/events: create"},
			[]string{"cluster  core/events: create", "cluster  events.k8s.io/events: create"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []permissions.Rule
			for _, text := range test.rules {
				rules = append(rules, rule(t, text))
			}
			own, everywhere := permissions.PolicyRules(rules)
			got := permissions.Set{}
			for _, part := range []struct {
				own   bool
				rules []rbacv1.PolicyRule
			}{{true, own}, {false, everywhere}} {
				for _, r := range part.rules {
					g := permissions.Rule{Own: part.own, Group: r.APIGroups[0], Resources: r.Resources, Names: r.ResourceNames, Verbs: r.Verbs}
					for p := range permissions.SetOf([]permissions.Rule{g}) {
						got[p] = true
					}
				}
			}
			assert.Equal(t, len(test.want), len(own)+len(everywhere), "rules")
			assert.Empty(t, cmp.Diff(parse(t, test.want...), got), "rules (-want +got)")
			assert.Empty(t, cmp.Diff(strings.Join(test.want, "\n"), strings.TrimSuffix(got.String(), "\n")), "rules as text (-want +got)")
		})
	}
}

func TestParse(t *testing.T) {
	text := `namespace  core/configmaps named lock: get delete
cluster  core/pods,secrets named a,b: list
cluster  operator.openshift.io/clustercsidrivers/status: patch
`
	got := parse(t, "# a comment", "", text)
	if len(got) != 7 || !got[permissions.Permission{Group: "operator.openshift.io", Resource: "clustercsidrivers/status", Verb: "patch"}] {
		t.Errorf("parsed %v", got)
	}
	assert.Empty(t, cmp.Diff(text, got.String()), "parsed and written again (-before +after)")
	for _, wrong := range []string{"cluster  core/pods", "ship  core/pods: get", "cluster  pods: get", "cluster  core/pods named a"} {
		_, err := permissions.Parse("\n" + wrong)
		assert.ErrorContainsf(t, err, "line 2", "%q", wrong)
	}
}

func TestDelegateRefusesURLs(t *testing.T) {
	_, err := permissions.Delegate("To delegate it", "role.yaml", []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}})
	if err == nil || !strings.Contains(err.Error(), "role.yaml") || !strings.Contains(err.Error(), "/metrics") {
		t.Errorf("error %v, want one that names role.yaml and /metrics", err)
	}
}
