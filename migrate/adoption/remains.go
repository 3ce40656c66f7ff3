package adoption

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/predecessor"
	"github.com/berth-csi/berth/migrate"
)

// remains is the observed state that a cleanup is decided from. Missing objects are nil.
type remains struct {
	*input
	// journal is the journal of the adoption, and command the command that shows its progress.
	journal *migrate.Journal
	command string
	// unfinished says what the adoption still has to do or wait for; "" if it is complete.
	unfinished string
	// installed and installing are the ClusterServiceVersions and InstallPlans of the driver's package, in the namespaces where OLM
	// installs anything: for that, OLM needs OperatorGroups, which only administrators create.
	installed  []v1alpha1.ClusterServiceVersion
	installing []v1alpha1.InstallPlan
	// left is a remaining object of an operator that OLM ran, such as a pod, or "".
	left string
	// leftovers are the leftovers in the driver's definition, each with the object in the cluster.
	leftovers []leftover
	// customs are the custom resources that configured the operators, and definitions their APIs.
	customs     []custom
	definitions []definition
	// namespaces are the namespaces of operators that the definition names. namespaceExists reports whether the
	// namespace in the journal still exists.
	namespaces      []operatorNamespace
	namespaceExists bool

	// The possible users of these objects: all bindings, and the pods, workloads and Secrets in the driver's namespace.
	bindings []binding
	pods     []podUser
	secrets  map[string]*corev1.Secret
	// secretReferences are references from outside the driver's namespace to Secrets in it.
	secretReferences []secretReference
	// accounts are the present driver's service accounts, and permitted are the SecurityContextConstraints that roles permit.
	accounts  []string
	permitted map[rbacv1.RoleRef][]string
}

// leftover is an object that a predecessor made. object is nil if it does not exist.
type leftover struct {
	drivers.Leftover
	object *unstructured.Unstructured
}

// custom is an object that configured an operator. object is nil if it does not exist.
type custom struct {
	drivers.CustomResource
	object *unstructured.Unstructured
}

// definition is the API of such objects, with the names of the other objects of that API. object is nil if the API does not exist.
type definition struct {
	drivers.CustomResource
	object *unstructured.Unstructured
	others []string
}

// operatorNamespace is an operator's namespace, with the objects that are not the operator's. object is nil if it does not exist.
type operatorNamespace struct {
	name    string
	object  *corev1.Namespace
	content []string
}

// binding is a ClusterRoleBinding or a RoleBinding.
type binding struct {
	kind, namespace, name string
	subjects              []rbacv1.Subject
	role                  rbacv1.RoleRef
}

func (b binding) String() string { return named(b.kind, b.namespace, b.name) }

// named returns the name of an object with its kind.
func named(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}

// podUser is a pod or a workload.
type podUser struct {
	name string
	spec corev1.PodSpec
	// constraints are the SecurityContextConstraints by which a pod was admitted.
	constraints string
}

// secretReference is an object that refers to a Secret.
type secretReference struct{ from, namespace, name string }

// survey reads all that a cleanup is decided from. The content of the operator's namespaces takes a request for each kind of object, so it
// is only read if all is set, or if nothing else is left.
func (r Request) survey(ctx context.Context, cluster migrate.Cluster, all bool) (*remains, error) {
	in, err := observe(ctx, cluster, r)
	if err != nil {
		return nil, err
	}
	m := &remains{input: in, secrets: map[string]*corev1.Secret{}, permitted: map[rbacv1.RoleRef][]string{}}
	if m.journal, err = Adopt.FindJournal(ctx, cluster, r); err != nil {
		return nil, err
	}
	p := &Plan{Driver: r.Driver.Name, Outline: migrate.Outline{Subject: migrate.Subject{Name: r.Driver.CSIName}}}
	m.command = Adopt.Command(cluster, p, "status")
	state, err := p.Observe(ctx, cluster, &migrate.Journal{})
	if err != nil {
		return nil, err
	}
	if next, err := state.Next(); err != nil {
		m.unfinished = err.Error()
	} else if next.Step != "" {
		m.unfinished = next.Waits
	}
	for _, read := range []func(context.Context, client.Client) error{m.readBindings, m.readInstalled, m.readLeft, m.readCustoms, m.readLeftovers, m.readUsers, m.readReferences} {
		if err := read(ctx, cluster.Client); err != nil {
			return nil, err
		}
	}
	return m, m.readNamespaces(ctx, cluster, all)
}

// readBindings reads all bindings. Anybody may write RoleBindings of a megabyte: outside of the driver's namespace, it keeps only their
// roles.
func (m *remains) readBindings(ctx context.Context, c client.Client) error {
	ofCluster, ofNamespaces := &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}
	if err := eachPage(ctx, c, ofCluster, pageSize, func() {
		for _, b := range ofCluster.Items {
			m.bindings = append(m.bindings, binding{"ClusterRoleBinding", "", b.Name, b.Subjects, b.RoleRef})
		}
	}); err != nil {
		return err
	}
	return eachPage(ctx, c, ofNamespaces, pageOfStrangers, func() {
		for _, b := range ofNamespaces.Items {
			if b.Namespace != m.placed.Namespace {
				b.Subjects = nil
			}
			m.bindings = append(m.bindings, binding{"RoleBinding", b.Namespace, b.Name, b.Subjects, b.RoleRef})
		}
	})
}

func (m *remains) readInstalled(ctx context.Context, c client.Client) error {
	for _, namespace := range m.groups {
		versions, installPlans := &v1alpha1.ClusterServiceVersionList{}, &v1alpha1.InstallPlanList{}
		for _, list := range []client.ObjectList{versions, installPlans} {
			if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return fmt.Errorf("listing the objects of OLM in namespace %s: %w", namespace, err)
			}
		}
		for _, v := range versions.Items {
			if !v.IsCopied() && isVersion(m.driver, v) {
				m.installed = append(m.installed, v)
			}
		}
		for _, p := range installPlans.Items {
			if slices.ContainsFunc(p.Spec.ClusterServiceVersionNames, func(name string) bool { _, of := m.driver.VersionOf(name); return of }) {
				m.installing = append(m.installing, p)
			}
		}
	}
	return nil
}

// operators returns the namespaces where OLM ran operators: those in the definition, and the one in the journal.
func (m *remains) operators() []string {
	found := suggested(m.driver)
	if o := m.journaled(); o != nil {
		found = append(found, o.Namespace)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// suggested returns the dedicated namespaces that the predecessors' bundles suggested for their installation.
func suggested(d drivers.Driver) (found []string) {
	for _, p := range d.Predecessors() {
		if p.Namespace != "" {
			found = append(found, p.Namespace)
		}
	}
	return found
}

// journaled returns the operator that was handed over, or nil.
func (m *remains) journaled() *Operator {
	if m.journal == nil {
		return nil
	}
	return m.journal.Plan.(*Plan).Operator
}

func (m *remains) readLeft(ctx context.Context, c client.Client) error {
	for _, namespace := range m.operators() {
		gone, err := m.isGone(ctx, c, namespace)
		if err != nil {
			return err
		}
		if gone {
			continue
		}
		for _, p := range m.driver.Predecessors() {
			s := &state{driver: m.driver, plan: &Plan{Operator: &Operator{Namespace: namespace, Name: p.Operator}}}
			if err := s.readLeft(ctx, c); err != nil {
				return err
			}
			if s.left != "" {
				m.left = s.left
			}
		}
	}
	return nil
}

// isGone reports whether a namespace of an operator is gone, and the operator with it. A namespace with the journal's name but another UID
// counts as gone, as any user can create it.
func (m *remains) isGone(ctx context.Context, c client.Client, namespace string) (bool, error) {
	uid, err := migrate.NamespaceUID(ctx, c, namespace)
	if err != nil {
		return false, err
	}
	o := m.journaled()
	return uid == "" || o != nil && o.Namespace == namespace && o.NamespaceUID != uid, nil
}

// find reads an object of any kind.
func find(ctx context.Context, c client.Client, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	found, err := migrate.Find(ctx, c, object, namespace, name)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", named(kind.Kind, namespace, name), err)
	}
	if !found {
		return nil, nil
	}
	return object, nil
}

var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

func (m *remains) readCustoms(ctx context.Context, c client.Client) (err error) {
	for _, of := range m.driver.OldCustomResources() {
		d := definition{CustomResource: of}
		if d.object, err = find(ctx, c, definitionKind, "", of.Definition); err != nil {
			return err
		}
		if d.object == nil {
			continue
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(of.Kind.GroupVersion().WithKind(of.Kind.Kind + "List"))
		if err := c.List(ctx, list); err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("listing the objects of %s: %w", of.Definition, err)
		}
		for _, object := range list.Items {
			if object.Name != of.Name {
				d.others = append(d.others, object.Name)
			}
		}
		m.definitions = append(m.definitions, d)
		object, err := find(ctx, c, of.Kind, "", of.Name)
		if err != nil {
			return err
		}
		m.customs = append(m.customs, custom{of, object})
	}
	return nil
}

func (m *remains) readLeftovers(ctx context.Context, c client.Client) error {
	if m.placed.Refusal != nil { // a check refuses
		return nil
	}
	leftovers, err := m.driver.Leftovers(m.placed.Namespace)
	if err != nil {
		return err
	}
	for _, l := range leftovers {
		object, err := find(ctx, c, l.Kind, l.Namespace, l.Name)
		if err != nil {
			return err
		}
		m.leftovers = append(m.leftovers, leftover{l, object})
	}
	manifests, err := m.driver.Operand(drivers.Values{Namespace: m.placed.Namespace, Image: func(env string) string { return env }})
	if err != nil {
		return err
	}
	for _, account := range drivers.OfKind(manifests, "ServiceAccount") {
		m.accounts = append(m.accounts, account.Object.GetName())
	}
	return m.readPermitted(ctx, c)
}

// readPermitted reads which SecurityContextConstraints are permitted by the roles that leftover bindings refer to.
func (m *remains) readPermitted(ctx context.Context, c client.Client) error {
	for _, b := range m.bindings {
		if b.role.Kind != "ClusterRole" || !slices.ContainsFunc(m.leftovers, func(l leftover) bool { return l.Kind.Kind == b.kind && l.Namespace == b.namespace && l.Name == b.name }) {
			continue
		}
		role := &rbacv1.ClusterRole{}
		if _, err := migrate.Find(ctx, c, role, "", b.role.Name); err != nil {
			return fmt.Errorf("reading ClusterRole %s: %w", b.role.Name, err)
		}
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "securitycontextconstraints") || slices.Contains(rule.Resources, rbacv1.ResourceAll) {
				m.permitted[b.role] = append(m.permitted[b.role], rule.ResourceNames...)
				if len(rule.ResourceNames) == 0 {
					m.permitted[b.role] = append(m.permitted[b.role], rbacv1.ResourceAll)
				}
			}
		}
	}
	return nil
}

// readUsers reads the possible users of accounts and Secrets of the driver's namespace.
func (m *remains) readUsers(ctx context.Context, c client.Client) error {
	if m.placed.Refusal != nil {
		return nil
	}
	pods, deployments, daemonSets, statefulSets, jobs, secrets :=
		&corev1.PodList{}, &appsv1.DeploymentList{}, &appsv1.DaemonSetList{}, &appsv1.StatefulSetList{}, &batchv1.CronJobList{}, &corev1.SecretList{}
	for _, list := range []client.ObjectList{pods, deployments, daemonSets, statefulSets, jobs, secrets} {
		if err := c.List(ctx, list, client.InNamespace(m.placed.Namespace)); err != nil {
			return fmt.Errorf("listing what is in namespace %s: %w", m.placed.Namespace, err)
		}
	}
	add := func(kind string, object metav1.Object, spec corev1.PodSpec, constraints string) {
		m.pods = append(m.pods, podUser{named(kind, object.GetNamespace(), object.GetName()), spec, constraints})
	}
	for _, p := range pods.Items {
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			add("pod", &p, p.Spec, p.Annotations["openshift.io/scc"])
		}
	}
	for _, w := range deployments.Items {
		add("Deployment", &w, w.Spec.Template.Spec, "")
	}
	for _, w := range daemonSets.Items {
		add("DaemonSet", &w, w.Spec.Template.Spec, "")
	}
	for _, w := range statefulSets.Items {
		add("StatefulSet", &w, w.Spec.Template.Spec, "")
	}
	for _, w := range jobs.Items {
		add("CronJob", &w, w.Spec.JobTemplate.Spec.Template.Spec, "")
	}
	for i := range secrets.Items {
		m.secrets[secrets.Items[i].Name] = &secrets.Items[i]
	}
	return nil
}

// pageSize is the number of objects in one page of a list that may be very long, and pageOfStrangers in one page of objects that any user, or
// somebody who administers storage alone, may have made very large.
const pageSize, pageOfStrangers = 500, 50

// readReferences reads the references to Secrets of the driver's namespace from outside it: in volumes, snapshots, and
// their classes.
func (m *remains) readReferences(ctx context.Context, c client.Client) error {
	volumes := &corev1.PersistentVolumeList{}
	if err := eachPage(ctx, c, volumes, pageSize, func() {
		for _, v := range volumes.Items {
			from := "PersistentVolume " + v.Name
			if csi := v.Spec.CSI; csi != nil {
				for _, r := range []*corev1.SecretReference{csi.ControllerPublishSecretRef, csi.ControllerExpandSecretRef, csi.NodeStageSecretRef, csi.NodePublishSecretRef, csi.NodeExpandSecretRef} {
					if r != nil {
						m.refer(from, r.Namespace, r.Name)
					}
				}
			}
			m.referBy(from, v.Annotations)
		}
	}); err != nil {
		return err
	}
	classes := &storagev1.StorageClassList{}
	if err := eachPage(ctx, c, classes, pageOfStrangers, func() {
		for _, class := range classes.Items {
			m.referBy("StorageClass "+class.Name, class.Parameters)
		}
	}); err != nil {
		return err
	}
	for _, kind := range []string{"VolumeSnapshotClass", "VolumeSnapshotContent"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: kind + "List"})
		err := eachPage(ctx, c, list, pageOfStrangers, func() {
			for _, object := range list.Items {
				parameters, _, _ := unstructured.NestedStringMap(object.Object, "parameters")
				m.referBy(kind+" "+object.GetName(), parameters)
				m.referBy(kind+" "+object.GetName(), object.GetAnnotations())
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachPage lists objects in pages of a given size, and calls a function for each page.
func eachPage(ctx context.Context, c client.Client, list client.ObjectList, size int64, read func()) error {
	for token := ""; ; {
		err := c.List(ctx, list, client.Limit(size), client.Continue(token))
		if meta.IsNoMatchError(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a page of %T: %w", list, err)
		}
		read()
		if token = list.GetContinue(); token == "" {
			return nil
		}
	}
}

func (m *remains) refer(from, namespace, name string) {
	if namespace == m.placed.Namespace {
		m.secretReferences = append(m.secretReferences, secretReference{from, namespace, name})
	}
}

// referBy adds the references in parameters or annotations, in pairs of keys such as
// csi.storage.k8s.io/provisioner-secret-name and csi.storage.k8s.io/provisioner-secret-namespace.
func (m *remains) referBy(from string, parameters map[string]string) {
	for key, name := range parameters {
		if begin, is := strings.CutSuffix(key, "secret-name"); is {
			m.refer(from, parameters[begin+"secret-namespace"], name)
		}
	}
}

// isOperator reports whether an account may belong to an operator that OLM ran, and not to the operator that the cluster storage operator
// runs.
func isOperator(d drivers.Driver, namespace, account string) bool {
	return predecessor.IsOperator(d, account) && !(namespace == drivers.ClusterStorageNamespace && account == d.Operator.Name)
}
