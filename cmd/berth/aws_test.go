package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
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

// TestAWSDestroyOnlyTheList: after an administrator has read the list, somebody who may only set tags adds another cluster's volume to it.
// The command that the list suggests then deletes nothing. It shows the new list, and the command that deletes that one.
func TestAWSDestroyOnlyTheList(t *testing.T) {
	region := aws.Start(t, aws.Options{})
	user := region.AddUser(t, "administrator", "*")
	region.Configure(t, user)
	account := ec2.NewFromConfig(region.Config("ec2", user))
	tag := func(id string) {
		t.Helper()
		_, err := account.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{
			{Key: new("kubernetes.io/cluster/prod-x7k2p"), Value: new("owned")}, {Key: new("CSIVolumeName"), Value: new("pvc-1")}}})
		require.NoError(t, err)
	}
	volume := func() string {
		t.Helper()
		v, err := account.CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: &region.Zones()[0].Name, Size: new(int32(1))})
		require.NoError(t, err)
		return *v.VolumeId
	}
	run := func(args ...string) (string, error) {
		t.Helper()
		out := &bytes.Buffer{}
		cmd := newCommand()
		cmd.SetArgs(append([]string{"aws", "destroy"}, args...))
		cmd.SetOut(out)
		err := cmd.ExecuteContext(context.Background())
		return out.String(), err
	}
	suggested := func(text string) []string {
		t.Helper()
		command := regexp.MustCompile(`berth aws destroy (--infra-id prod-x7k2p --region us-east-1 --confirm=[0-9a-f]{12})\b`).FindStringSubmatch(text)
		require.NotNilf(t, command, "want a command with a digest in\n%s", text)
		return strings.Fields(command[1])
	}
	left := func(want ...string) {
		t.Helper()
		var ids []string
		for _, v := range region.EC2.Volumes() {
			ids = append(ids, v.ID)
		}
		assert.ElementsMatch(t, want, ids, "the volumes")
	}

	mine, others := volume(), volume()
	tag(mine)
	list, err := run("--infra-id", "prod-x7k2p", "--region", "us-east-1")
	require.NoError(t, err)
	first := suggested(list)

	tag(others)
	list, err = run(first...)
	require.ErrorContains(t, err, "the list has changed")
	require.ErrorContains(t, err, "nothing was deleted")
	assert.Contains(t, list, others, "the new list")
	left(mine, others)
	report := &removal.Report{}
	list, err = run(append(first, "-o", "json")...)
	require.ErrorContains(t, err, "the list has changed")
	require.NoError(t, json.Unmarshal([]byte(list), report))
	assert.True(t, report.DryRun, "dryRun in the report of a run that deletes nothing")
	second := suggested(err.Error())
	assert.Equal(t, "--confirm="+report.Digest, second[len(second)-1])

	for _, wrong := range []string{"--confirm=", "--confirm=9b1c", "--confirm=" + mine} {
		_, err = run("--infra-id", "prod-x7k2p", "--region", "us-east-1", wrong)
		require.ErrorContains(t, err, "want no value, or the digest", wrong)
	}
	_, err = run("--infra-id", "prod-x7k2p", "--region", "us-east-1", "--confirm=false")
	require.NoError(t, err)
	left(mine, others)

	_, err = run(second...)
	require.NoError(t, err)
	left()
	_, err = run(second...)
	require.NoError(t, err, "the same command when nothing is left")
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

// TestAWSUnanswered: while the SDK tries an endpoint again that does not answer, the command says so, and its error says what to check.
func TestAWSUnanswered(t *testing.T) {
	dead := httptest.NewServer(nil)
	dead.Close()
	for name, value := range map[string]string{"HOME": t.TempDir(), "AWS_ENDPOINT_URL": dead.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"} {
		t.Setenv(name, value)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said := &bytes.Buffer{}
	cmd := newCommand()
	cmd.SetArgs([]string{"aws", "destroy", "--infra-id", "prod-x7k2p", "--region", "us-east-1"})
	cmd.SetErr(writerFunc(func(text []byte) (int, error) { cancel(); return said.Write(text) }))
	require.ErrorIs(t, cmd.ExecuteContext(ctx), errInterrupted)
	assert.Regexp(t, `^AWS does not answer: .*"`+dead.URL+`/.*: connection refused; trying up to 10 times\n$`, said.String())

	err := stopped(t.Context(), &smithyhttp.RequestSendError{Err: errors.New("refused")})
	assert.ErrorContains(t, err, "refused; check the network, such as a VPN or HTTPS_PROXY, and AWS_ENDPOINT_URL")
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(text []byte) (int, error) { return w(text) }
