package sharedvolume_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
)

func TestKubectlExplain(t *testing.T) {
	env := served(t)
	for _, kind := range []string{"sharedvolume", "sharedvolumegrant", "sharedvolumepolicy"} {
		cluster.Eventually(t, waitLimit, "the definition to be published", func(ctx context.Context) error {
			return env.Kubectl(ctx, "explain", kind).Run()
		})
	}
	for object, fields := range map[string][]string{
		"sharedvolume":                   {"spec", "status"},
		"sharedvolume.spec":              {"fileSystemID", "accessPointID"},
		"sharedvolume.status":            {"claimRef", "phase", "message", "reason", "summary", "observedGeneration", "conditions"},
		"sharedvolume.status.claimRef":   {"apiGroup", "kind", "name"},
		"sharedvolume.status.conditions": {"type", "status", "observedGeneration", "lastTransitionTime", "reason", "message"},

		"sharedvolumegrant":                  {"spec", "status"},
		"sharedvolumegrant.spec":             {"fileSystems", "namespaceUID"},
		"sharedvolumegrant.spec.fileSystems": {"fileSystemID", "accessPointIDs"},
		"sharedvolumegrant.status":           {"namespaceUID", "conditions"},
		"sharedvolumepolicy":                 {"spec", "status"},
		"sharedvolumepolicy.spec":            {"access"},
		"sharedvolumepolicy.status":          {"conditions"},
	} {
		text := env.kubectl("explain", object)
		for _, field := range fields {
			assert.Containsf(t, text, "\n  "+field+"\t", "kubectl explain %s does not know %s", object, field)
		}
		if strings.Contains(text, "<no description>") || strings.Contains(text, "<empty>") {
			t.Errorf("kubectl explain %s does not describe all:\n%s", object, text)
		}
	}
}

func TestKubectlWaitAndGet(t *testing.T) {
	env := served(t)
	sv := env.create(env.Namespace(t), "logs")
	env.kubectl("wait", "--namespace="+sv.Namespace, "--for=condition=Ready", "--timeout="+waitLimit.String(), "sharedvolume/logs")
	lines := strings.Split(env.kubectl("get", "--namespace="+sv.Namespace, "sv"), "\n")
	assert.Equal(t, "NAME FILE SYSTEM ACCESS POINT STATUS CLAIM AGE", strings.Join(strings.Fields(lines[0]), " "), "columns of kubectl get")
	want := "logs fs-0123456789abcdef0 fsap-0123456789abcdef0 Ready pvc-logs"
	if len(lines) < 2 || !strings.HasPrefix(strings.Join(strings.Fields(lines[1]), " "), want) {
		t.Errorf("kubectl get shows %q, want a line %q", lines, want)
	}
}

func TestKubectlGetGrants(t *testing.T) {
	env := served(t)
	namespace := env.Namespace(t)
	grant := newGrant(namespace, "fs-01", "fsap-01")
	env.do("create", env.client.Create(t.Context(), grant))
	env.granted(namespace)
	lines := strings.Split(env.kubectl("get", "svg", namespace), "\n")
	if want := namespace + " True NamespaceFound"; len(lines) < 2 || !strings.HasPrefix(strings.Join(strings.Fields(lines[1]), " "), want) {
		t.Errorf("kubectl get shows %q, want a line %q", lines, want)
	}
	policy := &v1alpha1.SharedVolumePolicy{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.PolicyName}}
	env.eventually("the policy's status", policy, func() error {
		if len(policy.Status.Conditions) == 0 {
			return errors.New("it has none")
		}
		return nil
	})
	lines = strings.Split(env.kubectl("get", "svp"), "\n")
	if want := "cluster Open False"; len(lines) < 2 || !strings.HasPrefix(strings.Join(strings.Fields(lines[1]), " "), want) {
		t.Errorf("kubectl get shows %q, want a line %q", lines, want)
	}
	env.events(policy, "Warning Open 1")
}

// kubectl runs kubectl as the administrator, and returns its output.
func (env testEnv) kubectl(args ...string) string {
	env.t.Helper()
	out, err := env.Kubectl(env.t.Context(), args...).CombinedOutput()
	require.NoErrorf(env.t, err, "kubectl %s:\n%s", strings.Join(args, " "), out)
	return string(out)
}
