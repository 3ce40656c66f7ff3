package csimigration

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/migrate"
)

// observed is the observed state of the cluster. All objects are cluster-scoped, or in namespaces of the control plane.
type observed struct {
	// featureGate is nil on clusters that have none, which are not OpenShift.
	featureGate *configv1.FeatureGate
	// featureSets are the values that the API server accepts for the FeatureGate's spec.featureSet.
	featureSets []string
	version     semver.Version
	// updating says that the cluster is being updated to another version.
	updating bool
	// hosted says that the control plane is not on nodes of this cluster.
	hosted      bool
	nodes       []node
	operators   []operator
	pools       []mcfgv1.MachineConfigPool
	drivers     map[string]driverState // by the names of drivers in plugins
	attachments []attachment
	// volumes are the names of PersistentVolumes with in-tree sources, by the names of plugins.
	volumes map[string][]string
}

// node is a node, as its kubelet and the machine-config operator report it.
type node struct {
	name         string
	controlPlane bool
	ready        bool
	// hasCSINode says that its CSINode exists, which lists the migrated plugins and the drivers.
	hasCSINode        bool
	migrated, drivers sets.Set[string]
	// config, desired and state come from the machine-config operator, with its reason.
	config, desired, state, reason string
	// attached are the names of the volumes that are attached to the node.
	attached []string
}

// operator is an operator of static pods.
type operator struct {
	staticPod
	found  bool
	latest int32
	nodes  []operatorv1.NodeStatus
	// gates are the feature gates in each revision that exists.
	gates map[int32]map[string]bool
}

// staticPod is a component of the control plane.
type staticPod struct{ kind, component, namespace string }

// controlPlane are the components whose operators have to be at a revision with the gates.
var controlPlane = []staticPod{
	{"KubeAPIServer", "kube-apiserver", "openshift-kube-apiserver"},
	{"KubeControllerManager", "kube-controller-manager", "openshift-kube-controller-manager"},
	{"KubeScheduler", "kube-scheduler", "openshift-kube-scheduler"},
}

// attachDetach is the component that runs the Attach/Detach controller.
const attachDetach = "kube-controller-manager"

// driverState is whether a driver runs.
type driverState struct {
	installed bool
	// unavailable says why the driver is not available; "" if it is.
	unavailable string
}

// attachment is a VolumeAttachment of a driver for a volume with an in-tree source.
type attachment struct{ name, driver, volume, node string }

// observe reads all that decisions are made from.
func observe(ctx context.Context, c client.Client) (*observed, error) {
	o := &observed{drivers: map[string]driverState{}, volumes: map[string][]string{}}
	for _, read := range []func(context.Context, client.Client) error{
		o.readFeatureGate, o.readVersion, o.readNodes, o.readOperators, o.readPools, o.readDrivers, o.readVolumes,
	} {
		if err := read(ctx, c); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *observed) readFeatureGate(ctx context.Context, c client.Client) error {
	found := &configv1.FeatureGate{}
	exists, err := migrate.Find(ctx, c, found, "", "cluster")
	if err != nil {
		return fmt.Errorf("reading FeatureGate cluster: %w", err)
	}
	if !exists {
		return nil
	}
	o.featureGate = found
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if _, err := migrate.Find(ctx, c, definition, "", "featuregates.config.openshift.io"); err != nil {
		return fmt.Errorf("reading CustomResourceDefinition featuregates.config.openshift.io: %w", err)
	}
	o.featureSets, err = enumOf(definition)
	return err
}

// enumOf returns the values of spec.featureSet that a definition of FeatureGates lists.
func enumOf(definition *unstructured.Unstructured) ([]string, error) {
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil {
		return nil, fmt.Errorf("CustomResourceDefinition %s: %w", definition.GetName(), err)
	}
	for _, version := range versions {
		version, _ := version.(map[string]any)
		if version["name"] != "v1" {
			continue
		}
		enum, _, err := unstructured.NestedStringSlice(version, "schema", "openAPIV3Schema", "properties", "spec", "properties", "featureSet", "enum")
		return enum, err
	}
	return nil, nil
}

func (o *observed) readVersion(ctx context.Context, c client.Client) error {
	version, infrastructure := &configv1.ClusterVersion{}, &configv1.Infrastructure{}
	if found, err := migrate.Find(ctx, c, version, "", "version"); err != nil {
		return fmt.Errorf("reading ClusterVersion version: %w", err)
	} else if found {
		if o.version, err = semver.Parse(version.Status.Desired.Version); err != nil {
			return fmt.Errorf("ClusterVersion version: status.desired.version is %q, want a version: %w", version.Status.Desired.Version, err)
		}
		history := version.Status.History
		o.updating = len(history) > 0 && history[0].State != configv1.CompletedUpdate
	}
	if _, err := migrate.Find(ctx, c, infrastructure, "", "cluster"); err != nil {
		return fmt.Errorf("reading Infrastructure cluster: %w", err)
	}
	o.hosted = infrastructure.Status.ControlPlaneTopology == configv1.ExternalTopologyMode
	return nil
}

// Annotations of the kubelet and of the machine-config operator.
const (
	migratedAnnotation = "storage.alpha.kubernetes.io/migrated-plugins"
	configAnnotation   = "machineconfiguration.openshift.io/currentConfig"
	desiredAnnotation  = "machineconfiguration.openshift.io/desiredConfig"
	stateAnnotation    = "machineconfiguration.openshift.io/state"
	reasonAnnotation   = "machineconfiguration.openshift.io/reason"
)

func (o *observed) readNodes(ctx context.Context, c client.Client) error {
	nodes, csiNodes := &corev1.NodeList{}, &storagev1.CSINodeList{}
	for _, list := range []client.ObjectList{nodes, csiNodes} {
		if err := c.List(ctx, list); err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
	}
	for _, n := range nodes.Items {
		made := node{
			name: n.Name, config: n.Annotations[configAnnotation], desired: n.Annotations[desiredAnnotation],
			state: n.Annotations[stateAnnotation], reason: n.Annotations[reasonAnnotation],
			migrated: sets.New[string](), drivers: sets.New[string](),
		}
		for _, role := range []string{"master", "control-plane"} {
			if _, has := n.Labels["node-role.kubernetes.io/"+role]; has {
				made.controlPlane = true
			}
		}
		made.ready = slices.ContainsFunc(n.Status.Conditions, func(condition corev1.NodeCondition) bool {
			return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
		})
		for _, volume := range n.Status.VolumesAttached {
			made.attached = append(made.attached, string(volume.Name))
		}
		if i := slices.IndexFunc(csiNodes.Items, func(found storagev1.CSINode) bool { return found.Name == n.Name }); i >= 0 {
			made.hasCSINode = true
			for _, plugin := range strings.Split(csiNodes.Items[i].Annotations[migratedAnnotation], ",") {
				if plugin != "" {
					made.migrated.Insert(plugin)
				}
			}
			for _, driver := range csiNodes.Items[i].Spec.Drivers {
				made.drivers.Insert(driver.Name)
			}
		}
		o.nodes = append(o.nodes, made)
	}
	return nil
}

func (o *observed) readOperators(ctx context.Context, c client.Client) error {
	if o.hosted {
		return nil
	}
	for _, component := range controlPlane {
		made := operator{staticPod: component, gates: map[int32]map[string]bool{}}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(operatorv1.GroupVersion.WithKind(component.kind))
		found, err := migrate.Find(ctx, c, object, "", "cluster")
		if err != nil {
			return fmt.Errorf("reading %s cluster: %w", component.kind, err)
		}
		if found {
			var read struct {
				Status operatorv1.StaticPodOperatorStatus `json:"status"`
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &read); err != nil {
				return fmt.Errorf("reading %s cluster: %w", component.kind, err)
			}
			made.found, made.latest, made.nodes = true, read.Status.LatestAvailableRevision, read.Status.NodeStatuses
			if err := made.readRevisions(ctx, c); err != nil {
				return err
			}
		}
		o.operators = append(o.operators, made)
	}
	return nil
}

// readRevisions reads the feature gates of the revisions that nodes run, and of the latest one.
func (o *operator) readRevisions(ctx context.Context, c client.Client) error {
	revisions := sets.New(o.latest)
	for _, status := range o.nodes {
		revisions.Insert(status.CurrentRevision)
	}
	for revision := range revisions {
		for _, name := range []string{"config", o.component + "-pod"} {
			stored := &corev1.ConfigMap{}
			name = fmt.Sprintf("%s-%d", name, revision)
			found, err := migrate.Find(ctx, c, stored, o.namespace, name)
			if err != nil {
				return fmt.Errorf("reading ConfigMap %s/%s: %w", o.namespace, name, err)
			}
			if found && o.gates[revision] == nil {
				o.gates[revision] = map[string]bool{}
			}
			for _, text := range stored.Data {
				for gate, on := range gatesIn(text) {
					o.gates[revision][gate] = on
				}
			}
		}
	}
	return nil
}

// assignment matches a feature gate in the arguments of components.
var assignment = regexp.MustCompile(`\b(` + generalGate + `[A-Za-z]*)=(true|false)\b`)

// gatesIn returns the feature gates of CSI migration in the configuration of a component.
func gatesIn(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range assignment.FindAllStringSubmatch(text, -1) {
		found[match[1]] = match[2] == "true"
	}
	return found
}

func (o *observed) readPools(ctx context.Context, c client.Client) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfigPoolList"))
	if err := c.List(ctx, list); err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("listing MachineConfigPools: %w", err)
	}
	for _, item := range list.Items {
		pool := mcfgv1.MachineConfigPool{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &pool); err != nil {
			return fmt.Errorf("reading MachineConfigPool %s: %w", item.GetName(), err)
		}
		o.pools = append(o.pools, pool)
	}
	return nil
}

func (o *observed) readDrivers(ctx context.Context, c client.Client) error {
	for _, d := range plugins() {
		csiDriver, custom := &storagev1.CSIDriver{}, &operatorv1.ClusterCSIDriver{}
		installed, err := migrate.Find(ctx, c, csiDriver, "", d.CSIName)
		if err != nil {
			return fmt.Errorf("reading CSIDriver %s: %w", d.CSIName, err)
		}
		managed, err := migrate.Find(ctx, c, custom, "", d.CSIName)
		if err != nil {
			return fmt.Errorf("reading ClusterCSIDriver %s: %w", d.CSIName, err)
		}
		o.drivers[d.Name] = driverState{installed: installed, unavailable: whyUnavailable(d, installed, managed, custom.Status.Conditions)}
	}
	return nil
}

// whyUnavailable says why a driver is not available, or "".
func whyUnavailable(d drivers.Driver, installed, managed bool, conditions []operatorv1.OperatorCondition) string {
	switch {
	case !installed:
		return fmt.Sprintf("there is no CSIDriver %s", d.CSIName)
	case !managed:
		return fmt.Sprintf("there is no ClusterCSIDriver %s, which would say whether the driver is available", d.CSIName)
	}
	said := false
	for _, condition := range conditions {
		if !strings.HasSuffix(condition.Type, operatorv1.OperatorStatusTypeAvailable) {
			continue
		}
		if said = true; condition.Status != operatorv1.ConditionTrue {
			return fmt.Sprintf("condition %s of ClusterCSIDriver %s is %s, want True", condition.Type, d.CSIName, condition.Status)
		}
	}
	if !said {
		return fmt.Sprintf("ClusterCSIDriver %s has no condition that ends with Available", d.CSIName)
	}
	return ""
}

func (o *observed) readVolumes(ctx context.Context, c client.Client) error {
	volumes, attachments := &corev1.PersistentVolumeList{}, &storagev1.VolumeAttachmentList{}
	for _, list := range []client.ObjectList{volumes, attachments} {
		if err := c.List(ctx, list); err != nil {
			return fmt.Errorf("listing volumes: %w", err)
		}
	}
	of := map[string]string{} // the plugins of PersistentVolumes
	for i := range volumes.Items {
		plugin, err := pluginOf(&volumes.Items[i].Spec)
		if err != nil {
			return err
		}
		if plugin != "" {
			of[volumes.Items[i].Name] = plugin
			o.volumes[plugin] = append(o.volumes[plugin], volumes.Items[i].Name)
		}
	}
	for _, a := range attachments.Items {
		for _, d := range plugins() {
			switch source := a.Spec.Source; {
			case a.Spec.Attacher != d.CSIName:
			case source.PersistentVolumeName != nil && of[*source.PersistentVolumeName] == d.Name:
				o.attachments = append(o.attachments, attachment{a.Name, d.Name, *source.PersistentVolumeName, a.Spec.NodeName})
			case source.InlineVolumeSpec != nil: // only volumes of pods with in-tree sources have one
				o.attachments = append(o.attachments, attachment{a.Name, d.Name, "of a pod", a.Spec.NodeName})
			}
		}
	}
	return nil
}

// pluginOf returns the plugin whose in-tree source a PersistentVolume has, or "".
func pluginOf(spec *corev1.PersistentVolumeSpec) (string, error) {
	document, err := json.Marshal(spec.PersistentVolumeSource)
	if err != nil {
		return "", err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(document, &fields); err != nil {
		return "", err
	}
	for _, d := range plugins() {
		if _, has := fields[d.InTree.Source]; has {
			return d.Name, nil
		}
	}
	return "", nil
}
