package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/rollout"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/listing"
)

// manifests returns the objects of the driver, rendered for its namespace, or nil if the namespace is not known.
func (p *examinedDriver) manifests() ([]drivers.Manifest, error) {
	if p.driverErr != nil || p.custom == nil || p.decision.Namespace == "" {
		return nil, nil // an earlier section says why
	}
	return p.driver.Operand(drivers.Values{Namespace: p.decision.Namespace, Image: func(env string) string { return env }})
}

// credentialsRequestKind is the kind of objects that the cloud credential operator reconciles.
var credentialsRequestKind = schema.GroupVersionKind{Group: "cloudcredential.openshift.io", Version: "v1", Kind: "CredentialsRequest"}

// examineCredentials examines the reports of the cloud credential operator. It reads no Secret.
func examineCredentials(ctx context.Context, p *examinedDriver) ([]findings.Check, error) {
	manifests, err := p.manifests()
	if err != nil {
		return nil, err
	}
	var results []findings.Check
	for _, m := range drivers.OfKind(manifests, credentialsRequestKind.Kind) {
		request := &unstructured.Unstructured{}
		request.SetGroupVersionKind(credentialsRequestKind)
		exists, err := p.read(ctx, request, m.Object.GetNamespace(), m.Object.GetName())
		if err != nil {
			return nil, err
		}
		if exists {
			results = append(results, judgeCredentials(request))
		}
	}
	return results, nil
}

// judgeCredentials judges a CredentialsRequest. Each of its conditions reports trouble if it is true. The operator's conditions say whether
// the cluster needs credentials at all.
func judgeCredentials(request *unstructured.Unstructured) findings.Check {
	name := request.GetNamespace() + "/" + request.GetName()
	describe := escape.Command("oc -n %s describe credentialsrequest %s", request.GetNamespace(), request.GetName())
	conditions, _, _ := unstructured.NestedSlice(request.Object, "status", "conditions")
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		status, _ := c["status"].(string)
		if status != "True" {
			continue
		}
		kind, _ := c["type"].(string)
		reason, _ := c["reason"].(string)
		message, _ := c["message"].(string)
		return findings.Fail(credentialsRefused, describe, "CredentialsRequest %s has %s: %s", name, kind, explained(reason, message))
	}
	if provisioned, _, _ := unstructured.NestedBool(request.Object, "status", "provisioned"); !provisioned {
		return findings.Warn(credentialsNotProvisioned, "if credentials are manual, nothing; otherwise: "+describe, "CredentialsRequest %s is not provisioned", name)
	}
	return findings.Pass(credentialsFine, "CredentialsRequest %s is provisioned", name)
}

// examineWorkloads examines the driver's pods, and whether kubelets know the driver.
func examineWorkloads(ctx context.Context, p *examinedDriver) ([]findings.Check, error) {
	manifests, err := p.manifests()
	if err != nil {
		return nil, err
	}
	var results []findings.Check
	var sets []*appsv1.DaemonSet
	for _, m := range drivers.OfKind(manifests, "Deployment") {
		of, err := p.examineDeployment(ctx, m.Object.GetNamespace(), m.Object.GetName())
		if err != nil {
			return nil, err
		}
		results = append(results, of...)
	}
	for _, m := range drivers.OfKind(manifests, "DaemonSet") {
		set := &appsv1.DaemonSet{}
		exists, err := p.read(ctx, set, m.Object.GetNamespace(), m.Object.GetName())
		if err != nil {
			return nil, err
		}
		if !exists {
			results = append(results, findings.Fail(daemonSetMissing, "see the operator and its conditions above: it creates the DaemonSet",
				"DaemonSet %s/%s does not exist", m.Object.GetNamespace(), m.Object.GetName()))
			continue
		}
		of, err := p.examineDaemonSet(ctx, set)
		if err != nil {
			return nil, err
		}
		results, sets = append(results, of...), append(sets, set)
	}
	of, err := p.examineNodes(ctx, sets)
	return append(results, of...), err
}

// examineNodes examines whether kubelets know the driver, and whether pods may use the nodes where it runs.
func (p *examinedDriver) examineNodes(ctx context.Context, sets []*appsv1.DaemonSet) ([]findings.Check, error) {
	var want int32
	for _, set := range sets {
		want = max(want, set.Status.DesiredNumberScheduled)
	}
	if want == 0 {
		return nil, nil
	}
	tainted, reporting, err := p.nodes(ctx)
	if err != nil {
		return nil, err
	}
	r, err := p.registrations(ctx)
	if err != nil {
		return nil, err
	}
	r.want, r.registrar = int(want), registrarOf(sets)
	if len(r.known) < r.want && len(reporting) > 0 {
		if r.reported, err = p.scheduledOn(ctx, sets, reporting); err != nil {
			return nil, err
		}
	}
	return append([]findings.Check{r.judge(p.driver.CSIName)}, judgeTaints(startupTaintOf(p.driver.CSIName), tainted)...), nil
}

// registrarOf returns the container of a driver's DaemonSets that registers it with the kubelet. Its name differs between drivers.
func registrarOf(sets []*appsv1.DaemonSet) string {
	for _, set := range sets {
		for _, container := range set.Spec.Template.Spec.Containers {
			if strings.HasSuffix(container.Name, "driver-registrar") {
				return container.Name
			}
		}
	}
	return "node-driver-registrar"
}

func (p *examinedDriver) examineDaemonSet(ctx context.Context, set *appsv1.DaemonSet) ([]findings.Check, error) {
	status := set.Status
	w := workload{kind: "DaemonSet", namespace: set.Namespace, name: set.Name, available: status.NumberAvailable, updated: status.UpdatedNumberScheduled,
		want: status.DesiredNumberScheduled, observed: status.ObservedGeneration >= set.Generation}
	if !w.isComplete() {
		var err error
		if w.notReady, err = rollout.NotReady(ctx, p.Client, set); err != nil {
			return nil, err
		}
	}
	if status.CurrentNumberScheduled < status.DesiredNumberScheduled {
		core, err := p.rest(corev1.SchemeGroupVersion)
		if err != nil {
			return nil, err
		}
		if w.refused, err = rollout.LastRefusal(ctx, core, set, time.Now()); err != nil {
			return nil, err
		}
	}
	return p.examineWorkload(ctx, w, set.Spec.Selector)
}

// csiNode holds the fields of a CSINode that are read. In it, a node's kubelet lists its registered drivers.
type csiNode struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec storagev1.CSINodeSpec `json:"spec"`
}

// registrations says which nodes' kubelets know a driver.
type registrations struct {
	want  int      // the number of nodes that pods of the driver should run on
	known []string // the nodes whose kubelet knows the driver
	// missing are the other nodes. The driver need not run on all of them.
	missing []string
	// registrar is the container that registers the driver with the kubelet.
	registrar string
	// reported are the nodes without a runtime, where the driver's pods are only reported as running.
	reported []string
}

// registrations finds the nodes whose kubelet knows the driver, and the other nodes.
func (p *examinedDriver) registrations(ctx context.Context) (r registrations, err error) {
	err = each(ctx, p.Cluster, storagev1.SchemeGroupVersion, listing.List{Resource: "csinodes"}, func(node csiNode) error {
		if slices.ContainsFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == p.driver.CSIName }) {
			r.known = append(r.known, node.Metadata.Name)
		} else {
			r.missing = append(r.missing, node.Metadata.Name)
		}
		return nil
	})
	return r, err
}

// scheduledOn returns the nodes among the given ones that have pods of the DaemonSets.
func (p *examinedDriver) scheduledOn(ctx context.Context, sets []*appsv1.DaemonSet, nodes []string) ([]string, error) {
	var on []string
	for _, set := range sets {
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		if err != nil {
			return nil, fmt.Errorf("selector of DaemonSet %s/%s: %w", set.Namespace, set.Name, err)
		}
		if err := each(ctx, p.Cluster, corev1.SchemeGroupVersion, listing.List{Resource: "pods", Namespace: set.Namespace, Labels: selector.String()}, func(of pod) error {
			if slices.Contains(nodes, of.Spec.NodeName) {
				on = append(on, of.Spec.NodeName)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	slices.Sort(on)
	return slices.Compact(on), nil
}

// judge judges the nodes on which pods of the driver should run. The other nodes may lack the driver.
func (r registrations) judge(driver string) findings.Check {
	if len(r.known) >= r.want {
		return findings.Pass(registrationFine, "the kubelets of %s know driver %s", number(len(r.known), "node"), driver)
	}
	reported := slices.DeleteFunc(slices.Clone(r.reported), func(node string) bool { return slices.Contains(r.known, node) })
	if want := r.want - len(reported); len(r.known) < want {
		without := "" // a node on which no driver has ever registered has no CSINode
		if len(r.missing) > 0 {
			without = "; nodes without it: " + names(r.missing)
		}
		return findings.Fail(notRegistered, "look at the driver's pods on nodes without it: their container "+r.registrar+" registers the driver with the kubelet",
			"the kubelets of %s know driver %s, want %d%s", number(len(r.known), "node"), driver, want, without)
	}
	these := "these nodes"
	if len(reported) == 1 {
		these = "this node"
	}
	return findings.Check{
		Code: registrationNotExamined, Verdict: findings.NotExamined, What: fmt.Sprintf("not examined: pods of %s are reported, not run: %s", these, names(reported)),
		Do: "nothing, if that is how they should be; a kubelet can know the driver only where its pods run",
	}
}

// startupTaintOf returns the key of the taint by which administrators keep pods off new nodes until a driver runs there. The driver's
// authors chose the suffix.
func startupTaintOf(driver string) string { return driver + "/agent-not-ready" }

// node holds the fields of a Node that are read.
type node struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Taints []corev1.Taint `json:"taints"`
	} `json:"spec"`
	Status struct {
		NodeInfo struct {
			ContainerRuntimeVersion string `json:"containerRuntimeVersion"`
		} `json:"nodeInfo"`
	} `json:"status"`
}

// withoutRuntime is the runtime version of nodes that report containers as running without running them, as in Berth's own test
// clusters. A real kubelet always gives the name and version of a runtime, such as cri-o://1.33.2.
const withoutRuntime = "process://"

// nodes names the nodes with the driver's startup taint, and the nodes without a container runtime.
func (p *examinedDriver) nodes(ctx context.Context) (tainted, reporting []string, err error) {
	key := startupTaintOf(p.driver.CSIName)
	err = each(ctx, p.Cluster, corev1.SchemeGroupVersion, listing.List{Resource: "nodes"}, func(n node) error {
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key }) {
			tainted = append(tainted, n.Metadata.Name)
		}
		if n.Status.NodeInfo.ContainerRuntimeVersion == withoutRuntime {
			reporting = append(reporting, n.Metadata.Name)
		}
		return nil
	})
	return tainted, reporting, err
}

// judgeTaints judges nodes with a driver's startup taint. Only some drivers remove it, because that needs permission to change any
// Node.
func judgeTaints(key string, nodes []string) []findings.Check {
	if len(nodes) == 0 {
		return nil
	}
	return []findings.Check{findings.Warn(startupTaint, "if it stays although the driver runs on the node, remove it: "+escape.Command("oc adm taint nodes NODE %s", key+"-")+". Not every driver does",
		"nodes have the taint %s, which keeps pods off them: %s", key, names(nodes))}
}
