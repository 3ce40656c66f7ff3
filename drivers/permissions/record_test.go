package permissions_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers/permissions"
)

func TestExercise(t *testing.T) {
	held := rule(t, "cluster  core/nodes: get")
	held.Delegated = true
	rules := []permissions.Rule{
		rule(t, "namespace  core/configmaps: create get"),
		rule(t, "cluster  core/configmaps named bundle: create"),
		rule(t, "cluster  core/pods: get delete"),
		rule(t, "namespace  core/pods: get"),
		held,
	}
	for name, test := range map[string]struct {
		request, used string // lines of a set
	}{
		"any name in the own namespace":   {"namespace  core/configmaps named lock: get", "namespace  core/configmaps: get"},
		"the same elsewhere":              {"cluster  core/configmaps named lock: get", ""},
		"a name beats the namespace":      {"namespace  core/configmaps named bundle: create", "cluster  core/configmaps named bundle: create"},
		"a request without a name":        {"namespace  core/configmaps: create", "namespace  core/configmaps: create"},
		"the namespace beats the cluster": {"namespace  core/pods named a: get", "namespace  core/pods: get"},
		"any name in the cluster":         {"namespace  core/pods named a: delete", "cluster  core/pods: delete"},
		"only to be delegated":            {"cluster  core/nodes named n: get", ""},
		"another verb":                    {"cluster  core/pods named a: patch", ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := parse(t, test.request)
			var requests []permissions.Permission
			for p := range request {
				requests = append(requests, p)
			}
			used, unforeseen := permissions.Exercise(rules, requests)
			assert.Empty(t, cmp.Diff(parse(t, test.used), used), "used (-want +got)")
			assert.Equalf(t, test.used == "", len(unforeseen) == 1, "unforeseen are %v", unforeseen)
		})
	}
}

// TestByChance: if a run happens to use a permission that other runs do not need, its record is the same as theirs.
func TestByChance(t *testing.T) {
	storm := rule(t, "cluster  core/pods: list watch")
	storm.Unexercised, storm.Incidental = map[string]string{"list": "only in a storm"}, true
	requests := []permissions.Permission{{Resource: "pods", Verb: "list"}, {Resource: "pods", Verb: "watch"}}
	used, unforeseen := permissions.Exercise([]permissions.Rule{storm}, requests)
	if got := strings.TrimSpace(used.String()); got != "cluster  core/pods: watch" || len(unforeseen) > 0 {
		t.Errorf("used is %q, want the watch alone; unforeseen are %v", got, unforeseen)
	}
	assert.Empty(t, permissions.Check([]permissions.Rule{storm}, used), "problems")
}

func TestCheck(t *testing.T) {
	excused := rule(t, "cluster  core/pods: list watch")
	excused.Unexercised = map[string]string{"list": "no old server is at hand"}
	pointless := rule(t, "cluster  core/pods: list watch")
	pointless.Unexercised = map[string]string{"get": "nobody gets it", "list": "no old server is at hand"}
	delegated := rule(t, "cluster  core/nodes: get")
	delegated.Delegated = true
	for name, test := range map[string]struct {
		rules []permissions.Rule
		used  string
		want  []string // fragments of the problems; the fragments of one problem are joined by " … "
	}{
		"all used":             {[]permissions.Rule{rule(t, "cluster  core/pods: list watch")}, "cluster  core/pods: list watch", nil},
		"unused for a reason":  {[]permissions.Rule{excused}, "cluster  core/pods: watch", nil},
		"only to be delegated": {[]permissions.Rule{delegated}, "", nil},
		"unused": {[]permissions.Rule{rule(t, "cluster  core/pods: list watch")}, "cluster  core/pods: watch",
			[]string{`no end-to-end run has used "cluster  core/pods: list" … To sail … crew.go`}},
		"used against the reason": {[]permissions.Rule{excused}, "cluster  core/pods: list watch",
			[]string{`has used "cluster  core/pods: list" … crew.go … no old server is at hand`}},
		"a reason for nothing": {[]permissions.Rule{pointless}, "cluster  core/pods: watch",
			[]string{"crew.go … the verb get … To sail"}},
		"used but not allowed": {[]permissions.Rule{excused}, "cluster  core/pods: watch\ncluster  core/pods named a: delete",
			[]string{`has used "cluster  core/pods named a: delete" … not allowed`}},
		"used but only to be delegated": {[]permissions.Rule{delegated}, "cluster  core/nodes: get",
			[]string{`has used "cluster  core/nodes: get" … not allowed`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := permissions.Check(test.rules, parse(t, test.used))
			require.Len(t, got, len(test.want), "problems")
			for i := range got {
				for _, fragment := range strings.Split(test.want[i], " … ") {
					assert.Contains(t, got[i], fragment, "problem")
				}
			}
		})
	}
}

func TestTable(t *testing.T) {
	sail, dock := rule(t, "cluster  core/pods: list watch get"), rule(t, "namespace  core/configmaps named lock: get")
	sail.Unexercised = map[string]string{"list": "no old server is at hand"}
	dock.For = "To dock"
	more := rule(t, "cluster  core/secrets: get watch")
	delegated := rule(t, "cluster  core/nodes: get")
	delegated.For, delegated.Delegated = "To lend", true
	want := []permissions.Row{
		{For: "To sail", Where: "cluster", Object: "core/pods,secrets", Verbs: "get watch"},
		{For: "To sail", Where: "cluster", Object: "core/pods", Verbs: "list", Unexercised: "no old server is at hand"},
		{For: "To dock", Where: "namespace", Object: "core/configmaps named lock", Verbs: "get"},
		{For: "To lend", Where: "cluster", Object: "core/nodes", Verbs: "get", Delegated: true},
	}
	assert.Empty(t, cmp.Diff(want, permissions.Table([]permissions.Rule{sail, dock, delegated, more})), "table (-want +got)")
}
