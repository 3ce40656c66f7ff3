package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	sharedvolume "github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/page"
)

var followPages = flag.Bool("follow-pages", false, "do what the pages about the EFS driver say, which takes minutes")

// TestFollowPages: an administrator follows the pages about the EFS driver, with their commands, from the installation
// to a cluster without the driver and its operator.
func TestFollowPages(t *testing.T) {
	if !*followPages {
		t.Skip("-follow-pages is not set; make prove SUITE=pages sets it")
	}
	w := newEnvironment(t, efs(t), cluster.Options{})
	w.serve("certified-operators", w.catalog)
	r := w.reader(
		"source: berth\n", "source: certified-operators\n", // which the cluster serves already
		"namespace=storage\n", "namespace="+drivers.ClusterStorageNamespace+"\n", "--timeout=10m", "--timeout=2m",
		" --since=6h", "", " --since=1h", "", // process nodes keep no times of lines
		"berth doctor\n", "berth doctor || [ $? = 2 ]\n") // their kubelets know no driver
	r.Variables = page.Commands(t, filepath.Join(r.Docs, "start/install.md"), "# Operate the EFS driver", r.Names)
	const install, share, secure, trouble, uninstall, objectives = "start/install.md", "operate/sharedvolume.md", "reference/security.md", "operate/troubleshooting.md", "operate/uninstall.md", "operate/slo.md"

	r.Follow(t, install, "## Install the operator")
	r.Follow(t, install, "## Install the driver")
	r.Follow(t, install, "### Create access points for claims")
	r.Follow(t, install, "## Watch it")
	r.Follow(t, install, "## Tune the operator")
	w.awaitVariable("SHARED_VOLUME_WORKERS", "4")
	r.Follow(t, install, "## When OpenShift is updated")
	w.mustOverride("False")
	r.Follow(t, install, "## Coming from the community's operator", 1)
	w.mustOverride("True")
	r.Follow(t, install, "## When an update fails")
	w.reinstall(r)
	w.awaitVariable("SHARED_VOLUME_WORKERS", "4")
	r.Follow(t, install, "## Where the driver is")
	mustPrint(t, r.Follow(t, "start/install-ebs-manila.md", "# Install the EBS or the Manila driver"), w.driver.Package.Name+".v1.0.0")

	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	mustPrint(t, r.Follow(t, "operate/give-access.md", "# Give a team access to a file system"), "fsap-0123456789abcdef0")
	mustPrint(t, r.Follow(t, "operate/static-volumes.md", "# Volumes by hand"), "persistentvolumeclaim/files condition met")
	r.Follow(t, secure, "## Let namespaces use only what they were granted")
	r.Follow(t, share, "# Mount an EFS file system")
	r.Follow(t, secure, "### Names are no proof")
	mustPrint(t, r.Follow(t, secure, "## Close a cluster that began open"), "sharedvolumegrant.aws-efs.managed.openshift.io/shop ", "sharedvolumepolicy.aws-efs.managed.openshift.io/cluster ")
	r.Follow(t, secure, "## Have SharedVolumes refused at once")
	mustPrint(t, r.Follow(t, objectives, "## The driver is available"), "Events:", "ScalingReplicaSet", `"Starting the operator"`)
	mustPrint(t, r.Follow(t, objectives, "## SharedVolumes are ready soon"), "website")
	mustPrint(t, r.Follow(t, trouble, "# Troubleshoot"), "has phase Succeeded", "the one SharedVolume is Ready")
	mustPrint(t, r.Follow(t, trouble, "## My driver is not Available"), "Available=True", "aws-efs-operator")
	root, err := tools.Root()
	if err == nil {
		err = os.Symlink(filepath.Join(root, "deploy"), filepath.Join(r.Dir, "deploy"))
	}
	require.NoError(t, err)
	r.Follow(t, "operate/support.md", "# Get help with a driver", 0)
	lost := w.loseUser("shop", "pvc-website")
	of := w.reader("<namespace>", lost.Namespace, "<pod>", lost.Name, "<node>", lost.Spec.NodeName)
	mustPrint(t, of.Follow(t, trouble, "## My pod hangs in ContainerCreating"), "ClaimName:  pvc-website", "untainted")

	r.Follow(t, "operate/log-levels.md", "# Log levels")

	// A removal that a pod holds up, and that somebody does not wait for.
	custom := &operatorv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver.CSIName}}
	require.NoError(t, w.Client().Delete(t.Context(), custom))
	awaitReason := func(what string, wants bool) {
		t.Helper()
		cluster.Eventually(t, limit, fmt.Sprintf("the removal to wait for the pods: %t for %s", wants, what), func(context.Context) error {
			said := w.kubectl("get", "clustercsidriver", custom.Name, "--output=jsonpath={.status.conditions[?(@.type==\"AWSEFSUninstallProgressing\")].message}")
			if !strings.Contains(said, "shop/website-") || strings.Contains(said, what) != wants {
				return fmt.Errorf("the condition says %q", said)
			}
			return nil
		})
	}
	awaitReason("shop/"+lost.Name, true)
	of.Follow(t, uninstall, "### Pods on lost nodes")
	awaitReason("shop/"+lost.Name, false)
	r.Follow(t, uninstall, "## What a removal waits for")
	r.Follow(t, uninstall, "### Do not wait")
	cluster.Eventually(t, limit, "the driver to be removed", w.Gone(custom))

	// Installed again, and removed as it should be.
	r.Follow(t, install, "## Install the driver")
	website := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "website"}}
	require.NoError(t, w.Client().Delete(t.Context(), website, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	cluster.Eventually(t, limit, "the pods to end", w.Gone(website))
	r.Follow(t, install, "## Remove the driver")
	r.Follow(t, install, "## Install the driver")
	r.Follow(t, uninstall, "## Remove the driver")
	assert.Empty(t, w.uids(w.driverObjectsIn(drivers.ClusterStorageNamespace)...), "these objects of the driver are left")
	r.Follow(t, uninstall, "## Remove the operator", 0)
	operator := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: drivers.ClusterStorageNamespace, Name: w.driver.Operator.Name}}
	cluster.Eventually(t, limit, "the operator to be removed", w.Gone(operator))
	shared := &sharedvolume.SharedVolume{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "website"}}
	assert.NoError(t, w.Client().Get(t.Context(), client.ObjectKeyFromObject(shared), shared), "the SharedVolume is gone with the operator")
	r.Follow(t, share, "## When the operator is gone")
	r.Follow(t, uninstall, "## Remove the operator", 1)
	api := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "sharedvolumes.aws-efs.managed.openshift.io"}}
	cluster.Eventually(t, limit, "the API to be removed", w.Gone(api))
}

// varies matches times, names that are generated, and numbers of files.
var varies = regexp.MustCompile(`(?m)^ *[0-9.]+s |website-[a-z0-9]+-[a-z0-9]{5}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|install-[a-z0-9]{5}|wrote \d+ files|; \d+ could not be collected`)

// reader returns an administrator who follows pages in the cluster, with other names: pairs of a text and its
// replacement.
func (w *environment) reader(names ...string) *page.Reader {
	w.t.Helper()
	root, err := tools.Root()
	require.NoError(w.t, err)
	return &page.Reader{
		Docs: filepath.Join(root, "docs"), Kubectl: w.Tools().Path("kubectl"), Kubeconfig: w.Kubeconfig(), Berth: w.berth,
		Names: strings.NewReplacer(append(names, "https://raw.githubusercontent.com/berth-csi/berth/main", root,
			"-f sharedvolume/policy", "-f "+filepath.Join(root, "sharedvolume/policy"))...),
		Varies: varies, Variables: "NS=" + namespace, Limit: limit, Dir: w.t.TempDir(),
	}
}

// mustOverride fails the test unless the administrator has overridden whether OLM may update the operator.
func (w *environment) mustOverride(want metav1.ConditionStatus) {
	w.t.Helper()
	condition := &operatorsv2.OperatorCondition{}
	if err := w.Client().Get(w.t.Context(), client.ObjectKey{Namespace: drivers.ClusterStorageNamespace, Name: w.driver.Package.Name + ".v1.0.0"}, condition); err != nil {
		w.t.Fatal(err)
	}
	if got := condition.Spec.Overrides; len(got) != 1 || got[0].Type != operatorsv2.Upgradeable || got[0].Status != want {
		w.t.Errorf("the OperatorCondition has the overrides %+v, want one, with status %s", got, want)
	}
}

// reinstall follows install.md's instructions in words: once the InstallPlans are gone, an administrator edits the
// Subscription that the commands have written to a file, and applies it.
func (w *environment) reinstall(r *page.Reader) {
	w.t.Helper()
	plans := &v1alpha1.InstallPlanList{}
	cluster.Eventually(w.t, limit, "the InstallPlans to be gone", func(ctx context.Context) error {
		if err := w.Client().List(ctx, plans, client.InNamespace(drivers.ClusterStorageNamespace)); err != nil {
			return err
		}
		if len(plans.Items) > 0 {
			return fmt.Errorf("%d are left", len(plans.Items))
		}
		return nil
	})
	file := filepath.Join(r.Dir, "subscription.yaml")
	content, err := os.ReadFile(file)
	require.NoError(w.t, err)
	saved := &v1alpha1.Subscription{}
	require.NoError(w.t, yaml.Unmarshal(content, saved))
	apply := func() *v1alpha1.Subscription {
		again := &v1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: saved.Namespace, Name: saved.Name}, Spec: saved.Spec}
		w.create(again)
		return again
	}
	again := apply()
	cluster.Eventually(w.t, limit, "OLM to install the operator again", func(ctx context.Context) error {
		err := w.Client().Get(ctx, client.ObjectKey{Namespace: saved.Namespace, Name: w.driver.Operator.Name}, &appsv1.Deployment{})
		if err == nil || !apierrors.IsNotFound(err) {
			return err
		}
		if err := w.Client().Get(ctx, client.ObjectKeyFromObject(again), again); err != nil {
			return err
		}
		plan := again.Status.InstallPlanRef
		if plan == nil {
			return errors.New("there is no InstallPlan yet")
		}
		err = w.Client().Get(ctx, client.ObjectKey{Namespace: plan.Namespace, Name: plan.Name}, &v1alpha1.InstallPlan{})
		if !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("there is no Deployment yet"), err)
		}
		w.t.Logf("OLM mistook the Subscription for the deleted one: InstallPlan %s is gone", plan.Name)
		require.NoError(w.t, w.Client().Delete(ctx, again))
		again = apply()
		return err
	})
}

// loseUser leaves a pod that uses a claim on a node that is lost, and has a permanent taint.
func (w *environment) loseUser(namespace, claim string) *corev1.Pod {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "lost"}, Spec: corev1.NodeSpec{Unschedulable: true,
		Taints: []corev1.Taint{{Key: w.driver.CSIName + "/agent-not-ready", Effect: corev1.TaintEffectNoExecute}}}}
	pod := journey.PodWithClaim(namespace, "stuck", claim)
	pod.Spec.NodeName = node.Name
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	w.create(node)
	w.create(pod)
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, new(metav1.Now()) // a kubelet has accepted it
	require.NoError(w.t, w.Client().Status().Update(w.t.Context(), pod))
	return pod
}

// awaitVariable waits until the operator that runs has a variable.
func (w *environment) awaitVariable(name, value string) {
	w.t.Helper()
	cluster.Eventually(w.t, limit, "the operator to have "+name, func(ctx context.Context) error {
		operator := &appsv1.Deployment{}
		if err := w.Client().Get(ctx, client.ObjectKey{Namespace: drivers.ClusterStorageNamespace, Name: w.driver.Operator.Name}, operator); err != nil {
			return err
		}
		for _, variable := range operator.Spec.Template.Spec.Containers[0].Env {
			if variable.Name == name && variable.Value == value && operator.Status.ObservedGeneration == operator.Generation &&
				operator.Status.UpdatedReplicas == operator.Status.Replicas && operator.Status.AvailableReplicas == operator.Status.Replicas {
				return nil
			}
		}
		return fmt.Errorf("its Deployment is %+v", operator.Status)
	})
}

// mustPrint fails the test unless the output of commands has all of these texts.
func mustPrint(t testing.TB, printed string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		assert.Contains(t, printed, want, "the commands print")
	}
}
