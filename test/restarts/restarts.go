// Package restarts plays, at the API of a real cluster, the operators that restart components of an OpenShift cluster when its feature
// gates change: the static pods' operators, and the machine-config operator with the kubelets. No component is really restarted but by a
// Reboot, and no kernel boots; Kubernetes 1.36 has no gates of CSI migration any more. It follows the published behaviour of these
// operators: a new revision for each configuration, which gets to one node at a time and may fail there; pools that give nodes a new
// configuration one at a time, after a drain by the eviction API, unless they are paused or a node is degraded.
package restarts

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/crds"
)

// Components are the static pods, by the kinds of their operators.
var Components = map[string]string{
	"KubeAPIServer": "kube-apiserver", "KubeControllerManager": "kube-controller-manager", "KubeScheduler": "kube-scheduler",
}

const (
	migratedAnnotation = "storage.alpha.kubernetes.io/migrated-plugins"
	current            = "machineconfiguration.openshift.io/currentConfig"
	desired            = "machineconfiguration.openshift.io/desiredConfig"
	reason             = "machineconfiguration.openshift.io/reason"
	// onConfig ends the names of configurations with the gates of CSI migration, and offConfig the names of others.
	onConfig, offConfig = "-migrated", "-plain"
)

// Operators are the operators that are played.
type Operators struct {
	client client.Client
	reboot Reboot

	mutex sync.Mutex
	// failing are the components whose revisions fail, degraded the degraded nodes, and keeping the nodes that are not
	// drained.
	failing, degraded, keeping map[string]bool
	// drained are the nodes that were drained, in order.
	drained []string
	// restarted are the times when the nodes' kubelets were started last.
	restarted map[string]time.Time
	err       error
}

// Install installs the APIs and objects that the operators need: their own objects, and the pools. No operator is played
// yet.
func Install(ctx context.Context, c *cluster.Cluster) error {
	if err := crds.Restarts.Create(ctx, c.Client()); err != nil {
		return err
	}
	for kind, component := range Components {
		if err := c.EnsureNamespace(ctx, "openshift-"+component); err != nil {
			return err
		}
		operator := newObject(operatorv1.GroupVersion.String(), kind, "cluster")
		operator.Object["spec"] = map[string]any{"managementState": "Managed", "forceRedeploymentReason": ""}
		if err := createServed(ctx, c, operator); err != nil {
			return err
		}
	}
	for _, name := range []string{"master", "worker"} {
		pool := newObject(mcfgv1.GroupVersion.String(), "MachineConfigPool", name)
		pool.Object["spec"] = map[string]any{"paused": false, "configuration": map[string]any{"name": "rendered-" + name + offConfig}}
		if err := createServed(ctx, c, pool); err != nil {
			return err
		}
	}
	return nil
}

// Propose makes the API server accept the feature sets of the proposal, which no released API server does.
func Propose(ctx context.Context, c *cluster.Cluster) error {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := c.Client().Get(ctx, client.ObjectKey{Name: "featuregates.config.openshift.io"}, definition); err != nil {
		return err
	}
	schema := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	spec := schema.Properties["spec"]
	set := spec.Properties["featureSet"]
	for _, name := range []string{"CSIMigrationControlPlane", "CSIMigrationNode"} {
		set.Enum = append(set.Enum, apiextensionsv1.JSON{Raw: []byte(`"` + name + `"`)})
	}
	spec.Properties["featureSet"] = set
	schema.Properties["spec"] = spec
	if err := c.Client().Update(ctx, definition); err != nil {
		return err
	}
	return cluster.Until(ctx, "the API server to take the feature sets", func(ctx context.Context) error {
		gate := newObject("config.openshift.io/v1", "FeatureGate", "cluster")
		return c.Client().Patch(ctx, gate, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"featureSet":"CSIMigrationNode"}}`)), client.DryRunAll)
	})
}

// SetVersion makes the cluster report an OpenShift version.
func SetVersion(ctx context.Context, c *cluster.Cluster, version string) error {
	found := &configv1.ClusterVersion{}
	if err := c.Client().Get(ctx, client.ObjectKey{Name: "version"}, found); err != nil {
		return err
	}
	found.Status.Desired.Version, found.Status.History[0].Version = version, version
	return c.Client().Status().Update(ctx, found)
}

// InstallDriver creates the objects that show a driver as available, without its pods.
func InstallDriver(ctx context.Context, c *cluster.Cluster, csiName string) error {
	if err := c.Client().Create(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: csiName}}); err != nil {
		return err
	}
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: csiName}, Spec: operatorv1.ClusterCSIDriverSpec{OperatorSpec: operatorv1.OperatorSpec{ManagementState: operatorv1.Managed}}}
	if err := c.Client().Create(ctx, custom); err != nil {
		return err
	}
	custom.Status.Conditions = []operatorv1.OperatorCondition{{Type: operatorv1.OperatorStatusTypeAvailable, Status: operatorv1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	return c.Client().Status().Update(ctx, custom)
}

// Register registers a driver on nodes, as its node plugin does.
func Register(ctx context.Context, c *cluster.Cluster, csiName string, nodes ...string) error {
	for _, node := range nodes {
		err := cluster.Until(ctx, "the CSINode of "+node, func(ctx context.Context) error {
			found := &storagev1.CSINode{}
			if err := c.Client().Get(ctx, client.ObjectKey{Name: node}, found); err != nil {
				return err
			}
			if slices.ContainsFunc(found.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == csiName }) {
				return nil
			}
			found.Spec.Drivers = append(found.Spec.Drivers, storagev1.CSINodeDriver{Name: csiName, NodeID: node})
			return c.Client().Update(ctx, found)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Reboot restarts the machine of a node, with CSI migration on or off for the kubelet. It reports whether that kubelet
// is a real one, which reports the migrated plugins itself.
type Reboot func(ctx context.Context, node string, migrated bool) (isReal bool, err error)

// Play plays the operators until stop is called, which returns the last error that was not a conflict. No machine is rebooted.
func Play(c *cluster.Cluster) (o *Operators, stop func() error) {
	return PlayWith(c, func(context.Context, string, bool) (bool, error) { return false, nil })
}

// PlayWith is Play with a function that restarts machines.
func PlayWith(c *cluster.Cluster, reboot Reboot) (o *Operators, stop func() error) {
	o = &Operators{client: c.Client(), reboot: reboot, failing: map[string]bool{}, degraded: map[string]bool{}, keeping: map[string]bool{}, restarted: map[string]time.Time{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.run(ctx)
	}()
	return o, func() error {
		cancel()
		<-ended
		return o.err
	}
}

// Fail makes revisions of a component fail on their nodes, or stops that.
func (o *Operators) Fail(component string, fails bool) { o.mark(o.failing, component, fails) }

// Degrade keeps a node from getting its configuration, or stops that.
func (o *Operators) Degrade(node string, is bool) { o.mark(o.degraded, node, is) }

// Keep makes a node keep its pods when it is restarted, as if they could run nowhere else.
func (o *Operators) Keep(node string) { o.mark(o.keeping, node, true) }

func (o *Operators) mark(marks map[string]bool, name string, is bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	marks[name] = is
}

func (o *Operators) is(marks map[string]bool, name string) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return marks[name]
}

// Drained returns the nodes that were drained, in order.
func (o *Operators) Drained() []string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return slices.Clone(o.drained)
}

const interval = 50 * time.Millisecond

// startup is how long a node takes from when its kubelet says which plugins are migrated until it is schedulable again. Real ones take
// longer. By then, the Attach/Detach controller has read which plugins are migrated; else it would attach as before.
const startup = time.Second

func (o *Operators) run(ctx context.Context) {
	for {
		gate := &configv1.FeatureGate{}
		err := o.client.Get(ctx, client.ObjectKey{Name: "cluster"}, gate)
		if err == nil {
			for kind, component := range Components {
				err = first(err, o.rollStaticPods(ctx, gate.Spec, kind, component))
			}
			for _, pool := range []string{"master", "worker"} {
				err = first(err, o.rollPool(ctx, gate.Spec, pool))
			}
		}
		if err != nil && !apierrors.IsConflict(err) && ctx.Err() == nil {
			o.mutex.Lock()
			o.err = err
			o.mutex.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// gatesOf returns the arguments of a component. The machine-config operator does not heed the feature set for the
// control plane.
func gatesOf(spec configv1.FeatureGateSpec, ofNodes bool) string {
	gates := map[string]bool{}
	for _, d := range registry.All() {
		if d.InTree.Gate != "" {
			gates[d.InTree.Gate] = true
		}
	}
	gates["CSIMigration"] = true
	switch spec.FeatureSet {
	case "CSIMigrationNode", configv1.TechPreviewNoUpgrade:
	case "CSIMigrationControlPlane":
		if ofNodes {
			return ""
		}
	case configv1.CustomNoUpgrade:
		clear(gates)
		if spec.CustomNoUpgrade == nil {
			return ""
		}
		for _, gate := range spec.CustomNoUpgrade.Enabled {
			gates[string(gate)] = true
		}
		for _, gate := range spec.CustomNoUpgrade.Disabled {
			gates[string(gate)] = false
		}
	default:
		return ""
	}
	var arguments []string
	for _, gate := range slices.Sorted(maps.Keys(gates)) {
		arguments = append(arguments, fmt.Sprintf("%q", fmt.Sprintf("%s=%t", gate, gates[gate])))
	}
	return strings.Join(arguments, ",")
}

// pluginOn matches the gate of a plugin that is on.
var pluginOn = regexp.MustCompile(`CSIMigration[A-Za-z]+=true`)

// rollStaticPods plays the operator of a component, one change at a time.
func (o *Operators) rollStaticPods(ctx context.Context, spec configv1.FeatureGateSpec, kind, component string) error {
	object := newObject(operatorv1.GroupVersion.String(), kind, "cluster")
	if err := o.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	var read struct {
		Status operatorv1.StaticPodOperatorStatus `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &read); err != nil {
		return err
	}
	status := &read.Status
	namespace, text := "openshift-"+component, fmt.Sprintf(`{"extendedArguments":{"feature-gates":[%s]}}`, gatesOf(spec, false))
	latest := &corev1.ConfigMap{}
	err := o.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("config-%d", status.LatestAvailableRevision)}, latest)
	isNew := apierrors.IsNotFound(err)
	if err != nil && !isNew {
		return err
	}
	nodes, err := o.nodes(ctx, "master")
	if err != nil {
		return err
	}
	switch {
	case isNew, latest.Data["config.yaml"] != text:
		revision := status.LatestAvailableRevision + 1
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("config-%d", revision)}, Data: map[string]string{"config.yaml": text}}
		if err := o.client.Create(ctx, config); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		status.LatestAvailableRevision = revision
	default:
		if !o.rollNodes(status, nodes, component) {
			return nil
		}
	}
	written, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&read)
	if err != nil {
		return err
	}
	object.Object["status"] = written["status"]
	return o.client.Status().Update(ctx, object)
}

// rollNodes brings one node one step closer to the latest revision, and reports whether something changed.
func (o *Operators) rollNodes(status *operatorv1.StaticPodOperatorStatus, nodes []corev1.Node, component string) bool {
	for _, n := range nodes {
		if !slices.ContainsFunc(status.NodeStatuses, func(s operatorv1.NodeStatus) bool { return s.NodeName == n.Name }) {
			status.NodeStatuses = append(status.NodeStatuses, operatorv1.NodeStatus{NodeName: n.Name})
			return true
		}
	}
	for i := range status.NodeStatuses {
		switch s := &status.NodeStatuses[i]; {
		case s.TargetRevision != 0 && o.is(o.failing, component):
			now := metav1.Now()
			s.LastFailedRevision, s.LastFailedTime, s.LastFailedReason, s.TargetRevision = s.TargetRevision, &now, "InstallerFailed", 0
			s.LastFailedCount++
			s.LastFailedRevisionErrors = []string{"installer: no space left on device"}
			return true
		case s.TargetRevision != 0:
			*s = operatorv1.NodeStatus{NodeName: s.NodeName, CurrentRevision: s.TargetRevision}
			return true
		case s.CurrentRevision != status.LatestAvailableRevision:
			if s.LastFailedRevision == status.LatestAvailableRevision && o.is(o.failing, component) {
				return false // it backs off
			}
			s.TargetRevision = status.LatestAvailableRevision
			return true
		}
	}
	return false
}

// nodes returns the nodes of a role, sorted.
func (o *Operators) nodes(ctx context.Context, role string) ([]corev1.Node, error) {
	list := &corev1.NodeList{}
	err := o.client.List(ctx, list, client.HasLabels{"node-role.kubernetes.io/" + role})
	return list.Items, err
}

// rollPool plays the machine-config operator for a pool, and the kubelets of its nodes.
func (o *Operators) rollPool(ctx context.Context, spec configv1.FeatureGateSpec, name string) error {
	object := newObject(mcfgv1.GroupVersion.String(), "MachineConfigPool", name)
	if err := o.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	var pool mcfgv1.MachineConfigPool
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &pool); err != nil {
		return err
	}
	want := "rendered-" + name + offConfig
	if pluginOn.MatchString(gatesOf(spec, true)) {
		want = "rendered-" + name + onConfig
	}
	if pool.Spec.Configuration.Name != want && !pool.Spec.Paused {
		patch := fmt.Sprintf(`{"spec":{"configuration":{"name":%q}}}`, want)
		return o.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	nodes, err := o.nodes(ctx, name)
	if err != nil {
		return err
	}
	status := mcfgv1.MachineConfigPoolStatus{ObservedGeneration: pool.Generation, MachineCount: int32(len(nodes)), Configuration: pool.Status.Configuration}
	if !pool.Spec.Paused {
		if err := o.rollOne(ctx, nodes, pool.Spec.Configuration.Name); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		if n.Annotations[current] == pool.Spec.Configuration.Name {
			status.UpdatedMachineCount++
		}
		if n.Annotations[current] == n.Annotations[desired] && !n.Spec.Unschedulable {
			status.ReadyMachineCount++
		}
		if n.Annotations[reason] != "" {
			status.DegradedMachineCount++
		}
	}
	if status.UpdatedMachineCount == status.MachineCount && status.ReadyMachineCount == status.MachineCount {
		status.Configuration.Name = pool.Spec.Configuration.Name
	}
	written, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil || fmt.Sprint(object.Object["status"]) == fmt.Sprint(written) {
		return err
	}
	object.Object["status"] = written
	return o.client.Status().Update(ctx, object)
}

// rollOne goes on with the node that is being restarted, or begins with the next one.
func (o *Operators) rollOne(ctx context.Context, nodes []corev1.Node, config string) error {
	for i := range nodes {
		if n := &nodes[i]; n.Annotations[current] == "" { // it has joined with the configuration of the pool
			return o.restart(ctx, n, config)
		}
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Annotations[current] == n.Annotations[desired] {
			if !n.Spec.Unschedulable {
				continue
			}
			if time.Since(o.restarted[n.Name]) < startup {
				return nil
			}
			return o.annotate(ctx, n, nil, false)
		}
		if o.is(o.degraded, n.Name) {
			return o.annotate(ctx, n, map[string]string{reason: "failed to drain node"}, n.Spec.Unschedulable)
		}
		if !o.is(o.keeping, n.Name) {
			left, err := o.evict(ctx, n.Name)
			if err != nil || left > 0 || len(n.Status.VolumesInUse) > 0 { // a real node takes minutes to restart; volumes are unmounted by then
				return err
			}
		}
		o.mutex.Lock()
		o.drained = append(o.drained, n.Name)
		o.mutex.Unlock()
		return o.restart(ctx, n, n.Annotations[desired])
	}
	for i := range nodes {
		if n := &nodes[i]; n.Annotations[current] != config {
			return o.annotate(ctx, n, map[string]string{desired: config}, true)
		}
	}
	return nil
}

// evict evicts the pods of a node, and returns how many are left.
func (o *Operators) evict(ctx context.Context, node string) (int, error) {
	pods := &corev1.PodList{}
	if err := o.client.List(ctx, pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return 0, err
	}
	left := 0
	for i := range pods.Items {
		p := &pods.Items[i]
		if owner := metav1.GetControllerOf(p); owner != nil && owner.Kind == "DaemonSet" {
			continue
		}
		left++
		err := o.client.SubResource("eviction").Create(ctx, p, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) {
			return left, err
		}
	}
	return left, nil
}

// restart starts the kubelet of a node with a configuration: it says which plugins are migrated. A node that was cordoned stays so.
func (o *Operators) restart(ctx context.Context, n *corev1.Node, config string) error {
	migrated := strings.HasSuffix(config, onConfig)
	isReal, err := o.reboot(ctx, n.Name, migrated)
	if err == nil && !isReal {
		err = o.say(ctx, n.Name, migrated)
	}
	if err != nil {
		return err
	}
	o.restarted[n.Name] = time.Now()
	return o.annotate(ctx, n, map[string]string{current: config, desired: config, reason: ""}, n.Spec.Unschedulable)
}

// say writes which plugins are migrated, as a kubelet does when it starts.
func (o *Operators) say(ctx context.Context, node string, migrated bool) error {
	var listed []string
	if migrated {
		for _, d := range registry.All() {
			if d.InTree.Plugin != "" {
				listed = append(listed, d.InTree.Plugin)
			}
		}
	}
	csiNode := &storagev1.CSINode{}
	err := o.client.Get(ctx, client.ObjectKey{Name: node}, csiNode)
	if apierrors.IsNotFound(err) {
		csiNode.Name = node
		err = o.client.Create(ctx, csiNode)
	}
	if err != nil {
		return err
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, migratedAnnotation, strings.Join(listed, ","))
	return o.client.Patch(ctx, csiNode, client.RawPatch(types.MergePatchType, []byte(patch)))
}

func (o *Operators) annotate(ctx context.Context, n *corev1.Node, annotations map[string]string, cordoned bool) error {
	changed := n.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	maps.Copy(changed.Annotations, annotations)
	changed.Spec.Unschedulable = cordoned
	err := o.client.Patch(ctx, changed, client.MergeFrom(n))
	if err == nil {
		*n = *changed
	}
	return err
}

func newObject(version, kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(version)
	object.SetKind(kind)
	object.SetName(name)
	return object
}

// createServed creates an object of an API that was installed a moment ago.
func createServed(ctx context.Context, c *cluster.Cluster, object *unstructured.Unstructured) error {
	return cluster.Until(ctx, "the API server to serve "+object.GetKind(), func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(c.Client().Create(ctx, object))
	})
}
