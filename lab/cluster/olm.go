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

// CatalogNamespace is the namespace whose catalogs are available in all namespaces.
const CatalogNamespace = "openshift-marketplace"

// OperatorNamespace is a namespace for operators that watch all namespaces.
const OperatorNamespace = "openshift-operators"

// The users of OLM's two programs. On OpenShift their service accounts are bound to cluster-admin.
var (
	olmUser     = user{"system:serviceaccount:openshift-operator-lifecycle-manager:olm-operator-serviceaccount", []string{"system:masters"}}
	catalogUser = user{"system:serviceaccount:openshift-operator-lifecycle-manager:catalog-operator-serviceaccount", []string{"system:masters"}}
)

// olmOperator installs InstallPlans' ClusterServiceVersions. It has no flag for the kubeconfig, only an environment
// variable. Without a namespace it would list the operators of all namespaces in the status of its ClusterOperator,
// in varying order, and keep updating it.
func (c *controlPlane) olmOperator() program {
	return c.olmProgram("olm", "--namespace="+CatalogNamespace, "--writeStatusName=operator-lifecycle-manager")
}

// catalogOperator resolves Subscriptions to InstallPlans. Its pods, such as for catalogs and bundles, do not run as
// root: OpenShift sees to that itself.
func (c *controlPlane) catalogOperator() program {
	program := c.olmProgram("catalog", "--namespace="+CatalogNamespace, "--writeStatusName=operator-lifecycle-manager-catalog", "--set-workload-user-id=true")
	if c.opmImage != "" {
		program.args = append(program.args, "--opmImage="+c.opmImage)
	}
	if c.serviceProxy != "" {
		program.env = append(program.env, "GRPC_PROXY=socks5://"+c.serviceProxy)
	}
	return program
}

func (c *controlPlane) olmProgram(tool string, args ...string) program {
	program := c.program(tool, args...)
	program.env = []string{
		"KUBECONFIG=" + c.path(tool+".kubeconfig"),
		"RELEASE_VERSION=" + OpenShiftVersion, // the version that it reports
		"OPERATOR_NAMESPACE=" + CatalogNamespace,
	}
	return program
}

// startOLM starts the Operator Lifecycle Manager and waits until both of its programs have synced.
func (k *keeper) startOLM(ctx context.Context, api client.Client) error {
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

// blockOLMPort keeps OLM's programs from listening on all interfaces. They serve metrics on port 8080 of each, which is not configurable,
// but keep running if they cannot listen there. They cannot if another program listens on that port of one address. blockOLMPort returns
// nil if another program already does.
func blockOLMPort(address string) io.Closer {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "8080"))
	if err != nil {
		return nil
	}
	return listener
}

// awaitAvailable waits until a cluster operator reports that it is available.
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
