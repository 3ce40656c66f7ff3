package sharedvolume_test

import (
	"context"
	"strings"
	"testing"

	"github.com/berth-csi/berth/test/cluster"
)

func TestKubectlExplain(t *testing.T) {
	w := served(t)
	cluster.Eventually(t, patience, "the definition to be published", func(ctx context.Context) error {
		return w.Kubectl(ctx, "explain", "sharedvolume").Run()
	})
	for object, fields := range map[string][]string{
		"sharedvolume":                   {"spec", "status"},
		"sharedvolume.spec":              {"fileSystemID", "accessPointID"},
		"sharedvolume.status":            {"claimRef", "phase", "message", "observedGeneration", "conditions"},
		"sharedvolume.status.claimRef":   {"apiGroup", "kind", "name"},
		"sharedvolume.status.conditions": {"type", "status", "observedGeneration", "lastTransitionTime", "reason", "message"},
	} {
		text := w.kubectl("explain", object)
		for _, field := range fields {
			if !strings.Contains(text, "\n  "+field+"\t") {
				t.Errorf("kubectl explain %s does not know %s:\n%s", object, field, text)
			}
		}
		if strings.Contains(text, "<no description>") || strings.Contains(text, "<empty>") {
			t.Errorf("kubectl explain %s does not describe all:\n%s", object, text)
		}
	}
}

func TestKubectlWaitAndGet(t *testing.T) {
	w := served(t)
	sv := w.create(w.Namespace(t), "logs")
	w.kubectl("wait", "--namespace="+sv.Namespace, "--for=condition=Ready", "--timeout="+patience.String(), "sharedvolume/logs")
	lines := strings.Split(w.kubectl("get", "--namespace="+sv.Namespace, "sv"), "\n")
	want := "logs fs-0123456789abcdef0 fsap-0123456789abcdef0 Ready pvc-logs"
	if len(lines) < 2 || !strings.HasPrefix(strings.Join(strings.Fields(lines[1]), " "), want) {
		t.Errorf("kubectl get shows %q, want a line %q", lines, want)
	}
}

// kubectl runs kubectl as the administrator, and returns what it prints.
func (w world) kubectl(args ...string) string {
	w.t.Helper()
	out, err := w.Kubectl(w.t.Context(), args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
