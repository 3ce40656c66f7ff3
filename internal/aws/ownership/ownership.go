// Package ownership tells by tags which AWS resources belong to a cluster.
//
// The installer of OpenShift, the drivers and Berth tag the resources that they create for a cluster with
// kubernetes.io/cluster/ID, where ID is status.infrastructureName of the Infrastructure object: "owned" if the resource is
// deleted with the cluster, "shared" if it is not.
package ownership

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	prefix = "kubernetes.io/cluster/"
	owned  = "owned"
)

// Cluster is the infrastructure ID of a cluster, such as "prod-x7k2p".
type Cluster string

// Key returns the key of the tag.
func (c Cluster) Key() string { return prefix + string(c) }

// Tag returns the tag of resources that are deleted with the cluster.
func (c Cluster) Tag() (key, value string) { return c.Key(), owned }

// Check returns an error if the ID is not valid. An empty ID, or one with a wildcard, would select resources of others.
func (c Cluster) Check() error {
	valid := c != "" && len(c) <= 100 && !strings.ContainsFunc(string(c), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.'
	})
	if !valid {
		return fmt.Errorf("the infrastructure ID is %q, want what this prints: oc get infrastructure cluster -o jsonpath={.status.infrastructureName}", string(c))
	}
	return nil
}

// Claim says whether a resource belongs to the cluster, by its tags.
type Claim struct {
	// Mine says that the tags name the cluster.
	Mine bool
	// Kept says why the resource is nevertheless not deleted with the cluster. It is empty otherwise.
	Kept string
}

// Of returns the claim of the cluster to a resource with these tags.
func (c Cluster) Of(tags map[string]string) Claim {
	value, mine := tags[c.Key()]
	if !mine {
		return Claim{}
	}
	var others []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if other, found := strings.CutPrefix(key, prefix); found && key != c.Key() {
			others = append(others, other)
		}
	}
	switch {
	case len(others) > 0:
		return Claim{true, "its tags name the cluster " + strings.Join(others, ", ") + ", too"}
	case value != owned:
		return Claim{true, fmt.Sprintf("its tag %s is %q, want %q", c.Key(), value, owned)}
	}
	return Claim{Mine: true}
}
