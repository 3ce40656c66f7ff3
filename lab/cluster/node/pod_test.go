package node_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/lab/cluster"
)

func TestProgramHasTheRightsOfItsServiceAccount(t *testing.T) {
	c := sharedCluster(t)
	namespace := c.namespace(t)
	c.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"}})
	c.create(t, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
	})
	c.create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "reader"}},
	})
	pod := c.pod(t, namespace, "program", "serve", func(spec *corev1.PodSpec) { spec.ServiceAccountName = "reader" })
	ip := c.awaitReady(t, pod)

	cluster.Eventually(t, waitLimit, "the program to list ConfigMaps", func(ctx context.Context) error {
		answer, err := ask(ctx, ip, "/list?resource=configmaps")
		if err == nil && !strings.Contains(answer, "kube-root-ca.crt") {
			err = fmt.Errorf("ConfigMaps of another namespace: %s", answer)
		}
		return err
	})
	_, err := ask(t.Context(), ip, "/list?resource=secrets")
	if want := fmt.Sprintf("system:serviceaccount:%s:reader", namespace); err == nil || !strings.Contains(err.Error(), "forbidden") || !strings.Contains(err.Error(), want) {
		t.Errorf("listing Secrets: got %v, want it forbidden to %s", err, want)
	}
}

func TestProgramGetsArgumentsAndEnvironment(t *testing.T) {
	c := sharedCluster(t)
	namespace := c.namespace(t)
	c.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"COLOUR": "red", "SIZE": "small"}})
	c.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keys"}, StringData: map[string]string{"key": "sesame"}})

	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	pod := c.pod(t, namespace, "program", "serve", func(spec *corev1.PodSpec) {
		main := &spec.Containers[0]
		main.Command = []string{"/usr/bin/something", "first"}
		main.Args = []string{"--colour=$(COLOUR)", "$$(COLOUR)", "$(UNKNOWN)"}
		main.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}
		main.EnvFrom = []corev1.EnvFromSource{
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
			{Prefix: "THE_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "missing"}, Optional: new(true)}},
		}
		main.Env = append(main.Env, []corev1.EnvVar{
			{Name: "SIZE", Value: "large"},
			{Name: "BOTH", Value: "$(COLOUR) and $(SIZE)"},
			{Name: "NAME", ValueFrom: field("metadata.name")},
			{Name: "NAMESPACE", ValueFrom: field("metadata.namespace")},
			{Name: "NODE", ValueFrom: field("spec.nodeName")},
			{Name: "ACCOUNT", ValueFrom: field("spec.serviceAccountName")},
			{Name: "LABEL", ValueFrom: field("metadata.labels['app']")},
			{Name: "MEMORY", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}}},
			{Name: "FROM_MAP", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "SIZE"}}},
			{Name: "FROM_SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Key: "key"}}},
			{Name: "ABSENT", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Key: "other", Optional: new(true)}}},
		}...)
	})
	me := c.awaitServing(t, pod)

	assert.Empty(t, cmp.Diff([]string{"first", "--colour=red", "$(COLOUR)", "$(UNKNOWN)"}, me.Args), "arguments (-want +got)")
	for _, want := range []string{
		"COLOUR=red", "SIZE=large", "THE_key=sesame", "BOTH=red and large", "NAME=program", "NAMESPACE=" + namespace,
		"NODE=" + pod.Spec.NodeName, "ACCOUNT=default", "LABEL=test", "POD_IP=" + pod.Status.PodIP, "MEMORY=100", "FROM_MAP=small", "FROM_SECRET=sesame",
	} {
		assert.Containsf(t, me.Env, want, "the environment lacks %s", want)
	}
	if i := slices.IndexFunc(me.Env, func(v string) bool { return strings.HasPrefix(v, "ABSENT=") || strings.HasPrefix(v, "GOPATH=") }); i >= 0 {
		t.Errorf("the environment has %s, want neither missing optional keys nor variables of the node", me.Env[i])
	}
}

func TestProgramSeesItsVolumes(t *testing.T) {
	c := sharedCluster(t)
	namespace := c.namespace(t)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"colour": "red", "size": "small"}}
	c.create(t, settings)
	c.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keys"}, StringData: map[string]string{"key": "sesame"}})
	pod := c.pod(t, namespace, "program", "serve", func(spec *corev1.PodSpec) {
		spec.Volumes = []corev1.Volume{
			{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
			{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys", Items: []corev1.KeyToPath{{Key: "key", Path: "deep/key.pem"}}}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Items: []corev1.KeyToPath{{Key: "colour", Path: "colour"}}}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}}},
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "somebody-else"}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
			}}}},
		}
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
			{Name: "settings", MountPath: "/run/settings"},
			{Name: "settings", MountPath: "/run/size", SubPath: "size"},
			{Name: "keys", MountPath: "/run/keys"},
			{Name: "scratch", MountPath: "/tmp/scratch"},
			{Name: "all", MountPath: "/var/run/all"},
		}
	})
	ip := c.awaitReady(t, pod)

	shows := func(path string, check func(string) error) func(context.Context) error {
		return func(ctx context.Context) error {
			content, err := ask(ctx, ip, "/file?path="+path)
			if err != nil {
				return err
			}
			return check(content)
		}
	}
	is := func(want string) func(string) error {
		return func(got string) error {
			if got != want {
				return fmt.Errorf("got %q, want %q", got, want)
			}
			return nil
		}
	}
	for path, want := range map[string]string{
		"/run/settings/colour":   "red",
		"/run/size":              "small",
		"/run/keys/deep/key.pem": "sesame",
		"/var/run/all/colour":    "red",
		"/var/run/all/key":       "sesame",
		"/var/run/all/labels":    `app="test"`,
	} {
		cluster.Eventually(t, waitLimit, path, shows(path, is(want)))
	}
	token, err := ask(t.Context(), ip, "/file?path=/var/run/all/token")
	require.NoError(t, err)
	for _, want := range []string{`"aud":["somebody-else"]`, string(pod.UID)} {
		assert.Contains(t, claimsOf(t, token), want, "the token says")
	}

	for path, writable := range map[string]bool{"/tmp/scratch/file": true, "/tmp/file": true, "/run/file": true, "/run/settings/file": false, "/run/keys/file": false} {
		_, err := send(t.Context(), http.MethodPost, ip, "/write?path="+path)
		assert.Equalf(t, writable, err == nil, "writing %s: %v", path, err)
	}

	// Changes in the API show up in the volume.
	settings.Data["colour"], settings.Data["shape"] = "blue", "round"
	delete(settings.Data, "size")
	require.NoError(t, c.Client().Update(t.Context(), settings))
	cluster.Eventually(t, waitLimit, "the changed key", shows("/run/settings/colour", is("blue")))
	cluster.Eventually(t, waitLimit, "the new key", shows("/run/settings/shape", is("round")))
	require.NoError(t, c.Client().Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"app":"changed"}}}`))))
	cluster.Eventually(t, waitLimit, "the changed label", shows("/var/run/all/labels", is(`app="changed"`)))
	content, err := ask(t.Context(), ip, "/file?path=/run/settings/size")
	assert.Errorf(t, err, "the removed key still shows %q", content)
}

// claimsOf returns the claims of a JSON web token.
func claimsOf(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	require.Lenf(t, parts, 3, "%q is not a JSON web token", token)
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	require.NoError(t, err)
	return string(claims)
}

func TestPodWaitsForWhatItNeeds(t *testing.T) {
	c := sharedCluster(t)
	tests := map[string]struct {
		change func(*corev1.PodSpec)
		reason string
	}{
		"volume": {reason: "ContainerCreating", change: func(spec *corev1.PodSpec) {
			spec.Volumes = []corev1.Volume{{Name: "late", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "late"}}}}
			spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "late", MountPath: "/run/late"}}
		}},
		"variable": {reason: "CreateContainerConfigError", change: func(spec *corev1.PodSpec) {
			spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}}}}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := c.namespace(t)
			pod := c.pod(t, namespace, "program", "serve", test.change)
			awaitWaiting(t, c, pod, test.reason, `secret "late" not found`)
			c.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "late"}, StringData: map[string]string{"key": "value"}})
			c.awaitServing(t, pod)
		})
	}
}

func TestMountPathThatCannotBeMade(t *testing.T) {
	c := sharedCluster(t)
	pod := c.pod(t, c.namespace(t), "program", "serve", func(spec *corev1.PodSpec) {
		spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/no-such-folder/data"}}
	})
	awaitWaiting(t, c, pod, "CreateContainerError", "mountPath /no-such-folder/data: /no-such-folder does not exist on this machine")
}

// awaitWaiting waits until the pod's container is waiting with this reason and message.
func awaitWaiting(t *testing.T, c testCluster, pod *corev1.Pod, reason, message string) {
	t.Helper()
	await(t, c, pod, "the container to wait", func(pod *corev1.Pod) error {
		if len(pod.Status.ContainerStatuses) == 0 {
			return errors.New("no container status")
		}
		waiting := pod.Status.ContainerStatuses[0].State.Waiting
		if waiting == nil || waiting.Reason != reason || !strings.Contains(waiting.Message, message) {
			return fmt.Errorf("got %s, want it waiting with reason %s and message %q", toJSON(pod.Status.ContainerStatuses), reason, message)
		}
		return nil
	})
}

func TestPodsListenOnTheSamePort(t *testing.T) {
	c := sharedCluster(t)
	namespace := c.namespace(t)
	one, other := c.pod(t, namespace, "one", "serve"), c.pod(t, namespace, "other", "serve")
	assert.NotEqual(t, c.awaitServing(t, other).PID, c.awaitServing(t, one).PID, "one process responds at both addresses")
	assert.NotEqual(t, other.Status.PodIP, one.Status.PodIP, "both pods have one address")
}

func TestOtherImagesAreReportedRunning(t *testing.T) {
	c := sharedCluster(t)
	pod := c.pod(t, c.namespace(t), "program", "serve", func(spec *corev1.PodSpec) {
		spec.InitContainers = []corev1.Container{
			{Name: "prepare", Image: "registry.example.com/other/prepare"},
			{Name: "beside", Image: "registry.example.com/other/beside", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
		}
		spec.Containers = append(spec.Containers, corev1.Container{
			Name: "sidecar", Image: "registry.example.com/other/sidecar",
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"false"}}}},
		})
	})
	c.awaitServing(t, pod)
	got := map[string]string{}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch {
		case status.State.Running != nil:
			got[status.Name] = fmt.Sprintf("running, ready %v", status.Ready)
		case status.State.Terminated != nil:
			got[status.Name] = status.State.Terminated.Reason
		}
	}
	want := map[string]string{"prepare": "Completed", "beside": "running, ready true", "main": "running, ready true", "sidecar": "running, ready true"}
	assert.Empty(t, cmp.Diff(want, got), "containers (-want +got)")
	assert.Equal(t, corev1.PodRunning, pod.Status.Phase, "the pod's phase")
}
