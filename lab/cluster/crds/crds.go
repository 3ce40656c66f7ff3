// Package crds provides the CustomResourceDefinitions of a cluster: OpenShift's, as far as they matter to a driver
// operator, and the Operator Lifecycle Manager's.
//
// It takes the real ones from the Go modules that publish them, and caches them as JSON: parsing megabytes of YAML
// would take a good part of a cluster's start.
package crds

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// Set is a set of definitions that belong together.
type Set struct {
	name    string
	sources []source
}

// source is a module and the files to take from it.
type source struct {
	module  string
	version func() (string, error)
	files   []string
}

// OpenShift has the types that matter to a driver operator and its tests. If a type's schema depends on the feature
// set, it has the schema of the default feature set.
var OpenShift = Set{name: "openshift", sources: []source{
	{
		module:  "github.com/openshift/api",
		version: projectPin("github.com/openshift/api"),
		files: []string{
			"config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml",
			"config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml",
			"config/v1/zz_generated.crd-manifests/0000_03_config-operator_01_proxies.crd.yaml",
			"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_apiservers-Default.crd.yaml",
			"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_authentications-Default.crd.yaml",
			"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_featuregates.crd.yaml",
			"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_infrastructures-Default.crd.yaml",
			"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_networks-Default.crd.yaml",
			"operator/v1/zz_generated.crd-manifests/0000_40_cloud-credential_00_cloudcredentials.crd.yaml",
			"operator/v1/zz_generated.crd-manifests/0000_50_csi-driver_01_clustercsidrivers-Default.crd.yaml",
			"operator/v1/zz_generated.crd-manifests/0000_50_storage_01_storages.crd.yaml",
			"security/v1/zz_generated.crd-manifests/0000_03_config-operator_01_securitycontextconstraints.crd.yaml",
		},
	},
	{
		// The newest version that both the public module proxy and the checksum database serve.
		module:  "github.com/openshift/cloud-credential-operator",
		version: exactly("v0.0.0-20240404165937-5e8812d64187"),
		files:   []string{"manifests/0000_03_cloud-credential-operator_01_crd.yaml"},
	},
	{
		// The version in the cluster monitoring of current OpenShift.
		module:  "github.com/prometheus-operator/prometheus-operator",
		version: exactly("v0.85.0"),
		files: []string{
			"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
			"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		},
	},
	{
		// The version in current OpenShift, whose storage operator creates them.
		module:  "github.com/kubernetes-csi/external-snapshotter/client/v8",
		version: exactly("v8.4.0"),
		files: []string{
			"config/crd/snapshot.storage.k8s.io_volumesnapshotclasses.yaml",
			"config/crd/snapshot.storage.k8s.io_volumesnapshotcontents.yaml",
			"config/crd/snapshot.storage.k8s.io_volumesnapshots.yaml",
		},
	},
}}

// GroupSnapshots has the types of snapshots of several volumes, which OpenShift serves where a cluster asks for them.
var GroupSnapshots = Set{name: "groupsnapshots", sources: []source{{
	module:  "github.com/kubernetes-csi/external-snapshotter/client/v8",
	version: exactly("v8.4.0"),
	files: []string{
		"config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshotclasses.yaml",
		"config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshotcontents.yaml",
		"config/crd/groupsnapshot.storage.k8s.io_volumegroupsnapshots.yaml",
	},
}}}

// Restarts has the types by which OpenShift restarts components of the control plane and nodes.
var Restarts = Set{name: "restarts", sources: []source{{
	module:  "github.com/openshift/api",
	version: projectPin("github.com/openshift/api"),
	files: []string{
		"operator/v1/zz_generated.crd-manifests/0000_20_kube-apiserver_01_kubeapiservers-Default.crd.yaml",
		"operator/v1/zz_generated.crd-manifests/0000_25_kube-controller-manager_01_kubecontrollermanagers.crd.yaml",
		"operator/v1/zz_generated.crd-manifests/0000_25_kube-scheduler_01_kubeschedulers.crd.yaml",
		"payload-manifests/crds/0000_80_machine-config_01_machineconfigpools-SelfManagedHA.crd.yaml",
	},
}}}

// Mirrors has the types by which OpenShift's nodes find images in mirrors.
var Mirrors = Set{name: "mirrors", sources: []source{{
	module:  "github.com/openshift/api",
	version: projectPin("github.com/openshift/api"),
	files: []string{
		"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_imagedigestmirrorsets.crd.yaml",
		"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_imagetagmirrorsets.crd.yaml",
	},
}}}

// OLM has the types of the Operator Lifecycle Manager.
var OLM = Set{name: "olm", sources: []source{{
	module:  "github.com/operator-framework/operator-lifecycle-manager",
	version: toolPin("github.com/operator-framework/operator-lifecycle-manager"),
	files: []string{
		"deploy/chart/crds/0000_50_olm_00-catalogsources.crd.yaml",
		"deploy/chart/crds/0000_50_olm_00-clusterserviceversions.crd.yaml",
		"deploy/chart/crds/0000_50_olm_00-installplans.crd.yaml",
		"deploy/chart/crds/0000_50_olm_00-olmconfigs.crd.yaml",
		"deploy/chart/crds/0000_50_olm_00-operatorconditions.crd.yaml",
		"deploy/chart/crds/0000_50_olm_00-operatorgroups.crd.yaml",
		"deploy/chart/crds/0000_50_olm_00-operators.crd.yaml",
		"deploy/chart/crds/0000_50_olm_00-subscriptions.crd.yaml",
	},
}}}

// OLMv1 has the types of OLM v1, including its experimental types, but without the experimental fields of other types.
var OLMv1 = Set{name: "olmv1", sources: []source{{
	module:  "github.com/operator-framework/operator-controller",
	version: pin(func() (tools.Pins, error) { return tools.PinsOf("lab/modules/olmv1") }, "github.com/operator-framework/operator-controller"),
	files: []string{
		"helm/olmv1/base/catalogd/crd/standard/olm.operatorframework.io_clustercatalogs.yaml",
		"helm/olmv1/base/operator-controller/crd/standard/olm.operatorframework.io_clusterextensions.yaml",
		"helm/olmv1/base/operator-controller/crd/experimental/olm.operatorframework.io_clusterobjectsets.yaml",
	},
}}}

// OLMv1Experimental has the types of OLM v1 with the fields of its experimental features, such as configuration.
var OLMv1Experimental = Set{name: "olmv1-experimental", sources: []source{{
	module:  OLMv1.sources[0].module,
	version: OLMv1.sources[0].version,
	files: []string{
		"helm/olmv1/base/catalogd/crd/experimental/olm.operatorframework.io_clustercatalogs.yaml",
		"helm/olmv1/base/operator-controller/crd/experimental/olm.operatorframework.io_clusterextensions.yaml",
		"helm/olmv1/base/operator-controller/crd/experimental/olm.operatorframework.io_clusterobjectsets.yaml",
	},
}}}

func exactly(version string) func() (string, error) {
	return func() (string, error) { return version, nil }
}

func projectPin(module string) func() (string, error) { return pin(tools.ProjectPins, module) }

func toolPin(module string) func() (string, error) { return pin(tools.ToolPins, module) }

func pin(read func() (tools.Pins, error), module string) func() (string, error) {
	return func() (string, error) {
		pins, err := read()
		if err != nil {
			return "", err
		}
		return pins.Version(module)
	}
}

// Ensure returns the path of the file for Read, and creates it first if the cache does not have it.
func (s Set) Ensure(ctx context.Context) (string, error) {
	key, err := s.key()
	if err != nil {
		return "", err
	}
	folder, err := tools.CacheFolder("crds")
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, s.name+"-"+key+".json")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	definitions, err := s.collect(ctx)
	if err != nil {
		return "", fmt.Errorf("collect the custom resource definitions of %s: %w", s.name, err)
	}
	return path, writeWhole(path, definitions)
}

// Create creates the definitions on a cluster.
func (s Set) Create(ctx context.Context, c client.Client) error {
	file, err := s.Ensure(ctx)
	if err != nil {
		return err
	}
	definitions, err := Read(file)
	if err != nil {
		return err
	}
	for _, d := range definitions {
		if err := c.Create(ctx, d); err != nil {
			return fmt.Errorf("create CustomResourceDefinition %s: %w", d.Name, err)
		}
	}
	return nil
}

// Read returns the definitions in a file of Ensure.
func Read(path string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var definitions []*apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(content, &definitions); err != nil {
		return nil, fmt.Errorf("%s: %w; remove the file, and it will be recreated", path, err)
	}
	return definitions, nil
}

// key returns a hash of the definitions' sources.
func (s Set) key() (string, error) {
	hash := sha256.New()
	for _, source := range s.sources {
		version, err := source.version()
		if err != nil {
			return "", err
		}
		fmt.Fprintln(hash, source.module, version, source.files)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

func (s Set) collect(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, source := range s.sources {
		version, err := source.version()
		if err != nil {
			return nil, err
		}
		folder, err := tools.ModuleFolder(ctx, source.module, version)
		if err != nil {
			return nil, err
		}
		for _, file := range source.files {
			definition, err := parse(filepath.Join(folder, file))
			if err != nil {
				return nil, err
			}
			definitions = append(definitions, definition)
		}
	}
	return definitions, nil
}

func parse(path string) (*apiextensionsv1.CustomResourceDefinition, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(content, &definition); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if definition.Kind != "CustomResourceDefinition" || definition.Name == "" {
		return nil, fmt.Errorf("%s: found kind %q and name %q, expected a named CustomResourceDefinition", path, definition.Kind, definition.Name)
	}
	definition.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	return &definition, nil
}

// writeWhole writes a file atomically, even if several processes write it.
func writeWhole(path string, definitions []*apiextensionsv1.CustomResourceDefinition) error {
	var content bytes.Buffer
	if err := json.NewEncoder(&content).Encode(definitions); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(content.Bytes()); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
