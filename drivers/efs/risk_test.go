package efs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-csi/berth/drivers/efs"
)

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
		assert.Equalf(t, tc.want, efs.Driver.ClassRisk(class) != "", "%s has a risk", name)
	}
}
