package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	securityv1 "github.com/openshift/api/security/v1"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/journey"
	"github.com/berth-csi/berth/test/mustgather"
)

// marker is the secret part of all that is secret in these tests.
const marker = "s3cr3t-Marker.42"

// leaks are lines that a careless program logs, and their redacted form.
var leaks = []struct{ line, left string }{
	{"I0101 proxy is http://user:" + marker + "@proxy.example:3128 now", "I0101 proxy is http://<redacted>@proxy.example:3128 now"},
	{"with an at sign: https://user:a@" + marker + "@proxy.example", "with an at sign: https://<redacted>@proxy.example"},
	{"HTTPS_PROXY=user:" + marker + "@proxy.example:3128", "HTTPS_PROXY=<redacted>@proxy.example:3128"},
	{"Authorization: Bearer " + marker, "Authorization: Bearer <redacted>"},
	{"token eyJhbGciOi.eyJ" + strings.ReplaceAll(marker, ".", "") + ".c2ln ends", "token <redacted> ends"},
	{"key AKIAABCDEFGHIJKLMNOP of somebody", "key <redacted> of somebody"},
	{"aws_secret_access_key = " + marker, "aws_secret_access_key = <redacted>"},
	{`{"password":"` + marker + `","user":"me"}`, `{"password":"<redacted>","user":"me"}`},
	{"started with --client-secret=" + marker + " --v=2", "started with --client-secret=<redacted> --v=2"},
	{"-----BEGIN RSA PRIVATE KEY-----\n" + marker + "\n-----END RSA PRIVATE KEY-----", "<redacted>"},
	{`"key": "-----BEGIN PRIVATE KEY-----\n` + marker + `\n-----END PRIVATE KEY-----"`, `"key": "<redacted>"`},
	{"certificate from /etc/tls/private/tls.crt, key --tls-private-key-file=/etc/tls/private/tls.key", "certificate from /etc/tls/private/tls.crt, key --tls-private-key-file=/etc/tls/private/tls.key"},
	{"mounted fs-0123456789abcdef0:/ at /var/lib/kubelet", "mounted fs-0123456789abcdef0:/ at /var/lib/kubelet"},
	// Not secret, but to be shown and not obeyed by a terminal.
	{"a file called \x1b[2J\x1b]0;title\x07 and \rover\u009b1m it, for Zoë", "a file called ?[2J?]0;title? and ?over?1m it, for Zoë"},
}

// TestMustGather: the script collects the support data of a driver at work, and no secrets.
func TestMustGather(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	w := newEnvironment(t, efs(t), cluster.Options{Images: map[string]string{leakyImage: shell}})
	w.serveCatalog()
	w.hideSecrets()
	w.subscribe(&v1alpha1.SubscriptionConfig{Env: []corev1.EnvVar{
		{Name: "AWS_SECRET_ACCESS_KEY", Value: marker},
		{Name: "APP_TOKEN", Value: "first line\n" + marker + "\nlast line"},
		{Name: "HTTPS_PROXY", Value: "user:" + marker + "@proxy.example:3128"},
		{Name: "NO_PROXY", Value: "*"},
		{Name: "ROLEARN", Value: "arn:aws:iam::123456789012:role/efs"},
	}})
	w.checkMonitoring() // the operator has a certificate then, which its metrics are read by
	w.runLeakyProgram()
	w.step(func(ctx context.Context, c client.Client) error {
		return journey.InstallDriver(ctx, c, w.driver.CSIName)
	})
	w.step(func(ctx context.Context, c client.Client) error {
		website := sharedVolume("website")
		if err := journey.Grant(ctx, c, website.Namespace, website.Spec.FileSystemID, website.Spec.AccessPointID); err != nil {
			return err
		}
		_, err := journey.Share(ctx, c, website)
		return err
	})

	folder, summary := gather(t, w.Cluster)
	files := mustgather.Files(t, folder)
	for name, content := range files {
		for what, secret := range map[string]string{"a secret": marker, "an encoded secret": base64.StdEncoding.EncodeToString([]byte(marker))} {
			if i := strings.Index(content, secret); i >= 0 {
				t.Errorf("%s holds %s: %s", name, what, content[max(0, i-200):i+len(secret)])
			}
		}
		if strings.HasSuffix(name, ".yaml") {
			assert.NoError(t, yaml.Unmarshal([]byte(content), &map[string]any{}), name)
		}
	}
	lost := 0
	for line := range strings.Lines(files["missing.txt"]) {
		lost++
		// The driver's pods are only reported as running here: no program can be started in them.
		if !strings.Contains(line, "/efs-csi-") || !strings.Contains(line, ".mounts.log: ") {
			t.Errorf("not collected: %s", line)
		}
	}
	want := fmt.Sprintf("gather: wrote %d files to %s; %d could not be collected, ", len(files), folder, lost)
	assert.Truef(t, strings.HasPrefix(summary, want), "the last line is %q, want %q", summary, want)
	// The purpose of each file: a text that it must contain.
	mustgather.Check(t, files, map[string]string{
		"version":                                               "aws-efs-operator.v1.0.0",
		"cluster/infrastructures.yaml":                          "infrastructureName: " + cluster.InfrastructureName,
		"cluster/proxies.yaml":                                  "httpProxy: http://<redacted>@proxy.example:3128",
		"cluster/apiservers.yaml":                               "kind: APIServer",
		"cluster/cloudcredentials.yaml":                         "kind: CloudCredential",
		"cluster/catalogsources.yaml":                           "name: " + catalogName,
		"cluster/csinodes.yaml":                                 "items: []",
		"efs.csi.aws.com/clustercsidriver.yaml":                 "type: Available",
		"efs.csi.aws.com/csidriver.yaml":                        "attachRequired: false",
		"efs.csi.aws.com/storageclasses-1.yaml":                 "name: efs-sc",
		"efs.csi.aws.com/persistentvolumes-1.yaml":              "volumeHandle: fs-0123456789abcdef0::fsap-0123456789abcdef0",
		"efs.csi.aws.com/persistentvolumeclaims/default-1.yaml": "name: pvc-website",
		"efs.csi.aws.com/apis/sharedvolumes.aws-efs.managed.openshift.io/objects/*.yaml":       "name: website",
		"efs.csi.aws.com/apis/sharedvolumes.aws-efs.managed.openshift.io/definition.yaml":      "kind: CustomResourceDefinition",
		"efs.csi.aws.com/objects/securitycontextconstraints.yaml":                              "name: efs-csi-scc",
		"efs.csi.aws.com/objects/credentialsrequests.yaml":                                     "name: openshift-aws-efs-csi-driver-node",
		"efs.csi.aws.com/objects/clusterroles.yaml":                                            "name: efs-csi-provisioner",
		"efs.csi.aws.com/operator/clusterroles.yaml":                                           "- clustercsidrivers",
		"efs.csi.aws.com/operator/metrics.txt":                                                 `berth_cluster_csi_driver_missing{driver="efs.csi.aws.com"} 0`,
		"efs.csi.aws.com/namespaces/openshift-operators/subscriptions.yaml":                    "installedCSV: aws-efs-operator.v1.0.0",
		"efs.csi.aws.com/namespaces/openshift-operators/clusterserviceversions.yaml":           "phase: Succeeded",
		"efs.csi.aws.com/namespaces/openshift-operators/installplans.yaml":                     "manifest: <left out>",
		"efs.csi.aws.com/namespaces/openshift-operators/operatorconditions.yaml":               "name: aws-efs-operator.v1.0.0",
		"efs.csi.aws.com/namespaces/openshift-operators/events.yaml":                           "message: asked http://<redacted>@proxy.example",
		"efs.csi.aws.com/namespaces/openshift-operators/secrets.txt":                           "\nforgotten password\n",
		"efs.csi.aws.com/namespaces/openshift-operators/configmaps.txt":                        "\nnotes first second\n",
		"efs.csi.aws.com/namespaces/openshift-operators/deployment-aws-efs-operator.yaml":      "value: arn:aws:iam::123456789012:role/efs",
		"efs.csi.aws.com/namespaces/openshift-operators/daemonset-efs-csi-node.yaml":           "value: <redacted>@proxy.example:3128",
		"efs.csi.aws.com/namespaces/openshift-operators/deployment-efs-csi-controller.yaml":    "name: csi-provisioner",
		"efs.csi.aws.com/namespaces/openshift-operators/pods/aws-efs-operator-*/pod.yaml":      "value: <redacted>@proxy.example:3128",
		"efs.csi.aws.com/namespaces/openshift-operators/pods/aws-efs-operator-*/*operator.log": `"Starting the operator" driver="efs.csi.aws.com"`,
	})
	checkLeaks(t, files)
}

// TestMustGatherInPod: the script runs in a pod, as the pod's account.
func TestMustGatherInPod(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	c := cluster.Shared(t, cluster.Options{Images: map[string]string{leakyImage: shell}})
	askForDriver(t, c, efs(t), nil)
	root, err := tools.Root()
	require.NoError(t, err)
	in := c.Namespace(t)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: in},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: in, Name: "default"}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "must-gather"}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{
			Name: "gather", Image: leakyImage, Args: []string{"-c", `exec "$SCRIPT" /tmp/must-gather`},
			Env: []corev1.EnvVar{
				{Name: "SCRIPT", Value: filepath.Join(root, "deploy", "must-gather", "gather")},
				{Name: "PATH", Value: filepath.Dir(c.Tools().Path("kubectl")) + ":" + os.Getenv("PATH")},
			},
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
	}}
	for _, object := range []client.Object{binding, pod} {
		require.NoError(t, c.Client().Create(t.Context(), object))
	}
	c.Await(t, 3*limit, "the script to end in a pod", pod, func() error { // it starts thousands of programs
		if phase := pod.Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			return fmt.Errorf("the pod is %s", phase)
		}
		return nil
	})
	log, err := c.Kubectl(t.Context(), "logs", "--namespace="+in, pod.Name).CombinedOutput()
	if err != nil || pod.Status.Phase != corev1.PodSucceeded || !strings.Contains(string(log), "driver efs.csi.aws.com, operator aws-efs-operator") {
		t.Errorf("in a pod, the script ends with %s (%v):\n%s", pod.Status.Phase, err, log)
	}
}

const leakyImage = "registry.example/leaky"

// runLeakyProgram runs a program that logs all leaks and fails, and does so once more, as part of the
// driver.
func (w *environment) runLeakyProgram() {
	w.t.Helper()
	var lines []string
	for _, leak := range leaks {
		lines = append(lines, leak.line)
	}
	pod := map[string]string{"app": "leaky"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: "leaky", Namespace: namespace,
			Labels: map[string]string{"app.kubernetes.io/managed-by": w.driver.Operator.Name},
		},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: pod},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{{
						Name: "leaky", Image: leakyImage + ":1",
						Args:         []string{"-c", `printf '%s\n' "$LEAKED_TOKENS"; [ -e /tmp/failed ] || { : >/tmp/failed; exit 1; }; exec sleep infinity`},
						Env:          []corev1.EnvVar{{Name: "LEAKED_TOKENS", Value: strings.Join(lines, "\n")}},
						VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
					}},
					Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
				},
			},
		},
	}
	require.NoError(w.t, w.Client().Create(w.t.Context(), deployment))
	cluster.Eventually(w.t, limit, "the leaky program to run", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := w.Client().List(ctx, pods, client.InNamespace(deployment.Namespace), client.MatchingLabels(pod)); err != nil {
			return err
		}
		for _, p := range pods.Items {
			for _, c := range p.Status.ContainerStatuses {
				if c.State.Running != nil && c.RestartCount > 0 {
					return nil
				}
			}
		}
		return fmt.Errorf("pods %v", pods.Items)
	})
}

// checkLeaks checks the redacted log of the leaky program.
func checkLeaks(t *testing.T, files map[string]string) {
	t.Helper()
	var want []string
	for _, leak := range leaks {
		want = append(want, leak.left)
	}
	logs := map[string]bool{"leaky.log": false, "leaky.previous.log": false}
	for name, content := range files {
		log := filepath.Base(name)
		if _, ok := logs[log]; !ok {
			continue
		}
		logs[log] = true
		assert.Emptyf(t, cmp.Diff(want, strings.Split(strings.TrimSpace(content), "\n")), "%s (-want +got)", name)
	}
	for log, found := range logs {
		assert.Truef(t, found, "%s of a workload with the operator's label is not there", log)
	}
}

// hideSecrets puts secrets where they are in real clusters.
func (w *environment) hideSecrets() {
	w.t.Helper()
	here := metav1.ObjectMeta{Namespace: namespace}
	named := func(name string) metav1.ObjectMeta {
		meta := here
		meta.Name = name
		return meta
	}
	proxy := &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	require.NoError(w.t, w.Client().Get(w.t.Context(), client.ObjectKeyFromObject(proxy), proxy))
	proxy.Spec.HTTPProxy = "http://user:" + marker + "@proxy.example:3128"
	require.NoError(w.t, w.Client().Update(w.t.Context(), proxy))
	proxy.Status.HTTPProxy = proxy.Spec.HTTPProxy
	require.NoError(w.t, w.Client().Status().Update(w.t.Context(), proxy))
	applied := named("applied")
	applied.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"data":{"key":"` + marker + `"}}` + "\n"}
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: named("aws-efs-cloud-credentials"), StringData: map[string]string{"credentials": marker}},
		&corev1.Secret{ObjectMeta: named("forgotten"), StringData: map[string]string{"password": marker}},
		&corev1.ConfigMap{ObjectMeta: named("notes"), Data: map[string]string{"first": marker, "second": "x"}},
		&corev1.ServiceAccount{ObjectMeta: applied},
		&corev1.Event{ObjectMeta: named("slip"), Reason: "Slip", Message: "asked http://user:" + marker + "@proxy.example",
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "slip"}},
	} {
		require.NoError(w.t, w.Client().Create(w.t.Context(), object))
	}
}

// TestMustGatherGoesOn: a cluster without the Operator Lifecycle Manager, and a driver that no operator of ours
// manages. Existing objects are collected; missing ones are listed, and are no failure. Only cluster-scoped objects and
// the command line tell the driver's namespace.
func TestMustGatherGoesOn(t *testing.T) {
	t.Parallel()
	c := cluster.Shared(t, cluster.Options{})
	const driver = "tug.csi.example.com"
	for _, test := range []struct {
		name  string
		proof func(in string) []client.Object
		named bool // on the command line
		found bool
	}{
		{name: "by SecurityContextConstraints", found: true, proof: func(in string) []client.Object {
			return []client.Object{privilegedSCC(in, "system:serviceaccount:"+in+":tug-node")}
		}},
		{name: "by a ClusterRoleBinding", found: true, proof: func(in string) []client.Object { return append(mayUse(in, in, "tug-node"), privilegedSCC(in)) }},
		{name: "by the command line", found: true, named: true},
		{name: "by nothing"},
		{name: "by another account's right", proof: func(in string) []client.Object {
			return []client.Object{privilegedSCC(in, "system:serviceaccount:"+in+":other")}
		}},
		{name: "by another right", proof: func(in string) []client.Object {
			constraints := privilegedSCC(in, "system:serviceaccount:"+in+":tug-node")
			constraints.AllowPrivilegedContainer = false
			return append(mayUse(in, in, "tug-node"), constraints)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := c.Namespace(t)
			labels := map[string]string{"app": "tug"}
			objects := []client.Object{&appsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{Name: "tug-node", Namespace: in},
				Spec: appsv1.DaemonSetSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec: corev1.PodSpec{ServiceAccountName: "tug-node", Containers: []corev1.Container{{
							Name: "registrar", Image: "registry.example/registrar:1",
							Args: []string{"--kubelet-registration-path=/var/lib/kubelet/plugins/" + driver + "/csi.sock"},
						}}},
					},
				},
			}}
			if test.proof != nil {
				objects = append(objects, test.proof(in)...)
			}
			for _, object := range objects {
				require.NoError(t, c.Client().Create(t.Context(), object))
				t.Cleanup(func() {
					assert.NoError(t, c.Client().Delete(context.Background(), object))
				})
			}
			argument := driver
			if test.named {
				argument += "/" + in
			}
			folder, summary := gather(t, c, argument)
			files := mustgather.Files(t, folder)
			file := driver + "/namespaces/" + in + "/daemonset-tug-node.yaml"
			assert.Equalf(t, test.found, files[file] != "", "file %s is there", file)
			wants := []string{"cluster/catalogsources.yaml: ", driver + "/clustercsidriver.yaml: ", driver + "/csidriver.yaml: "}
			if test.found {
				wants = append(wants, driver+"/namespaces/"+in+"/subscriptions.yaml: ")
			}
			for _, want := range wants {
				assert.Contains(t, "\n"+files["missing.txt"], "\n"+want, "missing.txt")
			}
			count := strings.Count(files["missing.txt"], "\n")
			want := fmt.Sprintf("gather: wrote %d files to %s; %d could not be collected, ", len(files), folder, count)
			assert.Truef(t, strings.HasPrefix(summary, want), "the last line is %q, want %q", summary, want)
		})
	}

	t.Run("without an operator and a name", func(t *testing.T) {
		folder, _ := gather(t, c)
		assert.Contains(t, "\n"+mustgather.Files(t, folder)["missing.txt"], "\ndrivers: found no operator", "missing.txt")
	})
}

// privilegedSCC are SecurityContextConstraints that let users run privileged containers.
func privilegedSCC(name string, users ...string) *securityv1.SecurityContextConstraints {
	return &securityv1.SecurityContextConstraints{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Users: users, AllowPrivilegedContainer: true,
		RunAsUser:      securityv1.RunAsUserStrategyOptions{Type: securityv1.RunAsUserStrategyRunAsAny},
		SELinuxContext: securityv1.SELinuxContextStrategyOptions{Type: securityv1.SELinuxStrategyRunAsAny},
	}
}

// mayUse lets a service account use SecurityContextConstraints.
func mayUse(constraints, namespace, account string) []client.Object {
	meta := metav1.ObjectMeta{Name: constraints + "-users"}
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{securityv1.GroupName},
			Resources: []string{"securitycontextconstraints"}, ResourceNames: []string{constraints}, Verbs: []string{"use"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}},
	}
}

// TestMustGatherStaysWithinLimits: the script stops at the size limit, and says so.
func TestMustGatherStaysWithinLimits(t *testing.T) {
	c := cluster.Shared(t, cluster.Options{})
	folder := filepath.Join(t.TempDir(), "must-gather")
	command := mustgather.Command(t, mustgather.Kubeconfig(t, c), folder)
	command.Env = append(command.Env, "MUST_GATHER_MIB=0")
	out, err := command.CombinedOutput()
	require.NoErrorf(t, err, "gather\n%s", out)
	files := mustgather.Files(t, folder)
	assert.Contains(t, files["missing.txt"], folder+": reached the limit of 0 MiB, so the rest was left out; ", "missing.txt")
	if len(files) > 11 { // the first eight are read at the same time; missing.txt, redacted.txt and version are about all
		t.Errorf("it wrote %q", slices.Sorted(maps.Keys(files)))
	}
}

// TestMustGatherTakesNames: only names get from the command line into paths and queries.
func TestMustGatherTakesNames(t *testing.T) {
	for _, argument := range []string{"../up", "efs.csi.aws.com/../up", "efs.csi.aws.com/", "/name", "-A", "a b", "a\nb", "\x1b[2J", "$(id)", strings.Repeat("a", 254)} {
		folder := filepath.Join(t.TempDir(), "out")
		out, err := mustgather.Command(t, "/nonexistent", folder, argument).CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), "gather: want DRIVER or DRIVER/NAMESPACE, ") || strings.ContainsAny(string(out), "\x1b") || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%q: error %v, and it says %q", argument, err, out)
		}
		_, err = os.Stat(folder)
		assert.Errorf(t, err, "%q: it wrote a folder all the same", argument)
	}
}

// TestMustGatherNeedsACluster: nobody takes an empty folder for a healthy cluster.
func TestMustGatherNeedsACluster(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(nowhere, []byte(`{clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}`), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "out")
	command := mustgather.Command(t, nowhere, folder)
	out, err := command.CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "gather: cannot reach the cluster: ") {
		t.Errorf("error %v, and it says %q", err, out)
	}
	_, err = os.Stat(folder)
	assert.Error(t, err, "it wrote a folder all the same")
}

// gather runs the script on a cluster and returns its folder and the last line that it printed.
func gather(t *testing.T, c *cluster.Cluster, drivers ...string) (folder, summary string) {
	t.Helper()
	folder, out := mustgather.Run(t, c, drivers...)
	assert.NotContains(t, out, marker, "it prints a secret")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return folder, lines[len(lines)-1]
}
