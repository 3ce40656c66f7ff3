package node_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestKubectlLogs(t *testing.T) {
	c := sharedCluster(t)
	pod := c.pod(t, c.namespace(t), "program", "serve", func(spec *corev1.PodSpec) {
		spec.Containers = append(spec.Containers, corev1.Container{Name: "other", Image: "registry.example.com/other"})
	})
	c.awaitServing(t, pod)
	for _, path := range []string{"/say?words=one", "/say?words=two", "/exit?code=7"} {
		ask(t.Context(), pod.Status.PodIP, path) // It does not respond to the last one.
	}
	await(t, c, pod, "the restart", restarted(1))
	c.awaitServing(t, pod)

	tests := map[string]struct {
		args []string
		want string
	}{
		"current run":       {[]string{"--container=main"}, "serving\n"},
		"previous run":      {[]string{"--container=main", "--previous"}, "serving\none\ntwo\n"},
		"last lines":        {[]string{"--container=main", "--previous", "--tail=2"}, "one\ntwo\n"},
		"limited":           {[]string{"--container=main", "--limit-bytes=3"}, "ser"},
		"no program":        {[]string{"--container=other"}, "The process node has no program for the image registry.example.com/other and only reports this container running.\n"},
		"times are unknown": {[]string{"--container=main", "--since=1m"}, "the process node keeps no time for each line of a log"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"logs", "--namespace", pod.Namespace, pod.Name}, test.args...)
			output, err := c.Kubectl(t.Context(), args...).CombinedOutput()
			if err != nil && strings.Contains(string(output), test.want) {
				return
			}
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(test.want, string(output)), "(-want +got)")
		})
	}

	// On the machine, the log is in a file, and the process has the program's name and arguments.
	logs, err := filepath.Glob(filepath.Join(c.Dir(), "nodes", pod.Spec.NodeName, fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID), "main.log"))
	require.NoError(t, err)
	assert.Len(t, logs, 1, "logs on the machine")
	me := c.awaitServing(t, pod)
	assert.Equal(t, fmt.Sprintf("process://%d", me.PID), pod.Status.ContainerStatuses[0].ContainerID, "the container's ID, which has that of the process")
	listed, err := exec.Command("ps", "-o", "args=", "-p", fmt.Sprint(me.PID)).Output()
	if program, _ := os.Executable(); err != nil || !strings.HasPrefix(string(listed), program) {
		t.Errorf("ps shows %q, %v, want %s", listed, err, program)
	}
}
