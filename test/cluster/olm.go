package cluster

import (
	"context"
	"fmt"
	"io"
	"net"

	configv1 "github.com/openshift/api/config/v1"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CatalogNamespace is the namespace whose catalogs are offered to every other one.
const CatalogNamespace = "openshift-marketplace"

// OperatorNamespace is a namespace whose operators serve all namespaces.
const OperatorNamespace = "openshift-operators"

// The users that OLM's two programs are. On OpenShift their service accounts are bound to
// cluster-admin.
var (
	olmUser     = user{"system:serviceaccount:openshift-operator-lifecycle-manager:olm-operator-serviceaccount", []string{"system:masters"}}
	catalogUser = user{"system:serviceaccount:openshift-operator-lifecycle-manager:catalog-operator-serviceaccount", []string{"system:masters"}}
)

// olmOperator installs what install plans ask for. Its kubeconfig comes by the environment: it has
// no flag for it. Without a namespace it would list the operators of all in the status of its
// ClusterOperator, each time in another order, and write that again and again.
func (c *controlPlane) olmOperator() program {
	return c.olmProgram("olm", "--namespace="+CatalogNamespace, "--writeStatusName=operator-lifecycle-manager")
}

// catalogOperator resolves subscriptions to install plans.
func (c *controlPlane) catalogOperator() program {
	return c.olmProgram("catalog", "--namespace="+CatalogNamespace, "--writeStatusName=operator-lifecycle-manager-catalog")
}

func (c *controlPlane) olmProgram(tool string, args ...string) program {
	program := c.program(tool, args...)
	program.env = []string{
		"KUBECONFIG=" + c.path(tool+".kubeconfig"),
		"RELEASE_VERSION=" + OpenShiftVersion, // what it reports as its version
		"OPERATOR_NAMESPACE=" + CatalogNamespace,
	}
	return program
}

// bringOLM starts the Operator Lifecycle Manager and waits until both of its programs have synced.
func (k *keeper) bringOLM(ctx context.Context, api client.Client) error {
	for _, name := range []string{CatalogNamespace, OperatorNamespace} {
		if err := createNamespace(ctx, api, name); err != nil {
			return err
		}
	}
	group := &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: OperatorNamespace, Name: "global-operators"}}
	if err := create(ctx, api, group); err != nil {
		return err
	}
	for _, role := range olmRoles() {
		if err := create(ctx, api, role); err != nil {
			return err
		}
	}
	for name, user := range map[string]user{"olm.kubeconfig": olmUser, "catalog.kubeconfig": catalogUser} {
		if err := k.plane.writeKubeconfig(name, user); err != nil {
			return err
		}
	}
	k.blocked = blockOLMPort(k.plane.address)
	for _, program := range []program{k.plane.olmOperator(), k.plane.catalogOperator()} {
		if err := k.run(program); err != nil {
			return err
		}
	}
	for _, name := range []string{"operator-lifecycle-manager", "operator-lifecycle-manager-catalog"} {
		if err := awaitAvailable(ctx, api, name); err != nil {
			return err
		}
	}
	return nil
}

// blockOLMPort keeps OLM's programs from listening on all interfaces. They serve their metrics on
// port 8080 of each, which nothing can configure, but go on without if they cannot: and they cannot
// while anybody listens on that port of any address. nil means that somebody else does already.
func blockOLMPort(address string) io.Closer {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "8080"))
	if err != nil {
		return nil
	}
	return listener
}

// awaitAvailable waits until an operator of the cluster itself reports that it works.
func awaitAvailable(ctx context.Context, api client.Client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	return Until(ctx, "cluster operator "+name, func(ctx context.Context) error {
		var operator configv1.ClusterOperator
		if err := api.Get(ctx, client.ObjectKey{Name: name}, &operator); err != nil {
			return err
		}
		for _, condition := range operator.Status.Conditions {
			if condition.Type == configv1.OperatorAvailable && condition.Status == configv1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("not available; conditions: %v", operator.Status.Conditions)
	})
}
