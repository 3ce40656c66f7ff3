package ownership

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
		assert.Equal(t, test.want, Cluster("a-1").Of(test.tags), name)
	}
}

func TestCheck(t *testing.T) {
	for id, valid := range map[Cluster]bool{"prod-x7k2p": true, "": false, "*": false, "a b": false, "a/b": false, "a?": false} {
		if err := id.Check(); (err == nil) != valid {
			t.Errorf("%q: %v, want valid: %v", id, err, valid)
		}
	}
}

// TestCreatedFileSystem: a creation token says which cluster a file system was created for, also a shortened one.
func TestCreatedFileSystem(t *testing.T) {
	long := Cluster(strings.Repeat("a", 60))
	for name, test := range map[string]struct {
		cluster     Cluster
		token, name string
		want        bool
	}{
		"ours":                            {"a-1", Cluster("a-1").FileSystemToken("efs"), "", true},
		"ours, with another name":         {"a-1", Cluster("a-1").FileSystemToken("efs"), "renamed", true},
		"another cluster's":               {"a-1", Cluster("b-2").FileSystemToken("efs"), "a-1-efs", false},
		"a longer ID":                     {"a-1", Cluster("a-12").FileSystemToken("efs"), "a-1-efs", false},
		"by hand":                         {"a-1", "console-1", "a-1-efs", false},
		"shortened":                       {long, long.FileSystemToken("efs"), long.Name("efs"), true},
		"shortened, of another long name": {long, Cluster(strings.Repeat("a", 61)).FileSystemToken("efs"), long.Name("efs"), false},
		"shortened, without its name":     {long, long.FileSystemToken("efs"), "efs", false},
	} {
		assert.Equal(t, test.want, test.cluster.CreatedFileSystem(test.token, test.name), name)
	}
}
