package ownership

import "testing"

func TestOf(t *testing.T) {
	for name, test := range map[string]struct {
		tags map[string]string
		want Claim
	}{
		"no tags":              {},
		"another cluster's":    {map[string]string{"kubernetes.io/cluster/b-2": "owned"}, Claim{}},
		"a longer name":        {map[string]string{"kubernetes.io/cluster/a-12": "owned"}, Claim{}},
		"owned":                {map[string]string{"kubernetes.io/cluster/a-1": "owned", "Name": "x"}, Claim{Mine: true}},
		"shared":               {map[string]string{"kubernetes.io/cluster/a-1": "shared"}, Claim{true, `its tag kubernetes.io/cluster/a-1 is "shared", want "owned"`}},
		"of two clusters":      {map[string]string{"kubernetes.io/cluster/a-1": "owned", "kubernetes.io/cluster/b-2": "shared"}, Claim{true, "its tags name the cluster b-2, too"}},
		"owned by both":        {map[string]string{"kubernetes.io/cluster/a-1": "owned", "kubernetes.io/cluster/b-2": "owned"}, Claim{true, "its tags name the cluster b-2, too"}},
		"the tag has no value": {map[string]string{"kubernetes.io/cluster/a-1": ""}, Claim{true, `its tag kubernetes.io/cluster/a-1 is "", want "owned"`}},
	} {
		if got := Cluster("a-1").Of(test.tags); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for id, valid := range map[Cluster]bool{"prod-x7k2p": true, "": false, "*": false, "a b": false, "a/b": false, "a?": false} {
		if err := id.Check(); (err == nil) != valid {
			t.Errorf("%q: %v, want valid: %v", id, err, valid)
		}
	}
}
