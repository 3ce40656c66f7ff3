package adoption

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/findings"
)

// A judgement says whether an object that an operator left can be deleted. Exactly one of proof, use and stays is set.
type judgement struct {
	// proof says why nothing needs the object.
	proof string
	// use says what uses the object, and do says what to do about it.
	use, do string
	// stays says why the object stays: it does not belong to the operator alone.
	stays string
}

func unused(proof string, args ...any) judgement {
	return judgement{proof: fmt.Sprintf(proof, args...)}
}
func used(do, use string, args ...any) judgement {
	return judgement{use: fmt.Sprintf(use, args...), do: do}
}
func stays(why string, args ...any) judgement { return judgement{stays: fmt.Sprintf(why, args...)} }

// untilUpdated is the advice if pods of the former driver run.
const untilUpdated = "wait until it has ended; if its node is lost, delete its Node object"

// judge returns whether a leftover can be deleted.
func (m *remains) judge(l leftover) judgement {
	switch l.Kind.Kind {
	case "ServiceAccount":
		return m.judgeAccount(l)
	case "ClusterRoleBinding", "RoleBinding":
		return m.judgeBinding(l)
	case "ClusterRole", "Role":
		return m.judgeRole(l)
	case drivers.SecurityContextConstraintsKind.Kind:
		return m.judgeConstraints(l)
	case drivers.CredentialsRequestKind.Kind:
		return m.judgeRequest(l)
	case "ConfigMap":
		return m.judgeConfigMap(l)
	}
	return stays("nobody knows what may use an object of its kind")
}

func (m *remains) judgeAccount(l leftover) judgement {
	if pod := m.runsWith(l.Name); pod != "" {
		return used(untilUpdated, "%s runs with it", pod)
	}
	for name, secret := range m.secrets { // the account's tokens are deleted with it
		if secret.Type != corev1.SecretTypeServiceAccountToken || secret.Annotations[corev1.ServiceAccountNameKey] != l.Name {
			continue
		}
		if by := m.usesSecret(name); by != "" {
			return used("give that another Secret", "%s uses its token, Secret %s", by, name)
		}
	}
	return unused("no pod runs with it, and no workload would")
}

// runsWith returns a pod or a workload that runs as a service account of the driver's namespace, or "".
func (m *remains) runsWith(account string) string {
	for _, p := range m.pods {
		if p.spec.ServiceAccountName == account || p.spec.DeprecatedServiceAccount == account {
			return p.name
		}
	}
	return ""
}

// judgeAccounts returns why service accounts that an object names need the object, or which of them is not the driver's. Accounts that
// the present driver also has get their permissions from objects of its definition.
func (m *remains) judgeAccounts(accounts []drivers.Account) judgement {
	for _, a := range accounts {
		if a.Namespace != m.placed.Namespace || !m.isAccount(a.Name) && !m.isFormerAccount(a.Name) {
			return stays("it also names service account %s/%s, which is none of the driver's", a.Namespace, a.Name)
		}
		if m.isAccount(a.Name) {
			continue
		}
		if pod := m.runsWith(a.Name); pod != "" {
			return used(untilUpdated, "%s runs with service account %s", pod, a.Name)
		}
	}
	return judgement{}
}

// isFormerAccount reports whether only the former driver had a service account.
func (m *remains) isFormerAccount(name string) bool {
	return slices.ContainsFunc(m.leftovers, func(l leftover) bool { return l.Kind.Kind == "ServiceAccount" && l.Name == name })
}

// isAccount reports whether the present driver has a service account.
func (m *remains) isAccount(name string) bool { return slices.Contains(m.accounts, name) }

func (m *remains) judgeBinding(l leftover) judgement {
	i := slices.IndexFunc(m.bindings, func(b binding) bool { return b.kind == l.Kind.Kind && b.namespace == l.Namespace && b.name == l.Name })
	if i < 0 {
		return used("run the same command again", "it has just been created")
	}
	b := m.bindings[i]
	var accounts []drivers.Account
	for _, s := range b.subjects {
		if s.Kind != rbacv1.ServiceAccountKind {
			return stays("it also names %s %s", s.Kind, s.Name)
		}
		accounts = append(accounts, drivers.Account{Namespace: s.Namespace, Name: s.Name})
	}
	if j := m.judgeAccounts(accounts); j != (judgement{}) {
		return j
	}
	current := slices.DeleteFunc(accounts, func(a drivers.Account) bool { return !m.isAccount(a.Name) })
	for _, a := range current {
		for _, p := range m.pods {
			permitted := m.permitted[b.role]
			if p.spec.ServiceAccountName == a.Name && p.constraints != "" && (slices.Contains(permitted, p.constraints) || slices.Contains(permitted, rbacv1.ResourceAll)) {
				return used(untilUpdated, "%s was admitted by SecurityContextConstraints %s, which it permits", p.name, p.constraints)
			}
		}
	}
	if len(current) > 0 {
		return unused("the driver's pods have all their permissions from other bindings")
	}
	return unused("no pod runs with the service accounts that it names")
}

func (m *remains) judgeRole(l leftover) judgement {
	for _, b := range m.bindings {
		isOf := b.role.Kind == l.Kind.Kind && b.role.Name == l.Name && (l.Kind.Kind == "ClusterRole" || b.namespace == l.Namespace)
		if !isOf {
			continue
		}
		i := slices.IndexFunc(m.leftovers, func(o leftover) bool {
			return o.object != nil && o.Kind.Kind == b.kind && o.Namespace == b.namespace && o.Name == b.name
		})
		if i < 0 {
			return stays("%s refers to it", b)
		}
		switch j := m.judge(m.leftovers[i]); {
		case j.stays != "":
			return stays("%s refers to it, and stays", b)
		case j.use != "":
			return used(j.do, "%s refers to it, and %s", b, j.use)
		}
	}
	return unused("no binding refers to it but what goes, too")
}

func (m *remains) judgeConstraints(l leftover) judgement {
	if groups, _, _ := unstructured.NestedStringSlice(l.object.Object, "groups"); len(groups) > 0 {
		return stays("it also names the groups %s", strings.Join(groups, ", "))
	}
	users, _, _ := unstructured.NestedStringSlice(l.object.Object, "users")
	accounts := drivers.AccountsIn(l.object)
	if len(accounts) != len(users) {
		return stays("it also names users that are no service accounts")
	}
	if j := m.judgeAccounts(accounts); j != (judgement{}) {
		return j
	}
	for _, p := range m.pods {
		if p.constraints == l.Name {
			return used(untilUpdated, "%s was admitted by it", p.name)
		}
	}
	return unused("no pod runs with the service accounts that it names, and none was admitted by it")
}

func (m *remains) judgeRequest(l leftover) judgement {
	namespace, _, _ := unstructured.NestedString(l.object.Object, "spec", "secretRef", "namespace")
	name, _, _ := unstructured.NestedString(l.object.Object, "spec", "secretRef", "name")
	if namespace != m.placed.Namespace || name != l.Credentials.Secret {
		return stays("it requests Secret %s/%s, and not %s/%s as the former operator's did", namespace, name, m.placed.Namespace, l.Credentials.Secret)
	}
	if by := m.usesSecret(name); by != "" {
		return used("give that other credentials, or wait until it is gone", "%s uses Secret %s, which has its credentials", by, name)
	}
	proof := fmt.Sprintf("no pod, volume, snapshot or class uses Secret %s, which has its credentials", name)
	if l.Credentials.Copy == "" {
		return unused("%s", proof)
	}
	if copied := m.secrets[l.Credentials.Copy]; copied != nil {
		var keys []string
		for _, key := range l.Credentials.Keys {
			if _, has := copied.Data[key]; has {
				keys = append(keys, key)
			}
		}
		if len(keys) > 0 {
			return used("wait until the driver's operator has removed these keys, which it does when all the driver's pods are up to date; or see "+findings.Page("move/adopt.md#clean-up"),
				"Secret %s, which volumes refer to, has a copy of its credentials in the keys %s", l.Credentials.Copy, strings.Join(keys, ", "))
		}
	}
	return unused("%s, and Secret %s has no copy of them", proof, l.Credentials.Copy)
}

func (m *remains) judgeConfigMap(l leftover) judgement {
	for _, p := range m.pods {
		if _, configMaps := configurationOf(p.spec); slices.Contains(configMaps, l.Name) {
			return used(untilUpdated, "%s uses it", p.name)
		}
	}
	return unused("no pod uses it, and no workload would")
}

// usesSecret returns an object that uses a Secret of the driver's namespace, or "".
func (m *remains) usesSecret(name string) string {
	for _, p := range m.pods {
		if secrets, _ := configurationOf(p.spec); slices.Contains(secrets, name) {
			return p.name
		}
	}
	for _, r := range m.secretReferences {
		if r.name == name {
			return r.from
		}
	}
	return ""
}

// configurationOf returns the Secrets and the ConfigMaps that a pod uses.
func configurationOf(spec corev1.PodSpec) (secrets, configMaps []string) {
	for _, s := range spec.ImagePullSecrets {
		secrets = append(secrets, s.Name)
	}
	for _, v := range spec.Volumes {
		sources := []corev1.VolumeProjection{}
		if v.Projected != nil {
			sources = v.Projected.Sources
		}
		if v.Secret != nil {
			secrets = append(secrets, v.Secret.SecretName)
		}
		if v.ConfigMap != nil {
			configMaps = append(configMaps, v.ConfigMap.Name)
		}
		if v.CSI != nil && v.CSI.NodePublishSecretRef != nil {
			secrets = append(secrets, v.CSI.NodePublishSecretRef.Name)
		}
		for _, s := range sources {
			if s.Secret != nil {
				secrets = append(secrets, s.Secret.Name)
			}
			if s.ConfigMap != nil {
				configMaps = append(configMaps, s.ConfigMap.Name)
			}
		}
	}
	containers := slices.Concat(spec.InitContainers, spec.Containers)
	for _, c := range spec.EphemeralContainers {
		containers = append(containers, corev1.Container(c.EphemeralContainerCommon))
	}
	for _, c := range containers {
		for _, from := range c.EnvFrom {
			if from.SecretRef != nil {
				secrets = append(secrets, from.SecretRef.Name)
			}
			if from.ConfigMapRef != nil {
				configMaps = append(configMaps, from.ConfigMapRef.Name)
			}
		}
		for _, env := range c.Env {
			switch from := env.ValueFrom; {
			case from == nil:
			case from.SecretKeyRef != nil:
				secrets = append(secrets, from.SecretKeyRef.Name)
			case from.ConfigMapKeyRef != nil:
				configMaps = append(configMaps, from.ConfigMapKeyRef.Name)
			}
		}
	}
	return secrets, configMaps
}

// judgeCustom returns whether the object that configured an operator can be deleted.
func judgeCustom(c custom) judgement {
	for _, finalizer := range c.object.GetFinalizers() {
		if finalizer != c.Finalizer {
			return used("find out who has set it", "it has finalizer %s, which is not the operator's", finalizer)
		}
	}
	if len(c.object.GetFinalizers()) > 0 {
		return unused("no operator is left that reads it; its finalizer is removed first, so that nothing is done because of it")
	}
	return unused("no operator is left that reads it, and it has no finalizer")
}

// judgeDefinition returns whether an API of the operators can be deleted.
func (m *remains) judgeDefinition(d definition) judgement {
	for _, v := range m.installed {
		if owns(v, d.Definition) {
			return used("find out who has installed that", "ClusterServiceVersion %s/%s owns it", v.Namespace, v.Name)
		}
	}
	if len(d.others) > 0 {
		return stays("there are other objects of it: %s", strings.Join(d.others, ", "))
	}
	return unused("no operator owns it, and all its objects are deleted, too")
}

// judgeNamespace returns whether the namespace of an operator can be deleted.
func (m *remains) judgeNamespace(n operatorNamespace) judgement {
	o := m.journaled()
	switch {
	case n.name == m.placed.Namespace || n.name == drivers.ClusterStorageNamespace:
		return stays("the driver is in it")
	case o != nil && o.Namespace == n.name && o.NamespaceUID != n.object.UID:
		return stays("it was created after the hand-over: its UID is %s, and was %s", n.object.UID, o.NamespaceUID)
	case len(n.content) > 0:
		return stays("there is something else in it: %s", strings.Join(n.content[:min(len(n.content), 5)], ", "))
	}
	return unused("nothing is in it but the former operator's OperatorGroup and CatalogSource, and what each namespace has")
}
