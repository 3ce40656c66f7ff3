package efs_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// TestAccessPointLimit: the limit is that of the driver's version, the default one's if nobody has said another.
func TestAccessPointLimit(t *testing.T) {
	for version, want := range map[string]int{"": 1000, "2.1.11": 1000, "v2.3.0": 1000, "2.3.1": 10000, "3.4.1": 10000, "new": 1000} {
		if got := efs.Driver.Quota.Limit(map[string]string{"DRIVER_VERSION": version}); got != want {
			t.Errorf("version %q: %d, want %d", version, got, want)
		}
	}
}

// TestSharedDirectory: a class is a risk if the deletion of one claim deletes the files of others.
func TestSharedDirectory(t *testing.T) {
	retain := corev1.PersistentVolumeReclaimRetain
	for name, tc := range map[string]struct {
		pattern, unique string
		policy          *corev1.PersistentVolumeReclaimPolicy
		want            bool
	}{
		"the whole file system":  {"/", "false", nil, true},
		"one directory":          {"/shared", "false", nil, true},
		"one for each namespace": {"/${.PVC.namespace}", "false", nil, true},
		"one for each claim":     {"/${.PVC.namespace}/${.PVC.name}", "false", nil, false},
		"one for each volume":    {"${.PV.name}", "false", nil, false},
		"made unique":            {"/", "", nil, false},
		"nothing is deleted":     {"/", "false", &retain, false},
		"no pattern":             {"", "false", nil, false},
	} {
		class := &storagev1.StorageClass{Parameters: map[string]string{"provisioningMode": "efs-ap", "ensureUniqueDirectory": tc.unique}, ReclaimPolicy: tc.policy}
		if tc.pattern != "" {
			class.Parameters["subPathPattern"] = tc.pattern
		}
		if got := efs.Driver.ClassRisk(class); (got != "") != tc.want {
			t.Errorf("%s: %q, want a risk: %t", name, got, tc.want)
		}
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
