package efs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-csi/berth/drivers/efs"
)

// TestSharedDirectory: a class is a risk if the deletion of one claim deletes the files of others, or if claims of different namespaces share an access
// point, or a directory with files that both can reach.
func TestSharedDirectory(t *testing.T) {
	retain := corev1.PersistentVolumeReclaimRetain
	for name, tc := range map[string]struct {
		pattern, unique string
		policy          *corev1.PersistentVolumeReclaimPolicy
		want            bool
		reuse           string
	}{
		"the whole file system":                   {"/", "false", nil, true, ""},
		"one directory":                           {"/shared", "false", nil, true, ""},
		"one for each namespace":                  {"/${.PVC.namespace}", "false", nil, true, ""},
		"one for each claim":                      {"/${.PVC.namespace}/${.PVC.name}", "false", nil, false, ""},
		"one for each volume":                     {"${.PV.name}", "false", nil, false, ""},
		"made unique":                             {"/", "", nil, false, ""},
		"nothing is deleted":                      {"/", "false", &retain, false, ""},
		"no pattern":                              {"", "false", nil, false, ""},
		"not made unique, as the driver reads it": {"/", "F", nil, true, ""},
		"made unique, as the driver reads what is no value": {"/", "no", nil, false, ""},
		// Namespace shop with claim a-b, and namespace shop-a with claim b.
		"names of a claim that run together":               {"/${.PVC.namespace}-${.PVC.name}", "false", nil, true, ""},
		"the same, the other way round":                    {"/${.PVC.name}${.PVC.namespace}", "false", nil, true, ""},
		"names with what is in no namespace":               {"/${.PVC.namespace}.${.PVC.name}", "false", nil, false, ""},
		"the same with the name first":                     {"/${.PVC.name}-x_y-${.PVC.namespace}", "false", nil, false, ""},
		"a directory that the driver leaves again":         {"/${.PVC.namespace}/../${.PVC.name}", "false", nil, true, ""},
		"an access point for each name of a claim":         {"", "", nil, true, "true"},
		"the same, as the driver reads it":                 {"/${.PVC.namespace}/${.PVC.name}", "true", nil, true, "1"},
		"an access point for each name, which is kept":     {"", "", &retain, true, "true"},
		"an access point of each claim, as the class says": {"", "", nil, false, "false"},
	} {
		class := &storagev1.StorageClass{Parameters: map[string]string{"provisioningMode": "efs-ap", "directoryPerms": "700", "ensureUniqueDirectory": tc.unique, "reuseAccessPoint": tc.reuse},
			ReclaimPolicy: tc.policy}
		if tc.pattern != "" {
			class.Parameters["subPathPattern"] = tc.pattern
		}
		assert.Equalf(t, tc.want, efs.Driver.ClassRisk(class) != "", "%s has a risk", name)
	}
}

// TestSharedFiles: with a directory that claims share, and that nobody deletes, it depends on the users of the access points, and on the permissions of
// the directory, whether one team can reach the files of another.
func TestSharedFiles(t *testing.T) {
	retain := corev1.PersistentVolumeReclaimRetain
	for parameters, want := range map[[3]string]bool{ // uid, gid and directoryPerms
		{"", "", "700"}:         false,
		{"", "", "0770"}:        false,
		{"", "1000", "700"}:     false,
		{"1000", "1000", "700"}: true,
		{"1000", "", "700"}:     true,
		{"", "1000", "770"}:     true,
		{"", "", "755"}:         true,
		{"", "", "777"}:         true,
	} {
		class := &storagev1.StorageClass{ReclaimPolicy: &retain, Parameters: map[string]string{"provisioningMode": "efs-ap", "subPathPattern": "/${.PVC.name}", "ensureUniqueDirectory": "false",
			"uid": parameters[0], "gid": parameters[1], "directoryPerms": parameters[2]}}
		assert.Equalf(t, want, efs.Driver.ClassRisk(class) != "", "uid, gid and directoryPerms %q have a risk", parameters)
		class.Parameters["subPathPattern"] = "/${.PVC.namespace}/${.PVC.name}"
		assert.Emptyf(t, efs.Driver.ClassRisk(class), "the risk of a directory for each claim, with %q", parameters)
	}
}
