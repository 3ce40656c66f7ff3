// Package endurance lets a driver and its operator work for a long time in a large cluster, and shows that they need no
// more resources in the end than in the beginning: `make prove SUITE=endurance`.
package endurance

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/process"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

var (
	duration = flag.Duration("endurance", time.Minute, "how long claims come and go")
	nodes    = flag.Int("nodes", 50, "how many nodes there are")
	standing = flag.Int("claims", 100, "how many claims stay")
)

func TestMain(m *testing.M) { cluster.Main(m) }

func isHollow(node string) bool { return strings.HasPrefix(node, "hollow-") }

const (
	// atOnce is how many claims come and go at the same time.
	atOnce = 8
	// windows is how many parts of the time are compared.
	windows = 6
	// class is the StorageClass of all claims.
	class = "endurance"
)

// TestChurn: with many nodes and claims, claims of the EBS driver come and go. Memory and requests of the operator, the
// sidecars and the driver do not grow, nothing restarts, and the cloud's resources match the remaining claims in the
// end.
func TestChurn(t *testing.T) {
	bed := testbed.StartEBS(t, ebs.Driver, testbed.EBSOptions{})
	addHollowNodes(t, bed.Testbed, *nodes-len(testbed.Nodes))
	awaitRunning(t, bed.Testbed, *nodes-len(testbed.Nodes))
	mode := storagev1.VolumeBindingImmediate
	if err := bed.Client().Create(t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: ebs.Driver.CSIName, VolumeBindingMode: &mode}); err != nil {
		t.Fatal(err)
	}
	c := &churn{EBS: bed, namespace: bed.Namespace(t)}
	began := time.Now()
	c.each(t, *standing, func(i int) { c.provision(t, fmt.Sprintf("stays-%d", i)) })
	t.Logf("%d nodes; %d claims bound in %s", *nodes, *standing, time.Since(began).Round(time.Second))

	var samples []sample
	for range windows {
		samples = append(samples, c.window(t, *duration/windows))
		if t.Failed() {
			return
		}
	}
	t.Logf("\n%s", table(samples))
	for _, grows := range growth(samples[1], samples[len(samples)-1]) { // in the first one, caches are filled
		t.Error(grows)
	}
	bed.CheckNoRestarts(t)
	assert.Len(t, bed.Region.EC2.Volumes(), *standing, "volumes in the cloud")
}

// churn creates and deletes claims.
type churn struct {
	*testbed.EBS
	namespace string
	made      atomic.Int64 // claims that came and went
}

// each calls do for the numbers below n, atOnce at a time.
func (c *churn) each(t *testing.T, n int, do func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !t.Failed(); i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	all.Wait()
}

// provision creates a claim and waits until it is bound.
func (c *churn) provision(t *testing.T, name string) *corev1.PersistentVolumeClaim {
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Limit)
	defer cancel()
	claim := testbed.Claim{Namespace: c.namespace, Name: name, Class: class, Mode: corev1.ReadWriteOnce}.Object()
	if err := c.Client().Create(ctx, claim); err != nil {
		t.Error(err)
		return nil
	}
	if err := cluster.Until(ctx, "claim "+name+" to be bound", func(ctx context.Context) error {
		if err := c.Client().Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", claim.Status.Phase)
		}
		return nil
	}); err != nil {
		t.Error(err)
		return nil
	}
	return claim
}

// retire deletes a claim and waits until its volume is gone.
func (c *churn) retire(t *testing.T, claim *corev1.PersistentVolumeClaim) {
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Limit)
	defer cancel()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
	if err := c.Client().Delete(ctx, claim); err != nil {
		t.Error(err)
		return
	}
	assert.NoError(t, cluster.Until(ctx, "volume "+volume.Name+" to be gone", c.Gone(volume)))
}

// window lets claims come and go for some time, and returns the used resources.
func (c *churn) window(t *testing.T, length time.Duration) sample {
	requests, made := c.requests(t), c.made.Load()
	end := time.Now().Add(length)
	c.each(t, atOnce, func(worker int) {
		for time.Now().Before(end) && !t.Failed() {
			if claim := c.provision(t, fmt.Sprintf("goes-%d-%d", worker, c.made.Add(1))); claim != nil {
				c.retire(t, claim)
			}
		}
	})
	s := sample{claims: int(c.made.Load() - made), memory: c.memory(t), requests: map[string]float64{}}
	for program, now := range c.requests(t) {
		s.requests[program] = float64(now-requests[program]) / float64(s.claims)
	}
	return s
}

// requests are the requests so far of the accounts of the operator and the driver's controller, by program.
func (c *churn) requests(t *testing.T) map[string]int {
	counts := map[string]int{}
	for _, account := range c.accounts(t) {
		for _, event := range c.AuditOf(t, cluster.Requests{User: account}) {
			program, _, _ := strings.Cut(event.Agent, "/")
			counts[program]++
		}
	}
	return counts
}

func (c *churn) accounts(t *testing.T) []string {
	var accounts []string
	for _, pod := range c.pods(t) {
		accounts = append(accounts, "system:serviceaccount:"+pod.Namespace+":"+pod.Spec.ServiceAccountName)
	}
	slices.Sort(accounts)
	return slices.Compact(accounts)
}

// pods are the pods of the operator and of the driver's controller.
func (c *churn) pods(t *testing.T) []corev1.Pod {
	all := &corev1.PodList{}
	require.NoError(t, c.Client().List(t.Context(), all))
	var found []corev1.Pod
	for _, name := range []string{c.Driver.Operator.Name, "aws-ebs-csi-driver-controller"} {
		for _, pod := range all.Items {
			if strings.HasPrefix(pod.Name, name+"-") && pod.DeletionTimestamp == nil && !isHollow(pod.Spec.NodeName) {
				found = append(found, pod)
			}
		}
	}
	return found
}

// memory returns the resident memory of the programs in MiB; for replicas, the largest one's.
func (c *churn) memory(t *testing.T) map[string]float64 {
	found := map[string]float64{}
	for _, pod := range c.pods(t) {
		for _, container := range pod.Spec.Containers {
			folder, err := c.ContainerProcess(&pod, container.Name)
			require.NoError(t, err)
			now, _, err := process.In(folder).Memory()
			require.NoError(t, err)
			found[container.Name] = max(found[container.Name], now)
		}
	}
	return found
}
