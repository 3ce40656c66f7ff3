package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/listing"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// sharedVolumes is the resource of SharedVolumes.
const sharedVolumes = "sharedvolumes"

// sharedVolume has what is read of a SharedVolume.
type sharedVolume struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Status struct {
		Phase      v1alpha1.Phase     `json:"phase"`
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// maxReasons is how many reasons are told apart.
const maxReasons = 20

// count is how many SharedVolumes there are, by what is wrong with them.
type count struct {
	all, ready int
	// unready are counted by reason, with the first one of each.
	unready map[string]int
	first   map[string]string
}

// examineSharedVolumes examines the SharedVolumes of all namespaces, if the driver's operator serves that API.
func examineSharedVolumes(ctx context.Context, p *patient) ([]Result, error) {
	apis, err := p.driver.ServedAPIs()
	if err != nil || !slices.Contains(apis, sharedVolumes+"."+v1alpha1.GroupVersion.Group) || p.custom == nil && len(p.operators()) == 0 {
		return nil, err
	}
	c, err := p.rest(v1alpha1.GroupVersion)
	if err != nil {
		return nil, err
	}
	var counted count
	err = listing.Each(ctx, c, listing.List{Resource: sharedVolumes}, counted.add)
	if optional(err) != nil {
		return nil, err
	}
	if err != nil {
		return []Result{fail(sharedVolumeAPIMissing, "install the operator again, or create its CustomResourceDefinitions", "the cluster does not serve SharedVolumes")}, nil
	}
	return counted.judge(), nil
}

func (c *count) add(v sharedVolume) error {
	c.all++
	if v.Status.Phase == v1alpha1.Ready {
		c.ready++
		return nil
	}
	if c.unready == nil {
		c.unready, c.first = map[string]int{}, map[string]string{}
	}
	reason, message := "no status", "the operator has not seen it: does it run?"
	if i := slices.IndexFunc(v.Status.Conditions, func(of metav1.Condition) bool { return of.Type == v1alpha1.ConditionReady }); i >= 0 {
		reason, message = v.Status.Conditions[i].Reason, v.Status.Conditions[i].Message
	}
	if c.unready[reason] == 0 && len(c.unready) >= maxReasons {
		reason = "any other"
	}
	if c.unready[reason] == 0 {
		c.first[reason] = fmt.Sprintf("%s/%s: %s", v.Metadata.Namespace, v.Metadata.Name, message)
	}
	c.unready[reason]++
	return nil
}

// judge is about SharedVolumes. Anybody may write one that can never work, so none is a fault of the cluster.
func (c *count) judge() []Result {
	if c.all == c.ready {
		return []Result{fine(sharedVolumesFine, "all of the %d SharedVolumes are Ready", c.all)}
	}
	reasons := make([]string, 0, len(c.unready))
	for reason := range c.unready {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		if c.unready[a] != c.unready[b] {
			return c.unready[b] - c.unready[a]
		}
		return strings.Compare(a, b)
	})
	var results []Result
	for _, reason := range reasons {
		results = append(results, warn(sharedVolumesNotReady, "oc get sharedvolumes -A; docs/troubleshooting.md lists the reasons",
			"%d of %d SharedVolumes are not Ready, with reason %s, such as %s", c.unready[reason], c.all, reason, c.first[reason]))
	}
	return results
}
