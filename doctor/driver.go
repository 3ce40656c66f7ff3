package doctor

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/rollout"
	"github.com/berth-csi/berth/findings/escape"
	"github.com/berth-csi/berth/listing"
)

// manifests returns the objects of the driver, as they are named where it is; none if that is not known.
func (p *patient) manifests() ([]drivers.Manifest, error) {
	if p.driverErr != nil || p.custom == nil || p.placed.Namespace == "" {
		return nil, nil // an earlier section says why
	}
	return p.driver.Operand(drivers.Values{Namespace: p.placed.Namespace, Image: func(env string) string { return env }})
}

// credentialsRequestKind is the kind of what the cloud credential operator acts on.
var credentialsRequestKind = schema.GroupVersionKind{Group: "cloudcredential.openshift.io", Version: "v1", Kind: "CredentialsRequest"}

// examineCredentials examines what the cloud credential operator reports. It reads no Secret.
func examineCredentials(ctx context.Context, p *patient) ([]Result, error) {
	manifests, err := p.manifests()
	if err != nil {
		return nil, err
	}
	var results []Result
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

// judgeCredentials is about a CredentialsRequest. All its conditions report trouble. Whether credentials are needed at all depends on
// the cluster, and the operator says so in its conditions.
func judgeCredentials(request *unstructured.Unstructured) Result {
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
		return fail(credentialsRefused, describe, "CredentialsRequest %s has %s: %s", name, kind, explained(reason, message))
	}
	if provisioned, _, _ := unstructured.NestedBool(request.Object, "status", "provisioned"); !provisioned {
		return warn(credentialsNotProvisioned, "if credentials are manual, nothing; otherwise: "+describe, "CredentialsRequest %s is not provisioned", name)
	}
	return fine(credentialsFine, "CredentialsRequest %s is provisioned", name)
}

// examineWorkloads examines the driver's pods, and whether kubelets know the driver.
func examineWorkloads(ctx context.Context, p *patient) ([]Result, error) {
	manifests, err := p.manifests()
	if err != nil {
		return nil, err
	}
	var results []Result
	var nodes int32
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
			results = append(results, fail(daemonSetMissing, "see the operator and its conditions above: it creates the DaemonSet",
				"DaemonSet %s/%s does not exist", m.Object.GetNamespace(), m.Object.GetName()))
			continue
		}
		of, err := p.examineDaemonSet(ctx, set)
		if err != nil {
			return nil, err
		}
		results, nodes = append(results, of...), max(nodes, set.Status.DesiredNumberScheduled)
	}
	if nodes > 0 {
		missing, registered, err := p.registrations(ctx)
		if err != nil {
			return nil, err
		}
		tainted, err := p.tainted(ctx)
		if err != nil {
			return nil, err
		}
		results = append(results, judgeRegistrations(p.driver.CSIName, int(nodes), registered, missing))
		results = append(results, judgeTaints(startupTaintOf(p.driver.CSIName), tainted)...)
	}
	return results, nil
}

func (p *patient) examineDaemonSet(ctx context.Context, set *appsv1.DaemonSet) ([]Result, error) {
	status := set.Status
	w := workload{kind: "DaemonSet", namespace: set.Namespace, name: set.Name, available: status.NumberAvailable, updated: status.UpdatedNumberScheduled,
		want: status.DesiredNumberScheduled, observed: status.ObservedGeneration >= set.Generation}
	if !w.isComplete() {
		var err error
		if w.notReady, err = rollout.NotReady(ctx, p.Client, set); err != nil {
			return nil, err
		}
	}
	return p.examineWorkload(ctx, w, set.Spec.Selector)
}

// csiNode has what is read of a CSINode, in which the kubelet of a node lists the drivers that it knows.
type csiNode struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec storagev1.CSINodeSpec `json:"spec"`
}

// registrations counts the nodes whose kubelet knows the driver, and names the others.
func (p *patient) registrations(ctx context.Context) (missing []string, registered int, err error) {
	storage, err := p.rest(storagev1.SchemeGroupVersion)
	if err != nil {
		return nil, 0, err
	}
	err = listing.Each(ctx, storage, listing.List{Resource: "csinodes"}, func(node csiNode) error {
		if slices.ContainsFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == p.driver.CSIName }) {
			registered++
		} else {
			missing = append(missing, node.Metadata.Name)
		}
		return nil
	})
	return missing, registered, err
}

// judgeRegistrations is about the nodes on which pods of the driver should run. Others may lack the driver, too.
func judgeRegistrations(driver string, want, registered int, missing []string) Result {
	if registered >= want {
		return fine(registrationFine, "the kubelets of %d nodes know driver %s", registered, driver)
	}
	without := "" // a node of which no driver has ever registered has no CSINode
	if len(missing) > 0 {
		without = "; nodes without it: " + names(missing)
	}
	return fail(notRegistered, "look at the driver's pods on nodes without it: their container csi-node-driver-registrar registers the driver with the kubelet",
		"the kubelets of %d nodes know driver %s, want %d%s", registered, driver, want, without)
}

// startupTaintOf is the key of the taint with which administrators keep pods off new nodes until a driver runs there. Its makers
// chose the name.
func startupTaintOf(driver string) string { return driver + "/agent-not-ready" }

// node has what is read of a Node.
type node struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Taints []corev1.Taint `json:"taints"`
	} `json:"spec"`
}

// tainted names the nodes with the driver's startup taint.
func (p *patient) tainted(ctx context.Context) (names []string, err error) {
	core, err := p.rest(corev1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	key := startupTaintOf(p.driver.CSIName)
	err = listing.Each(ctx, core, listing.List{Resource: "nodes"}, func(n node) error {
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key }) {
			names = append(names, n.Metadata.Name)
		}
		return nil
	})
	return names, err
}

// judgeTaints is about nodes with a driver's startup taint. Only some drivers remove it, as that needs permission to change any Node.
func judgeTaints(key string, nodes []string) []Result {
	if len(nodes) == 0 {
		return nil
	}
	return []Result{warn(startupTaint, "if it stays although the driver runs on the node, remove it: "+escape.Command("oc adm taint nodes NODE %s", key+"-")+". Not every driver does",
		"nodes have the taint %s, which keeps pods off them: %s", key, names(nodes))}
}
