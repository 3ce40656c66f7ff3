package main

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/internal/aws/provision"
	"github.com/berth-csi/berth/internal/aws/removal"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/sharedvolume/api/v1alpha1"
	"github.com/berth-csi/berth/test/hostile"
)

// TestHostileFields puts hostile texts into each field of grants and of resources of AWS, and looks at what commands print of them.
func TestHostileFields(t *testing.T) {
	const limit = 20 << 10 // bytes of a line
	for _, text := range hostile.Texts() {
		grants := []v1alpha1.SharedVolumeGrant{{
			ObjectMeta: metav1.ObjectMeta{Name: "shop"},
			Spec:       v1alpha1.SharedVolumeGrantSpec{NamespaceUID: "n-1", FileSystems: []v1alpha1.FileSystemGrant{{FileSystemID: "fs-01", AccessPointIDs: []string{"fsap-02"}}}},
			Status:     v1alpha1.SharedVolumeGrantStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionEffective, Status: metav1.ConditionFalse, Reason: "NamespaceMissing", Message: "m"}}},
		}}
		hostile.Each(&grants, text, func(path string) {
			var out bytes.Buffer
			require.NoError(t, listGrants(&out, grants))
			hostile.Check(t, "grants with a hostile "+path, out.String(), limit)
		})
		args := []string{"shop", "fs-01", "fsap-02"}
		hostile.Each(&args, text, func(path string) {
			if _, err := parseGrant(args); err == nil {
				t.Errorf("berth grant takes a hostile %s", path)
			} else {
				hostile.Check(t, "the error for a hostile "+path, escape.Line(err.Error()), limit)
			}
		})
		inventory := &removal.Inventory{Cluster: "mine",
			Delete: []removal.Resource{{Kind: removal.FileSystem, ID: "fs-01", Name: "n"}}, Keep: []removal.Resource{{Kind: removal.AccessPoint, ID: "fsap-02", Name: "n", FileSystem: "fs-01", Kept: "k"}}}
		hostile.Each(inventory, text, func(path string) {
			var out, data bytes.Buffer
			cmd := &cobra.Command{}
			cmd.SetOut(&out)
			listInventory(cmd, inventory)
			hostile.Check(t, "resources with a hostile "+path, out.String(), limit)
			require.NoError(t, escape.JSON(&data, removal.Report{Inventory: *inventory}))
			hostile.Check(t, "resources as JSON, with a hostile "+path, data.String(), 1<<20)
		})
		created := &provision.Report{Schema: provision.Schema, Cluster: "mine", Region: "us-east-1",
			Resources: []provision.Resource{{Kind: removal.FileSystem, ID: "fs-0123456789abcdef0", About: "mine-efs"}, {Kind: removal.MountTarget, ID: "fsmt-0123456789abcdef0", About: "us-east-1a", Found: true},
				{Kind: removal.AccessPoint, ID: "fsap-0123456789abcdef0", About: "/a"}}}
		hostile.Each(created, text, func(path string) {
			var out, data bytes.Buffer
			for _, r := range created.Resources {
				showResource(&out, r, false)
			}
			hostile.Check(t, "created resources with a hostile "+path, out.String(), limit)
			if lines := bytes.Count(out.Bytes(), []byte("\n")); lines != len(created.Resources) {
				t.Errorf("a hostile %s makes %d lines of %d resources", path, lines, len(created.Resources))
			}
			require.NoError(t, printCreated(&data, "json", *created, "efs"))
			hostile.Check(t, "created resources as JSON, with a hostile "+path, data.String(), 1<<20)
			for _, format := range []string{formatSharedVolume, formatStorageClass} {
				data.Reset()
				if err := printCreated(&data, format, *created, "efs"); err != nil {
					hostile.Check(t, "the error for a hostile "+path, escape.Line(err.Error()), limit)
				} else if data.Len() > 1<<10 {
					t.Errorf("a hostile %s gets into a manifest: %.300s", path, &data)
				}
				hostile.Check(t, "a "+format+" with a hostile "+path, data.String(), limit)
			}
		})
	}
}
