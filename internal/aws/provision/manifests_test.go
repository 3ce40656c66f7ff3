package provision

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-csi/berth/internal/aws/removal"
)

// TestManifests: paths become valid names of objects.
func TestManifests(t *testing.T) {
	report := Report{Resources: []Resource{
		{Kind: removal.FileSystem, ID: "fs-0123456789abcdef0", About: "mine-efs"},
		{Kind: removal.AccessPoint, ID: "fsap-1", About: "/Team A/data"},
		{Kind: removal.AccessPoint, ID: "fsap-2", About: "/team-a-data"},
		{Kind: removal.AccessPoint, ID: "fsap-3", About: "/_/" + strings.Repeat("x", 80)},
		{Kind: removal.AccessPoint, ID: "fsap-4", About: "/…"},
	}}
	volume := func(name, point string) string {
		return `apiVersion: aws-efs.managed.openshift.io/v1alpha1
kind: SharedVolume
metadata:
  name: ` + name + `
spec:
  accessPointID: ` + point + `
  fileSystemID: fs-0123456789abcdef0
`
	}
	want := strings.Join([]string{volume("team-a-data", "fsap-1"), volume("team-a-data-2", "fsap-2"),
		volume(strings.Repeat("x", 50), "fsap-3"), volume("share", "fsap-4")}, "---\n")
	if got, err := report.SharedVolumes(); err != nil || string(got) != want {
		t.Errorf("SharedVolumes: %v (-want +got):\n%s", err, cmp.Diff(want, string(got)))
	}
	want = `apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: second-dynamic
parameters:
  directoryPerms: "700"
  fileSystemId: fs-0123456789abcdef0
  provisioningMode: efs-ap
provisioner: efs.csi.aws.com
`
	if got, err := report.StorageClass("second"); err != nil || string(got) != want {
		t.Errorf("StorageClass: %v (-want +got):\n%s", err, cmp.Diff(want, string(got)))
	}
	if got, err := (Report{}).StorageClass("efs"); err == nil {
		t.Errorf("without a file system: %s", got)
	}
}
