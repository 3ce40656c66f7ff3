package adoption

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/migrate"
	"github.com/berth-csi/berth/olm/clusterextension"
)

// keepExtension warns against deleting the ClusterExtension meanwhile.
const keepExtension = "do not delete a ClusterExtension of the driver: OLM v1 deletes its APIs with it, and a finalizer of the operator could then remove the driver"

// checkExtensions refuses an operator of OLM v1, unless OLM runs no other operator of the driver, and an administrator hands it over: the
// cluster storage operator has no permission to delete Deployments and roles anywhere.
func (in *input) checkExtensions(o *operator) migrate.Checks {
	switch names := in.extensionNames(); {
	case len(names) == 0:
		return migrate.Pass(clusterExtension, "no ClusterExtension has installed the operator")
	case len(names) > 1:
		return migrate.Refuse(clusterExtension, "find out which one manages the driver. Of the others, wait until OLM has finished with them (condition Progressing is True with reason Succeeded), and take them away with "+
			"`kubectl delete clusterextension NAME --cascade=orphan`; "+keepExtension+" without that flag",
			"there are several ClusterExtensions of the driver: %s", strings.Join(names, ", "))
	case len(in.namespaces()) > 0:
		return migrate.Refuse(clusterExtension, "find out which one manages the driver; "+keepExtension,
			"OLM runs an operator of the driver for ClusterExtension %s, and another one for a ClusterServiceVersion in namespace %s", names[0], strings.Join(in.namespaces(), ", "))
	case o == nil && len(in.extensions) == 0:
		return migrate.Refuse(clusterExtension, "find out who has deleted it; delete the Deployment of its operator and this ClusterRoleBinding, and plan again",
			"ClusterExtension %s does not exist, but ClusterRoleBinding %s gives its operator permissions", names[0], in.proven[0].Binding)
	case o == nil:
		return migrate.Refuse(clusterExtension, "find out why OLM has not installed it; "+keepExtension,
			"ClusterExtension %s is of package %s, but no ClusterRoleBinding of it gives an operator of the driver permissions", names[0], in.driver.Package.Name)
	case in.bySuccessor:
		return migrate.Refuse(clusterExtension, fmt.Sprintf("hand it over with `%s`; %s", escape.Command("berth adopt apply %s", in.driver.Name), keepExtension),
			"ClusterExtension %s has installed an operator of the driver, which only an administrator can hand over", names[0])
	}
	return migrate.Pass(clusterExtension, "ClusterExtension %s can be deleted without its objects", o.extension.GetName())
}

// checkProgress refuses a ClusterExtension that is being deleted, or that OLM has not finished with.
func (in *input) checkProgress(o *operator) migrate.Checks {
	e := o.extension
	if e.GetDeletionTimestamp() != nil {
		return migrate.Refuse(pendingUpdate, "if nobody has begun a hand-over, find out who has deleted it, and whether the driver still runs",
			"ClusterExtension %s is being deleted, and has the finalizers %s", e.GetName(), strings.Join(e.GetFinalizers(), ", "))
	}
	if status, reason, message := clusterextension.Condition(e.Unstructured, "Progressing"); status != "True" || reason != "Succeeded" {
		return migrate.Refuse(pendingUpdate, "wait until OLM has finished, or find out why it does not",
			"condition Progressing of ClusterExtension %s is %q with reason %q, want True with Succeeded%s", e.GetName(), status, reason, detail(message))
	}
	return migrate.Pass(pendingUpdate, "no update is pending")
}

// checkBundle refuses an operator that is not installed completely, or that the driver's definition does not know.
func (in *input) checkBundle(o *operator) migrate.Checks {
	e := o.extension
	if status, reason, message := clusterextension.Condition(e.Unstructured, "Installed"); status != "True" {
		return migrate.Refuse(installedVersion, "find out why OLM has not installed it completely",
			"condition Installed of ClusterExtension %s is %q with reason %q, want True%s", e.GetName(), status, reason, detail(message))
	}
	checks := migrate.Pass(installedVersion, "bundle %s is installed", e.bundle())
	if err := in.verifyBundle(o); err != nil {
		return append(checks, migrate.Refuse(knownVersion, "update the operator to a version that can be handed over, or use a later version of this command", "%v", err)...)
	}
	return append(checks, migrate.Pass(knownVersion, "it is a version that the cluster storage operator can succeed")...)
}

// verifyBundle fails unless the definition knows the operator that a ClusterExtension has installed.
func (in *input) verifyBundle(o *operator) error {
	e, d := o.extension, in.driver
	if e.namespace() != o.proof.Namespace {
		return fmt.Errorf("spec.namespace of ClusterExtension %s is %q, but ClusterRoleBinding %s gives a service account in namespace %s permissions",
			e.GetName(), e.namespace(), o.proof.Binding, o.proof.Namespace)
	}
	number, of := d.VersionOf(e.bundle())
	version, err := semver.Parse(number)
	if !of || err != nil || number != e.version() {
		return fmt.Errorf("ClusterExtension %s has installed bundle %q, version %q; want one of package %s, named after its version", e.GetName(), e.bundle(), e.version(), d.Package.Name)
	}
	p, err := predecessorAt(d, version)
	if err != nil {
		return err
	}
	var names []string
	for _, installed := range in.installed {
		if isDeployment(installed) {
			names = append(names, installed.Name)
		}
	}
	if !slices.Equal(names, []string{p.Operator}) || o.proof.Account != p.Operator {
		return fmt.Errorf("ClusterExtension %s has installed the Deployments %q in namespace %s, with permissions for service account %s; want exactly %s, as every operator of its versions has",
			e.GetName(), names, o.proof.Namespace, o.proof.Account, p.Operator)
	}
	return nil
}

// checkInline warns of the operator's settings in the ClusterExtension.
func (in *input) checkInline(o *operator) migrate.Checks {
	config, found, _ := unstructured.NestedMap(o.extension.Object, "spec", "config")
	if !found || len(config) == 0 {
		return nil
	}
	return migrate.Warn(configuration, "nothing, if that is only about the operator's pod; else set it in the objects of the cluster that this page names: "+findings.Page("operate/platforms.md"),
		"ClusterExtension %s has spec.config, which the new operator does not get", o.extension.GetName())
}
