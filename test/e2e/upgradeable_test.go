package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorv1 "github.com/openshift/api/operator/v1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/community"
	"github.com/berth-csi/berth/test/journey"
)

// TestOLMHearsWhenNotToUpgrade: in the OperatorCondition that OLM made for it, and with the rights that OLM
// gave it, the operator says that it must not be replaced while it adopts a driver - here one in another
// namespace - or removes it. It writes that once each time.
func TestOLMHearsWhenNotToUpgrade(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, efs(t), cluster.Options{})
	w.serveCatalog()
	leftovers, err := community.Driver(w.Namespace(t), nil)
	require.NoError(t, err)
	for _, leftover := range leftovers {
		require.NoError(t, w.Client().Create(t.Context(), leftover))
	}
	csv := w.subscribe(nil)
	own := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: csv}}
	w.waitForUpgradeable(own, "Settled")
	verdicts := w.watchUpgradeable(own)

	w.step(func(ctx context.Context, c client.Client) error {
		return journey.InstallDriver(ctx, c, w.driver.CSIName)
	})
	w.waitForUpgradeable(own, "Settled")
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName}}
	w.step(func(ctx context.Context, c client.Client) error {
		if err := c.Delete(ctx, custom); err != nil {
			return err
		}
		return journey.Gone(ctx, c, custom)
	})
	w.waitForUpgradeable(own, "Settled")

	want := []string{"False Adopting", "True Settled", "False Uninstalling", "True Settled"}
	assert.Empty(t, cmp.Diff(want, verdicts()), "what OLM heard (-want +got)")
	w.checkPermissions()
	w.checkVerdictsAreWrittenFirst(len(want) + 1)
}

// checkVerdictsAreWrittenFirst checks the operator's writes: want verdicts, and the adoption's verdict before anything
// was adopted.
func (w *environment) checkVerdictsAreWrittenFirst(want int) {
	w.t.Helper()
	verdicts := 0
	for _, event := range w.requests() {
		if event.Code != http.StatusOK {
			continue
		}
		switch {
		case event.Resource == "operatorconditions" && event.Verb != "get":
			verdicts++
		case event.Resource == "daemonsets" && event.Verb == "patch" && verdicts != 2:
			w.t.Errorf("when the DaemonSet was adopted, OLM had heard %d verdicts, want 2", verdicts)
		}
	}
	if verdicts != want {
		w.t.Errorf("the operator wrote %d verdicts, want %d", verdicts, want)
	}
}

func (w *environment) waitForUpgradeable(own *operatorsv2.OperatorCondition, reason string) {
	w.t.Helper()
	w.Await(w.t, limit, "Upgradeable to be "+reason, own, func() error {
		// OLM acts on the status, which it copies from the spec.
		for _, conditions := range [][]metav1.Condition{own.Spec.Conditions, own.Status.Conditions} {
			if c := meta.FindStatusCondition(conditions, operatorsv2.Upgradeable); c == nil || c.Reason != reason {
				return fmt.Errorf("it is %v", c)
			}
		}
		return nil
	})
}

// watchUpgradeable returns a function that returns the condition's changes since.
func (w *environment) watchUpgradeable(own *operatorsv2.OperatorCondition) func() []string {
	w.t.Helper()
	c, err := client.NewWithWatch(w.Config(), client.Options{Scheme: w.Client().Scheme()})
	require.NoError(w.t, err)
	watching, err := c.Watch(w.t.Context(), &operatorsv2.OperatorConditionList{}, client.InNamespace(own.Namespace),
		client.MatchingFields{metav1.ObjectNameField: own.Name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: own.ResourceVersion}})
	require.NoError(w.t, err)
	last := meta.FindStatusCondition(own.Spec.Conditions, operatorsv2.Upgradeable).Reason
	seen := make(chan []string, 1)
	go func() {
		var verdicts []string
		for event := range watching.ResultChan() {
			if event.Type == watch.Error {
				continue // the end of the stream
			}
			now := meta.FindStatusCondition(event.Object.(*operatorsv2.OperatorCondition).Spec.Conditions, operatorsv2.Upgradeable)
			if now.Reason != last {
				verdicts = append(verdicts, fmt.Sprintf("%s %s", now.Status, now.Reason))
			}
			last = now.Reason
		}
		seen <- verdicts
	}()
	return func() []string {
		watching.Stop()
		return <-seen
	}
}
