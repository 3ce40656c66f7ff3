package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/listing"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

// sharedVolumes is the resource of SharedVolumes.
const sharedVolumes = "sharedvolumes"

// sharedVolume holds the fields of a SharedVolume that are read.
type sharedVolume struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		// DeletionTimestamp is set while the SharedVolume is being deleted.
		DeletionTimestamp string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Status struct {
		Phase      v1alpha1.Phase     `json:"phase"`
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// maxReasons is the maximum number of distinct reasons.
const maxReasons = 20

// count counts SharedVolumes by fault.
type count struct {
	all, ready  int
	unready     tally // not Ready
	absent      tally // Ready, but AWS lacks the file system or access point
	unseen      int   // being deleted, but no operator has reported on that
	firstUnseen string
}

// helpWithoutOperator says how to delete SharedVolumes if there is no operator.
var helpWithoutOperator = "if there is none any more, see " + findings.Page("operate/sharedvolume.md#when-the-operator-is-gone")

// tally counts SharedVolumes by reason, and keeps the first one of each.
type tally struct {
	number map[string]int
	first  map[string]string
}

// examineSharedVolumes examines the SharedVolumes of all namespaces, if the driver's operator serves that API.
func examineSharedVolumes(ctx context.Context, p *examinedDriver) ([]findings.Check, error) {
	apis, err := p.driver.ServedAPIs()
	if err != nil || !slices.Contains(apis, sharedVolumes+"."+v1alpha1.GroupVersion.Group) || p.custom == nil && len(p.operators()) == 0 {
		return nil, err
	}
	var counted count
	err = each(ctx, p.Cluster, v1alpha1.GroupVersion, listing.List{Resource: sharedVolumes}, counted.add)
	if optional(err) != nil {
		return nil, err
	}
	if err != nil {
		return []findings.Check{findings.Fail(sharedVolumeAPIMissing, "install the operator again, or create its CustomResourceDefinitions", "the cluster does not serve SharedVolumes")}, nil
	}
	return counted.judge(), nil
}

func (c *count) add(v sharedVolume) error {
	c.all++
	if v.Metadata.DeletionTimestamp != "" && v.Status.Phase != v1alpha1.Deleting {
		if c.unseen++; c.unseen == 1 {
			c.firstUnseen = v.Metadata.Namespace + "/" + v.Metadata.Name
		}
		return nil
	}
	if v.Status.Phase == v1alpha1.Ready {
		c.ready++
		if found := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionFileSystemAvailable); found != nil && found.Status == metav1.ConditionFalse {
			c.absent.add(v, found.Reason, found.Message)
		}
		return nil
	}
	reason, message := "no status", "the operator has not seen it: does it run?"
	if found := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionReady); found != nil {
		reason, message = found.Reason, found.Message
	}
	c.unready.add(v, reason, message)
	return nil
}

func (t *tally) add(v sharedVolume, reason, message string) {
	if t.number == nil {
		t.number, t.first = map[string]int{}, map[string]string{}
	}
	if t.number[reason] == 0 && len(t.number) >= maxReasons {
		reason = "any other"
	}
	if t.number[reason] == 0 {
		t.first[reason] = fmt.Sprintf("%s/%s: %s", v.Metadata.Namespace, v.Metadata.Name, message)
	}
	t.number[reason]++
}

// reasons returns the reasons, the most frequent one first.
func (t *tally) reasons() []string {
	return slices.SortedFunc(maps.Keys(t.number), func(a, b string) int {
		return cmp.Or(t.number[b]-t.number[a], strings.Compare(a, b))
	})
}

// allReady says that all SharedVolumes are Ready, or that there are none.
func allReady(n int) string {
	switch n {
	case 0:
		return "there are no SharedVolumes"
	case 1:
		return "the one SharedVolume is Ready"
	}
	return fmt.Sprintf("all of the %d SharedVolumes are Ready", n)
}

// judge judges SharedVolumes. Anybody may write one that can never work, so no SharedVolume is a fault of the
// cluster.
func (c *count) judge() []findings.Check {
	var results []findings.Check
	if c.all == c.ready {
		results = append(results, findings.Pass(sharedVolumesFine, "%s", allReady(c.all)))
	}
	if c.unseen > 0 {
		results = append(results, findings.Warn(sharedVolumesNotReady, "wait, or make the operator above work; "+helpWithoutOperator, "%d of %s %s being deleted, and no operator has reported on that, such as %s",
			c.unseen, number(c.all, "SharedVolume"), are(c.unseen), c.firstUnseen))
	}
	for _, reason := range c.unready.reasons() {
		results = append(results, findings.Warn(sharedVolumesNotReady, "oc get sharedvolumes -A; the reasons: "+findings.Page("operate/troubleshooting.md#my-sharedvolume-is-not-ready"),
			"%d of %s %s not Ready, with reason %s, such as %s", c.unready.number[reason], number(c.all, "SharedVolume"), are(c.unready.number[reason]), reason, c.unready.first[reason]))
	}
	for _, reason := range c.absent.reasons() {
		results = append(results, findings.Warn(fileSystemNotAvailable, "correct the IDs, or create the missing resources in AWS; the reasons: "+findings.Page("operate/sharedvolume.md#status"),
			"%d of %s %s Ready, but AWS lacks something, with reason %s, such as %s", c.absent.number[reason], number(c.all, "SharedVolume"), are(c.absent.number[reason]), reason, c.absent.first[reason]))
	}
	return results
}
