package operator_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	operatorv1 "github.com/openshift/api/operator/v1"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/lab/fault"
)

// variantNames are the names of the variants. A ClusterCSIDriver may have few names besides these.
var variantNames = []operatorv1.CSIDriverName{
	operatorv1.AWSEBSCSIDriver, operatorv1.AzureDiskCSIDriver, operatorv1.AzureFileCSIDriver, operatorv1.GCPPDCSIDriver,
	operatorv1.CinderCSIDriver, operatorv1.ManilaCSIDriver, operatorv1.KubevirtCSIDriver, operatorv1.SambaCSIDriver,
}

// A variant is a driver under other names, so that several can be installed at the same time.
type variant struct {
	drivers.Driver
	namespace string
	// mark is in the names of all its objects that do not contain the driver's own name.
	mark, originalMark, originalName string
	// toVariant and toOriginal replace the names of one by the names of the other.
	toVariant, toOriginal *strings.Replacer
}

// newVariant renames everything that begins with the driver's short name and a dash, and the CSI driver itself.
func newVariant(t *testing.T, original drivers.Driver, number int) *variant {
	t.Helper()
	v := &variant{Driver: original, mark: fmt.Sprintf("v%02d-", number), originalMark: original.Name + "-", originalName: original.CSIName}
	v.CSIName = string(variantNames[number])
	v.toVariant = strings.NewReplacer(v.originalName, v.CSIName, v.originalMark, v.mark)
	assets := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(original.Assets, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(original.Assets, path)
		assets[path] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(v.toVariant.Replace(string(text)), "hostNetwork: true", "hostNetwork: false"))}
		return err
	}))
	v.Assets = assets
	v.Operator.Name = v.toVariant.Replace(original.Operator.Name)
	v.Operator.Lock = v.toVariant.Replace(original.Operator.Lock)
	v.TrustedCABundle = v.toVariant.Replace(original.TrustedCABundle)
	v.Secrets = v.renameAll(original.Secrets)
	if original.CloudConfig != nil {
		config := *original.CloudConfig
		config.ConfigMap = v.toVariant.Replace(config.ConfigMap)
		v.CloudConfig = &config
	}
	if original.CloudAccess != nil {
		access := *original.CloudAccess
		access.Secret = v.toVariant.Replace(access.Secret)
		access.Rules = slices.Clone(access.Rules)
		for i := range access.Rules {
			access.Rules[i].Names = v.renameAll(access.Rules[i].Names)
		}
		v.CloudAccess = &access
	}
	v.History.Finalizers = v.renameAll(original.History.Finalizers)
	v.History.Labels = map[string]string{}
	for key, value := range original.History.Labels {
		v.History.Labels[v.toVariant.Replace(key)] = value
	}
	v.Settings = slices.Clone(original.Settings)
	for i := range v.Settings {
		v.Settings[i].Container = v.toVariant.Replace(v.Settings[i].Container)
	}
	return v
}

func (v *variant) renameAll(names []string) []string {
	var renamed []string
	for _, name := range names {
		renamed = append(renamed, v.toVariant.Replace(name))
	}
	return renamed
}

// placed sets the variant's namespace. It replaces originalNamespace.
func (v *variant) placed(namespace string) {
	v.namespace = namespace
	v.toOriginal = strings.NewReplacer(namespace, originalNamespace, v.CSIName, v.originalName, v.mark, v.originalMark)
}

const originalNamespace = "driver"

// original translates a request of the variant's operator into one of the original's.
func (v *variant) original(p fault.Point) fault.Point { return p.Rename(v.toOriginal) }

// here is the inverse of original.
func (v *variant) here(p fault.Point) fault.Point {
	p = p.Rename(v.toVariant)
	if p.Namespace == originalNamespace {
		p.Namespace = v.namespace
	}
	return p
}
