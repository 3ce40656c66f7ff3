package adoption

import (
	"fmt"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/migrate"
)

// setting is a field of a Subscription's spec.config. OLM applies these fields to the operator's Deployment, never to the driver's pods.
// The cluster storage operator ignores them: cluster-wide objects configure its operators.
type setting struct {
	field string
	isSet func(v1alpha1.SubscriptionConfig) bool
	// instead says where to set it.
	instead string
}

const (
	operatorPod = "nothing: they are about the operator's pod alone, which runs on the control plane; the driver's pods are placed as before"
	files       = "if that is a certificate authority, add it to the ConfigMap that spec.trustedCA of Proxy cluster names; the operator needs no other file"
)

var configurable = []setting{
	{"nodeSelector", func(c v1alpha1.SubscriptionConfig) bool { return len(c.NodeSelector) > 0 }, operatorPod},
	{"tolerations", func(c v1alpha1.SubscriptionConfig) bool { return len(c.Tolerations) > 0 }, operatorPod},
	{"affinity", func(c v1alpha1.SubscriptionConfig) bool { return c.Affinity != nil }, operatorPod},
	{"resources", func(c v1alpha1.SubscriptionConfig) bool { return c.Resources != nil }, "nothing: they are about the operator's pod alone, and the new operator's release sets its own"},
	{"volumes", func(c v1alpha1.SubscriptionConfig) bool { return len(c.Volumes) > 0 }, files},
	{"volumeMounts", func(c v1alpha1.SubscriptionConfig) bool { return len(c.VolumeMounts) > 0 }, files},
	{"envFrom", func(c v1alpha1.SubscriptionConfig) bool { return len(c.EnvFrom) > 0 }, "look up which variables these are: what is said here about env applies to them"},
	{"annotations", func(c v1alpha1.SubscriptionConfig) bool { return len(c.Annotations) > 0 }, "nothing: no operator of the driver reads them"},
	{"selector", func(c v1alpha1.SubscriptionConfig) bool { return c.Selector != nil }, "nothing: OLM has no use for it"},
}

// proxies are the variables that OLM and the cluster storage operator fill from the cluster's Proxy.
var proxies = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}

// checkConfiguration warns of the operator's settings in the Subscription, and says where to set them instead.
func (in *input) checkConfiguration(o *operator) migrate.Checks {
	if o.subscription == nil || o.subscription.Spec.Config == nil {
		return nil
	}
	config := *o.subscription.Spec.Config
	var lost, instead []string
	for _, s := range configurable {
		if s.isSet(config) {
			lost = append(lost, s.field)
			instead = append(instead, s.field+": "+s.instead)
		}
	}
	for _, variable := range config.Env {
		lost = append(lost, "env "+variable.Name)
		instead = append(instead, variable.Name+": "+in.insteadOf(variable))
	}
	if len(lost) == 0 {
		return nil
	}
	return migrate.Warn(configuration, strings.Join(instead, ". "), "Subscription %s/%s has spec.config, which the new operator does not get: %s",
		o.subscription.Namespace, o.subscription.Name, strings.Join(lost, ", "))
}

// insteadOf says where to make a setting instead of in a variable of the operator.
func (in *input) insteadOf(variable corev1.EnvVar) string {
	switch {
	case slices.Contains(proxies, strings.ToUpper(variable.Name)):
		return "set it in the spec of Proxy cluster, which the whole cluster uses"
	case slices.Contains(in.driver.Operator.Env, variable.Name):
		return fmt.Sprintf("make the Secrets of the driver's CredentialsRequests beforehand, as your cluster's installer does for the drivers of its platform: the operators of the cluster storage operator do not read %s", variable.Name)
	}
	return "nothing: no operator of the driver reads it"
}
