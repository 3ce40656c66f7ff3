package efs_test

import (
	"context"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/efs"
	"github.com/berth-csi/berth/test/aws"
)

// TestCountAccessPoints: all pages are counted, and each call waits for its turn.
func TestCountAccessPoints(t *testing.T) {
	t.Parallel()
	c := newTagsCloud(t, aws.Options{})
	full, other := c.fileSystem(), c.fileSystem()
	for range 230 {
		c.accessPoint(full)
	}
	c.accessPoint(other)
	waits := 0
	access := drivers.CloudAccess{Infrastructure: c.infrastructure(), Credentials: keyPair(c.key),
		Wait: func(context.Context, bool) error { waits++; return nil }}
	if got, err := efs.Driver.Quota.Count(t.Context(), access, full); err != nil || got != 230 || waits != 3 {
		t.Errorf("counted %d, %v, with %d calls; want 230 with 3", got, err, waits)
	}
	_, err := efs.Driver.Quota.Count(t.Context(), access, "fs-0fedcba9876543210")
	if want := "file system fs-0fedcba9876543210 does not exist in the account"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("of an unknown file system: %v, want %q", err, want)
	}
	access.Credentials["aws_secret_access_key"] = []byte("wrong")
	if _, err := efs.Driver.Quota.Count(t.Context(), access, full); err == nil || !strings.Contains(err.Error(), "Renew the credentials in Secret tags-aws-efs-cloud-credentials") {
		t.Errorf("with a wrong key: %v", err)
	}
}

// TestFileSystemsOfClasses: only classes with which the driver creates access points count.
func TestFileSystemsOfClasses(t *testing.T) {
	for name, tc := range map[string]struct {
		parameters map[string]string
		want       string
	}{
		"an access point for each claim": {map[string]string{"provisioningMode": "efs-ap", "fileSystemId": "fs-0123456789abcdef0"}, "fs-0123456789abcdef0"},
		"existing access points":         {nil, ""},
		"another mode":                   {map[string]string{"provisioningMode": "efs-dir", "fileSystemId": "fs-0123456789abcdef0"}, ""},
		"another account": {map[string]string{"provisioningMode": "efs-ap", "fileSystemId": "fs-0123456789abcdef0",
			"csi.storage.k8s.io/provisioner-secret-name": "finance"}, ""},
		"no ID": {map[string]string{"provisioningMode": "efs-ap", "fileSystemId": "../fs-0123456789abcdef0"}, ""},
	} {
		if got := efs.Driver.Quota.Parent(&storagev1.StorageClass{Parameters: tc.parameters}); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
