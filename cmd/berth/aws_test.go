package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/aws/removal"
	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/efs"
)

// TestAWSDestroy: without --confirm nothing is deleted, and names in AWS do no harm on a terminal.
func TestAWSDestroy(t *testing.T) {
	region := aws.Start(t, aws.Options{})
	region.Configure(t, region.AddUser(t, "administrator", "*"))
	doomed := region.EFS.AddFileSystem(efs.FileSystem{CreationToken: "berth-prod-x7k2p-efs", Tags: map[string]string{"kubernetes.io/cluster/prod-x7k2p": "owned", "Name": "data\x1b[2J"}})
	both := region.EFS.AddFileSystem(efs.FileSystem{Tags: map[string]string{"kubernetes.io/cluster/prod-x7k2p": "owned", "kubernetes.io/cluster/other": "owned"}})
	byHand := region.EFS.AddFileSystem(efs.FileSystem{CreationToken: "console-1", Tags: map[string]string{"kubernetes.io/cluster/prod-x7k2p": "owned"}})

	run := func(args ...string) string {
		t.Helper()
		out := &bytes.Buffer{}
		cmd := newCommand()
		cmd.SetArgs(append([]string{"aws", "destroy", "--infra-id", "prod-x7k2p"}, args...))
		cmd.SetOut(out)
		require.NoErrorf(t, cmd.ExecuteContext(context.Background()), "berth aws destroy %q", args)
		return out.String()
	}
	if got := run(); strings.Contains(got, "\x1b") || !strings.Contains(got, "delete    file system     "+doomed.ID) ||
		!strings.Contains(got, "keep      file system     "+both.ID) || !strings.Contains(got, "its tags name the cluster other, too") || !strings.Contains(got, "1 to delete, 2 to keep.") || !strings.Contains(got, "Nothing was deleted.") {
		t.Errorf("the list is\n%s", got)
	}
	report := &removal.Report{}
	if err := json.Unmarshal([]byte(run("-o", "json")), report); err != nil || report.Schema != removal.Schema || !report.DryRun || len(report.Delete) != 1 || len(report.Keep) != 2 {
		t.Errorf("the report is %+v, %v", report, err)
	}
	if got := len(region.EFS.FileSystems()); got != 3 {
		t.Fatalf("without --confirm, %d of 3 file systems are left", got)
	}
	if got := run("--confirm"); !strings.Contains(got, "deleted   file system "+doomed.ID) || strings.Contains(got, "Nothing was deleted.") {
		t.Errorf("it printed\n%s", got)
	}
	assert.Contains(t, run("--confirm", "--trust-tags-of", byHand.ID, "--trust-tags-of", both.ID), "deleted   file system "+byHand.ID)
	if left := region.EFS.FileSystems(); len(left) != 1 || left[0].ID != both.ID {
		t.Errorf("what is left is %+v", left)
	}
}

// TestAWSWithoutCredentials: on a machine whose metadata service provides none, the only line of output is
// advice.
func TestAWSWithoutCredentials(t *testing.T) {
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(map[string]int{http.MethodPut: http.StatusForbidden, http.MethodGet: http.StatusNotFound}[r.Method])
	}))
	defer metadata.Close()
	cmd := exec.CommandContext(t.Context(), itself(t), "aws", "destroy", "--infra-id", "prod-x7k2p", "--region", "eu-north-1")
	cmd.Env = []string{"HOME=" + t.TempDir(), "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + metadata.URL}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("it ended with %v, want exit code %d", err, exitFailed)
	}
	if got := string(out); !strings.HasPrefix(got, "berth: there are no AWS credentials: set AWS_PROFILE") || strings.Count(got, "\n") != 1 {
		t.Errorf("it printed %q", got)
	}
}
