package olmv1_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/migrate/move"
	"github.com/berth-csi/berth/olm/featuregates"
	"github.com/berth-csi/berth/olm/refusal"
)

// shape is an operator that OLM v0 has installed.
type shape struct {
	trap
	// named is the name of its only version, if it is not the package's with the number.
	named string
	// targets are the namespaces that it watches; none are all.
	targets []string
	// account is the service account by which OLM v0 installs it; "" is its own.
	account string
	// change changes the Subscription.
	change func(*v1alpha1.SubscriptionSpec)
	// starting is the version that the Subscription starts at; OLM v0 updates it from there.
	starting string
	// waiting says that the update to the last version waits for approval.
	waiting bool
	// prepare, which may be nil, changes the cluster once OLM v0 has installed it.
	prepare func(*testing.T, *mover)
	// refused is the code of the check that refuses to move it; "" if it is moved there and back.
	refused string
	// accepts is the code of a check that refuses to move it unless that is accepted.
	accepts string
	// public says that nobody knows whether it is refused.
	public bool
	// often says that the tool is killed before and after each of its writes, and kill at which write it is killed alone.
	often bool
	kill  *kill
	// provider says that nobody subscribes to it: OLM v0 installs it for another one.
	provider bool
	// asks is the package to move, if it is another one of the namespace.
	asks string
	// restarts are the moves at which the operator's own pods restart, and nothing else changes.
	restarts []move.Target
}

func moved(name string, change func(*parts)) *shape { return &shape{trap: *one(name, change)} }

// installed is the version that OLM v0 installs in the end.
func (s *shape) installed() bundle {
	if s.waiting {
		return s.bundles[0]
	}
	return s.bundles[len(s.bundles)-1]
}

func (s *shape) versionName() string {
	return cmp.Or(s.named, s.name+".v"+strings.ReplaceAll(s.installed().version, "+", "-"))
}

// catalog returns the part of a catalog that is the shape's package, with images that do not exist.
func (s *shape) catalog() declcfg.DeclarativeConfig {
	config := s.trap.catalog()
	if s.named != "" {
		config.Bundles[0].Name = s.named
		for i := range config.Channels {
			config.Channels[i].Entries[0].Name = s.named
		}
	}
	return config
}

// read returns the shape's catalog.
func (s *shape) read(t *testing.T) *fbc.Catalog {
	t.Helper()
	return load(t, s.catalog())
}

// targeted is an operator that watches these namespaces.
func targeted(name string, modes []v1alpha1.InstallModeType, targets ...string) *shape {
	s := moved(name, func(p *parts) { p.modes(modes...) })
	s.targets = targets
	return s
}

// shapes are the operators that are moved, or refused.
func shapes(gates featuregates.Set) []*shape {
	refusedAs := func(code string, s *shape) *shape {
		s.refused = code
		return s
	}
	required := func(name string, properties ...property.Property) *shape {
		s := moved(name, nil)
		s.bundles[0].properties = properties
		return refusedAs(string(refusal.Dependency), s)
	}
	oar := moved("move-oar", nil)
	oar.provider = true
	provided := required("move-needs-oar", property.MustBuildPackageRequired("move-oar", ">0.0.0"))
	provided.asks, provided.refused = "move-oar", "dependents"
	webhooks := moved("move-validating", func(p *parts) { p.webhook(validating, "boats.movevalidating.example.com", nil) })
	mutators := moved("move-mutating", func(p *parts) { p.webhook(mutating, "boats.movemutating.example.com", nil) })
	for _, s := range []*shape{webhooks, mutators} {
		s.restarts = []move.Target{move.ToV1, move.ToV0} // with another certificate
		if gates[featuregates.CertManager] {
			s.refused = string(refusal.API) // the cluster does not serve cert-manager's APIs
		}
	}
	own := targeted("move-own", []v1alpha1.InstallModeType{allNamespaces, ownNamespace}, "move-own")
	ownOnly := targeted("move-own-only", []v1alpha1.InstallModeType{ownNamespace}, "move-own-only")
	single := targeted("move-single", []v1alpha1.InstallModeType{ownNamespace, singleNamespace}, "move-single-watched")
	if !gates[featuregates.SingleOwnNamespace] {
		own.refused, ownOnly.refused, single.refused = "operator-group", "operator-group", "operator-group"
	}
	limited := moved("move-account", nil)
	limited.account, limited.accepts = "installer", "service-account"
	updated, waiting := moved("move-updated", nil), moved("move-waiting", nil)
	for _, s := range []*shape{updated, waiting} {
		s.bundles = append(s.bundles, bundle{version: "2.0.0"})
		s.starting = s.name + ".v1.0.0"
	}
	waiting.waiting = true
	waiting.change = func(s *v1alpha1.SubscriptionSpec) { s.InstallPlanApproval = v1alpha1.ApprovalManual }
	olmAPIs := moved("move-olm-apis", func(p *parts) {
		p.csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: p.pkg,
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{"operators.coreos.com"}, Resources: []string{"subscriptions"}, Verbs: []string{"get"}}}}}
	})
	olmAPIs.accepts = "olm-v0-apis"
	unready := refusedAs("operator-condition", moved("move-not-upgradeable", nil))
	unready.prepare = func(t *testing.T, m *mover) { m.denyUpgrades(t) }
	often := moved("move-killed-often", nil)
	often.often = true
	manual := moved("move-manual", nil)
	manual.change = func(s *v1alpha1.SubscriptionSpec) { s.InstallPlanApproval = v1alpha1.ApprovalManual }
	configured := moved("move-config", nil)
	configured.change = func(s *v1alpha1.SubscriptionSpec) {
		s.Config = &v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{{Name: "DEPTH", Value: "3"}}}
	}
	configured.restarts = []move.Target{move.ToV0} // OLM v0 first installs a version without the Subscription's settings
	if !gates[featuregates.DeploymentConfig] {
		configured.refused = "subscription-config"
	}
	defaulted := moved("move-default-channel", nil)
	defaulted.change = func(s *v1alpha1.SubscriptionSpec) { s.Channel = "" }
	return []*shape{
		moved("move-plain", nil),
		manual, configured, defaulted, own, ownOnly, single, limited, updated, waiting, olmAPIs, unready, often, webhooks, mutators,
		refusedAs("operator-group", targeted("move-multi", []v1alpha1.InstallModeType{ownNamespace, multiNamespace}, "move-multi", "move-multi-watched")),
		moved("move-two-crds", func(p *parts) {
			tr := &trap{name: p.pkg}
			ships := tr.crd("ships", "Ship", text)
			p.crds = append(p.crds, ships)
			p.csv.Spec.CustomResourceDefinitions.Owned = append(p.csv.Spec.CustomResourceDefinitions.Owned, v1alpha1.CRDDescription{Name: "ships." + tr.group(), Kind: "Ship", Version: "v1"})
		}),
		moved("move-versions", func(p *parts) {
			crd := (&trap{name: p.pkg}).crd("boats", "Boat", text)
			crd["spec"].(fields)["versions"] = []any{crdVersion("v1alpha1", false, text), crdVersion("v1", true, text)}
			p.own(crd)
		}),
		moved("move-no-crd", func(p *parts) { p.crds, p.csv.Spec.CustomResourceDefinitions.Owned = nil, nil }),
		moved("move-cluster-scope", func(p *parts) {
			crd := (&trap{name: p.pkg}).crd("boats", "Boat", text)
			crd["spec"].(fields)["scope"] = "Cluster"
			p.own(crd)
		}),
		moved("move-cluster-roles", func(p *parts) {
			p.csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions = []v1alpha1.StrategyDeploymentPermissions{{ServiceAccountName: p.pkg,
				Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}}}}}
		}),
		moved("move-two-accounts", func(p *parts) {
			strategy := &p.csv.Spec.InstallStrategy.StrategySpec
			strategy.Permissions = append(strategy.Permissions, v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: p.pkg + "-helper",
				Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}})
		}),
		moved("move-two-deployments", func(p *parts) { deployments(p.pkg, p.pkg+"-worker")(p) }),
		moved("move-annotations", func(p *parts) {
			p.csv.Annotations = map[string]string{"capabilities": "Seamless Upgrades", "example.com/long": strings.Repeat("x", 2000)}
		}),
		moved("move-config-map", func(p *parts) {
			with(plain("v1", "ConfigMap", p.pkg+"-chart", fields{"data": fields{"depth": "3"}}))(p)
		}),
		moved("move-secret", func(p *parts) {
			with(plain("v1", "Secret", p.pkg+"-login", fields{"stringData": fields{"user": "harbour"}}))(p)
		}),
		moved("move-service", func(p *parts) {
			with(plain("v1", "Service", p.pkg+"-metrics", fields{"spec": fields{"ports": []any{fields{"port": 8443, "name": "https"}}, "selector": fields{"app": p.pkg}}}))(p)
		}),
		moved("move-roles", func(p *parts) {
			rules := fields{"rules": []any{fields{"apiGroups": []any{p.pkg + ".example.com"}, "resources": []any{"boats"}, "verbs": []any{"get"}}}}
			with(plain("rbac.authorization.k8s.io/v1", "ClusterRole", p.pkg+"-view", rules), plain("rbac.authorization.k8s.io/v1", "Role", p.pkg+"-local", rules),
				plain("rbac.authorization.k8s.io/v1", "RoleBinding", p.pkg+"-local", fields{"roleRef": fields{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": p.pkg + "-local"},
					"subjects": []any{fields{"kind": "ServiceAccount", "name": p.pkg}}}))(p)
		}),
		moved("move-priority-class", func(p *parts) { with(plain("scheduling.k8s.io/v1", "PriorityClass", p.pkg, fields{"value": 5}))(p) }),
		moved("move-network-policy", func(p *parts) {
			with(plain("networking.k8s.io/v1", "NetworkPolicy", p.pkg, fields{"spec": fields{"podSelector": fields{"matchLabels": fields{"app": p.pkg}}}}))(p)
		}),
		moved("move-disruption-budget", func(p *parts) {
			with(plain("policy/v1", "PodDisruptionBudget", p.pkg, fields{"spec": fields{"minAvailable": 0, "selector": fields{"matchLabels": fields{"app": p.pkg}}}}))(p)
		}),
		moved("move-monitoring", func(p *parts) {
			with(plain("monitoring.coreos.com/v1", "ServiceMonitor", p.pkg, fields{"spec": fields{"selector": fields{}, "endpoints": []any{}}}),
				plain("monitoring.coreos.com/v1", "PrometheusRule", p.pkg, fields{"spec": fields{"groups": []any{}}}))(p)
		}),
		refusedAs("conversion-webhook", moved("move-conversion", func(p *parts) { p.webhook(conversion, "boats.moveconversion.example.com", nil) })),
		oar, provided,
		required("move-needs-package", property.MustBuildPackageRequired("move-sail", ">0.0.0")),
		required("move-needs-api", property.MustBuildGVKRequired("move-mast.example.com", "v1", "Boat")),
		{trap: *one("move-sail", nil), provider: true}, {trap: *one("move-mast", nil), provider: true},
	}
}
