package csimigration_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/ebs"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/fault"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/migrate/csimigration"
	"github.com/berth-csi/berth/test/page"
	"github.com/berth-csi/berth/test/restarts"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// limit is how long anything may take on a cluster without machines.
const limit = 2 * time.Minute

// scene is a cluster with the EBS driver's objects, and with played static-pod operators and machine-config operator.
type scene struct {
	*cluster.Cluster
	*restarts.Operators
	t     *testing.T
	limit time.Duration // how long anything may take
}

// newScene is a cluster of an OpenShift version; with the proposal's feature sets if it is proposed.
func newScene(t *testing.T, version string, proposed bool) *scene {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Name: t.Name()})
	s := &scene{Cluster: c, t: t, limit: limit}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	s.must(restarts.Install(ctx, c))
	if proposed {
		s.must(restarts.Propose(ctx, c))
	}
	s.must(restarts.SetVersion(ctx, c, version))
	s.play(restarts.Play(c))
	s.must(restarts.InstallDriver(ctx, c, ebs.Driver.CSIName))
	nodes := &corev1.NodeList{}
	s.must(c.Client().List(ctx, nodes))
	for _, n := range nodes.Items {
		s.must(restarts.Register(ctx, c, ebs.Driver.CSIName, n.Name))
	}
	s.create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "in-tree"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource:        corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}},
	}})
	s.settled()
	return s
}

// in returns the scene for a subtest.
func (s *scene) in(t *testing.T) *scene {
	return &scene{Cluster: s.Cluster, Operators: s.Operators, t: t, limit: s.limit}
}

// play takes operators that are played until the test ends.
func (s *scene) play(operators *restarts.Operators, stop func() error) {
	s.Operators = operators
	s.t.Cleanup(func() {
		if err := stop(); err != nil && s.t.Failed() {
			s.t.Logf("the last error of the played operators: %v", err)
		}
	})
}

func (s *scene) must(err error) {
	s.t.Helper()
	require.NoError(s.t, err)
}

func (s *scene) create(object client.Object) {
	s.t.Helper()
	require.NoError(s.t, s.Client().Create(s.t.Context(), object))
}

func (s *scene) patch(object client.Object, patch string) {
	s.t.Helper()
	require.NoError(s.t, s.Client().Patch(s.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func (s *scene) patchStatus(object client.Object, patch string) {
	s.t.Helper()
	require.NoError(s.t, s.Client().Status().Patch(s.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// settled waits until nothing is rolled out.
func (s *scene) settled() {
	s.t.Helper()
	cluster.Eventually(s.t, s.limit, "the cluster to settle", func(ctx context.Context) error {
		o, err := csimigration.Observe(ctx, s.admin())
		if err == nil && o.Waits != "" {
			err = errors.New(o.Waits)
		}
		return err
	})
}

func (s *scene) connect(config *rest.Config) migrate.Cluster {
	s.t.Helper()
	config = rest.CopyConfig(config)
	config.Timeout = 10 * time.Second // the command's: an injected fault may keep the API server from answering
	c, err := client.New(config, client.Options{Scheme: s.Client().Scheme(), Mapper: s.Client().RESTMapper()})
	require.NoError(s.t, err)
	return migrate.Cluster{Config: config, Client: c}
}

func (s *scene) admin() migrate.Cluster { return s.connect(s.Config()) }

// tool is a command that runs the engine.
type tool func(context.Context, *rest.Config) error

// do is the command "enable" or "disable". watch, which may be nil, is called for each event.
func (s *scene) do(r csimigration.Request, o migrate.Options, watch func(migrate.Event)) tool {
	return func(ctx context.Context, config *rest.Config) error {
		c := s.connect(config)
		o.Report = func(e migrate.Event) {
			s.t.Logf("%s: %s %s", e.Step, e.Does, e.Waits)
			if watch != nil {
				watch(e)
			}
		}
		open, err := csimigration.Open(ctx, c)
		if err != nil {
			return err
		}
		if open != nil && r.Undoes(open) {
			return csimigration.Switch.Rollback(ctx, c, open.Plan, o)
		}
		p, _, err := csimigration.Switch.Ensure(ctx, c, r)
		if err != nil {
			return err
		}
		if !p.Safe {
			return fmt.Errorf("refused:\n%s", p.Text(findings.Plain))
		}
		return csimigration.Switch.Apply(ctx, c, p, o)
	}
}

var (
	enable  = csimigration.Request{Direction: csimigration.Enable}
	disable = csimigration.Request{Direction: csimigration.Disable}
)

// run runs a tool, which must succeed in time, and returns its writes.
func (s *scene) run(injector *fault.Injector, t tool) []fault.Write {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.limit)
	defer cancel()
	require.NoError(s.t, injector.Run(ctx, s.Config(), t))
	return injector.Writes()
}

// mustSwitch runs a tool, and then again; the second run must not write.
func (s *scene) mustSwitch(r csimigration.Request) {
	s.t.Helper()
	s.run(fault.Record(), s.do(r, migrate.Options{}, nil))
	s.is(r.Direction == csimigration.Enable)
	assert.Empty(s.t, s.run(fault.Record(), s.do(r, migrate.Options{}, nil)), "writes of a second run")
}

// is fails unless CSI migration is on, or off, everywhere, and all is safe.
func (s *scene) is(on bool) {
	s.t.Helper()
	o, err := csimigration.Observe(s.t.Context(), s.admin())
	require.NoError(s.t, err)
	want := map[bool]string{true: "on", false: "off"}[on]
	for _, p := range o.Plugins {
		for _, c := range p.Components {
			assert.Equalf(s.t, want, c.String(), "%s of %s", p.Plugin, c.Component)
		}
	}
	if !o.Safe || o.Migration != nil {
		s.t.Errorf("it is not safe to go on:\n%s", o.Text(findings.Plain))
	}
}

// mustFail runs a tool, which must fail with this text.
func (s *scene) mustFail(t tool, want ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), s.limit)
	defer cancel()
	err := t(ctx, s.Config())
	for _, text := range want {
		require.ErrorContains(s.t, err, text, "got error")
	}
}

// mustWait runs a tool until there is something to wait for, again and again until that has some text.
func (s *scene) mustWait(r csimigration.Request, want string) {
	s.t.Helper()
	cluster.Eventually(s.t, s.limit, "the tool to wait for "+want, func(ctx context.Context) error {
		err := s.do(r, migrate.Options{NoWait: true}, nil)(ctx, s.Config())
		if errors.Is(err, migrate.ErrWaiting) && strings.Contains(err.Error(), want) {
			return nil
		}
		return fmt.Errorf("it ended with %w", err)
	})
}

func (s *scene) setFeatureSet(set configv1.FeatureSet) {
	s.t.Helper()
	s.patch(&configv1.FeatureGate{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}, fmt.Sprintf(`{"spec":{"featureSet":%q}}`, set))
}

func pool(name string) client.Object {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfigPool"))
	object.SetName(name)
	return object
}

// TestOnAndOff: with the feature sets of the proposal, it goes on, off, on and off, in the right order, past a paused pool, a
// failing revision, a node that joins and a degraded node; and other administrators do not interfere. The real API server
// has the objects; the operators that restart components and nodes are played.
func TestOnAndOff(t *testing.T) {
	t.Parallel()
	s := newScene(t, "4.7.0", true)
	s.is(false)

	// A paused pool is refused before anything is changed.
	s.patch(pool("worker"), `{"spec":{"paused":true}}`)
	s.mustFail(s.do(enable, migrate.Options{}, nil), "MachineConfigPool worker is paused")
	s.patch(pool("worker"), `{"spec":{"paused":false}}`)
	s.settled()

	// A revision fails: the nodes are not touched.
	s.Fail("kube-scheduler", true)
	s.mustWait(enable, "has failed on control-plane-0")
	assert.Empty(t, s.Drained(), "drained before the control plane is on")
	// Meanwhile, another administrator cannot begin something else, nor choose another way.
	s.mustFail(s.do(csimigration.Request{Direction: csimigration.Enable, Way: csimigration.Custom}, migrate.Options{}, nil), "is in progress", "the plan has way two-sets, requested is custom")
	s.Fail("kube-scheduler", false)
	s.mustWait(enable, "the kubelets")

	// A node joins, and another one is degraded.
	s.Degrade("worker-0", true)
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "joined", Labels: map[string]string{"node-role.kubernetes.io/worker": ""}}})
	s.mustWait(enable, "worker-0")
	s.must(restarts.Register(t.Context(), s.Cluster, ebs.Driver.CSIName, "joined"))
	s.Degrade("worker-0", false)
	s.mustSwitch(enable)
	r := s.reader()
	r.Follow(t, migrationPage, "## Switch it off")
	s.is(false)

	// No node is ever ahead of the control plane, nor behind it when it goes off.
	inOrder := func(migrate.Event) {
		o, err := csimigration.Observe(t.Context(), s.admin())
		if err != nil {
			t.Error(err)
			return
		}
		for _, p := range o.Plugins {
			assert.Empty(t, p.WrongOrder, "wrong order")
		}
	}
	s.run(fault.Record(), s.do(enable, migrate.Options{}, inOrder))
	s.run(fault.Record(), s.do(disable, migrate.Options{}, inOrder))

	// The other direction undoes the migration in progress.
	s.Degrade("worker-0", true)
	s.mustWait(enable, "MachineConfigPool worker is degraded")
	s.Degrade("worker-0", false)
	s.run(fault.Record(), s.do(disable, migrate.Options{}, nil))
	s.is(false)
	r.Follow(t, migrationPage, "## Where a cluster stands")
	r.Follow(t, migrationPage, "## Switch it on")
	s.is(true)
	s.Degrade("worker-0", true)
	s.mustWait(disable, "MachineConfigPool worker is degraded")
	s.Degrade("worker-0", false)
	s.run(fault.Record(), s.do(enable, migrate.Options{}, nil))
	s.is(true)

	s.must(restarts.SetVersion(t.Context(), s.Cluster, "4.13.0"))
	r.Follow(t, migrationPage, "## Downgrades")
}

const migrationPage = "move/csi-migration.md"

// reader is an administrator who follows pages.
func (s *scene) reader() *page.Reader {
	s.t.Helper()
	built, err := tools.Programs(s.t.Context(), "./cmd/berth")
	s.must(err)
	return &page.Reader{
		Docs: "../../docs", Kubectl: s.Tools().Path("kubectl"), Kubeconfig: s.Kubeconfig(), Berth: built.Path("berth"),
		Varies: regexp.MustCompile(`(?m)^ *[0-9.]+s `), Limit: s.limit, Dir: s.t.TempDir(),
	}
}

// TestWrongOrder: a manual switch in the wrong order is found, with the volumes that it strands, and the way out works.
// On or off all at once is a wrong order, because nodes do not wait for the control plane.
func TestWrongOrder(t *testing.T) {
	t.Parallel()
	s := newScene(t, "4.7.0", true)

	// Nodes on while the control plane fails to follow, and a volume that the in-tree plugin has attached.
	s.Fail("kube-controller-manager", true)
	s.setFeatureSet("CSIMigrationNode")
	s.mustFind("worker-0", "the nodes have to follow the control plane")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "joined", Labels: map[string]string{"node-role.kubernetes.io/worker": ""}}}
	s.create(node)
	s.patchStatus(node, `{"status":{"volumesAttached":[{"name":"kubernetes.io/aws-ebs/vol-1","devicePath":"/dev/xvdf"}]}}`)
	s.must(restarts.Register(t.Context(), s.Cluster, ebs.Driver.CSIName, "joined"))
	s.mustFind("kubernetes.io/aws-ebs/vol-1 on node joined", "berth csi-migration disable")
	s.mustFail(s.do(enable, migrate.Options{}, nil), "refused", "cannot detach it")
	s.Fail("kube-controller-manager", false)
	s.run(fault.Record(), s.do(disable, migrate.Options{}, nil))
	s.is(false)
	s.patchStatus(node, `{"status":{"volumesAttached":null}}`) // as the in-tree plugin does now
	s.mustSwitch(enable)

	// The control plane off first, with a volume that the driver has attached.
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: ebs.Driver.CSIName, NodeName: "worker-0", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("in-tree")}}}
	s.create(attachment)
	s.Degrade("worker-0", true)
	s.setFeatureSet("")
	s.mustFind("volume in-tree on node worker-0 is stranded", "the control plane is not migrated any more", "berth csi-migration enable", "kubectl delete volumeattachment csi-1")
	s.mustFail(s.do(disable, migrate.Options{}, nil), "refused", "the control plane is not migrated any more")
	s.Degrade("worker-0", false)
	s.settled()
	s.mustSwitch(enable)

	// Off waits for it.
	s.mustWait(disable, "VolumeAttachment csi-1 of volume in-tree on node worker-0")
	require.NoError(t, s.Client().Delete(t.Context(), attachment))
	s.mustSwitch(disable)
}

// mustFind waits until the overview has some texts.
func (s *scene) mustFind(want ...string) {
	s.t.Helper()
	cluster.Eventually(s.t, s.limit, fmt.Sprintf("the status to find %q", want), func(ctx context.Context) error {
		o, err := csimigration.Observe(ctx, s.admin())
		if err != nil {
			return err
		}
		text := o.Text(findings.Plain)
		for _, part := range want {
			if o.Safe || !strings.Contains(text, part) {
				return fmt.Errorf("%q is not in\n%s", part, text)
			}
		}
		return nil
	})
}

// TestGates: without a way that keeps the order, the pools are paused until the control plane is on. With an
// Attach/Detach controller that follows the nodes' reports, gates go off again.
func TestGates(t *testing.T) {
	t.Parallel()
	s := newScene(t, "4.7.0", false)
	s.Fail("kube-apiserver", true)
	s.mustWait(enable, "has failed")
	assert.Empty(t, s.Drained(), "drained before the control plane is on")
	s.patch(pool("worker"), `{"spec":{"paused":false}}`)
	s.mustWait(enable, "has failed") // it has paused the pool again
	s.Fail("kube-apiserver", false)
	s.mustSwitch(enable)
	s.mustFail(s.do(disable, migrate.Options{}, nil), "the nodes have to be off first")
	s.must(restarts.SetVersion(t.Context(), s.Cluster, "4.10.0"))
	s.mustSwitch(disable)
	s.mustSwitch(enable)
}

// TestToday: on the version of the cluster there is nothing to switch, and nothing is written. On today's definition of
// FeatureGates, the preview of 4.10 could be set, and not be left.
func TestToday(t *testing.T) {
	t.Parallel()
	s := newScene(t, cluster.OpenShiftVersion, false)
	assert.Empty(t, s.run(fault.Record(), s.do(enable, migrate.Options{}, nil)), "writes")
	s.mustFail(s.do(disable, migrate.Options{}, nil), "refused", "already migrated", "nothing to switch")
	s.must(restarts.SetVersion(t.Context(), s.Cluster, "4.10.0"))
	s.mustSwitch(enable)
	s.mustFail(s.do(disable, migrate.Options{}, nil), "feature set TechPreviewNoUpgrade cannot be left")
}

// TestCrashSweep kills the tool before and after each of its writes, and then injects faults into single ones. It is run
// again after that; the end state is the same, and another run writes nothing.
func TestCrashSweep(t *testing.T) {
	t.Parallel()
	s := newScene(t, "4.7.0", true)
	t.Run("killed at each write", func(t *testing.T) {
		s := s.in(t)
		for _, r := range []csimigration.Request{enable, disable} {
			s.run(fault.KillAtEach(), s.do(r, migrate.Options{}, nil))
			s.mustSwitch(r)
		}
	})
	var scenarios []fault.Scenario
	for _, r := range []csimigration.Request{enable, disable} {
		t.Run(string(r.Direction), func(t *testing.T) {
			s := s.in(t)
			back := map[csimigration.Direction]csimigration.Request{csimigration.Enable: disable, csimigration.Disable: enable}[r.Direction]
			s.run(fault.Record(), s.do(back, migrate.Options{}, nil))
			reference := s.run(fault.Record(), s.do(r, migrate.Options{}, nil))
			var points []fault.Point
			for _, w := range reference {
				points = append(points, w.Point)
			}
			scenarios = append(scenarios, fault.Scenario{Name: string(r.Direction), Points: points, Sample: 3, Try: func(t *testing.T, at fault.Point, f fault.Fault) bool {
				s := s.in(t)
				s.run(fault.Record(), s.do(back, migrate.Options{}, nil))
				injector := fault.InjectNth(slices.Index(points, at)+1, f)
				s.run(injector, s.do(r, migrate.Options{}, nil))
				s.mustSwitch(r)
				return injector.Came()
			}})
		})
	}
	for i, tally := range fault.Sweep(t, 1, scenarios...) {
		assert.Emptyf(t, tally.Missed, "%s: %s", scenarios[i].Name, tally)
	}
}
