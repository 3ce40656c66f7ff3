package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/operator-framework/operator-lib/conditions"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/operator/clustercsidriver"
)

func TestMain(m *testing.M) { cluster.Main(m) }

const limit = 2 * time.Minute

// TestAdoptionEndsByWhatThisOperatorReports: an earlier operator has written to the ClusterCSIDriver that the driver is
// available and not progressing. That does not end the adoption. The reports of all components end it, also if they say
// nothing new, so that the ClusterCSIDriver does not change. What etcd loses of the verdict is written again.
func TestAdoptionEndsByWhatThisOperatorReports(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t, cluster.Options{})
	custom := &operatorv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "manila.csi.openstack.org"},
		Spec:       operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}},
	}
	require.NoError(t, c.Client().Create(t.Context(), custom))
	t.Cleanup(func() { _ = c.Client().Delete(context.Background(), custom) })
	available := applyoperatorv1.OperatorCondition().WithType("TestAvailable").WithStatus(operatorv1.ConditionTrue).WithReason("AsExpected")
	progressing := applyoperatorv1.OperatorCondition().WithType("TestProgressing").WithStatus(operatorv1.ConditionFalse).WithReason("AsExpected")
	report := applyoperatorv1.OperatorStatus().WithConditions(available, progressing)
	object := &unstructured.Unstructured{}
	object.SetKind("DaemonSet")
	expected := []clustercsidriver.Component{{Name: "Test", Manifest: drivers.Manifest{Object: object}}}

	clock := clocktesting.NewFakePassiveClock(time.Now())
	start := func() *clustercsidriver.Reporter {
		source, err := clustercsidriver.Start(t.Context(), c.Config(), custom.Name, clock)
		require.NoError(t, err)
		api := source.NewClient()
		reporter := clustercsidriver.NewReporter(api, api.Resource(), clustercsidriver.ReporterOptions{Name: custom.Name, FieldManager: "test", IsCurrent: func(string) bool { return true }})
		go reporter.Run(t.Context())
		reporter.Expect(expected)
		return reporter
	}
	if err := start().ApplyOperatorStatus(t.Context(), "Test", report); err != nil { // the earlier operator
		t.Fatal(err)
	}

	reporter, verdicts := start(), &verdicts{}
	controller := NewUpgradeable("Test", &UpgradeableCondition{inner: verdicts, show: func(bool) {}}, true, reporter, clock, events.NewInMemoryRecorder("test", clock))
	go controller.Run(t.Context(), 1)
	verdicts.waitFor(t, "Adopting")
	require.NoError(t, c.Client().Get(t.Context(), client.ObjectKeyFromObject(custom), custom))
	before := custom.ResourceVersion
	require.NoError(t, reporter.ApplyOperatorStatus(t.Context(), "Test", report))
	verdicts.waitFor(t, "Adopting", "Settled")
	require.NoError(t, c.Client().Get(t.Context(), client.ObjectKeyFromObject(custom), custom))
	assert.Equal(t, before, custom.ResourceVersion, "the reports changed the ClusterCSIDriver")

	verdicts.lose()
	clock.SetTime(clock.Now().Add(recheckInterval))
	require.NoError(t, controller.Sync(t.Context(), nil))
	verdicts.waitFor(t, "Adopting", "Settled", "Settled")
}

// verdicts record the writes to a condition. They stand in for the OperatorCondition, which needs OLM.
type verdicts struct {
	mu      sync.Mutex
	written []string
	now     *metav1.Condition
}

func (v *verdicts) Get(context.Context) (*metav1.Condition, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.now == nil {
		return nil, errors.New("there is no such condition")
	}
	return v.now, nil
}

func (v *verdicts) Set(_ context.Context, status metav1.ConditionStatus, options ...conditions.Option) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now = &metav1.Condition{Status: status}
	for _, apply := range options {
		apply(v.now)
	}
	v.written = append(v.written, v.now.Reason)
	return nil
}

func (v *verdicts) lose() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now = nil
}

func (v *verdicts) waitFor(t *testing.T, want ...string) {
	t.Helper()
	cluster.Eventually(t, limit, "the verdicts "+strings.Join(want, ", "), func(context.Context) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if !slices.Equal(v.written, want) {
			return fmt.Errorf("they are %q", v.written)
		}
		return nil
	})
}
