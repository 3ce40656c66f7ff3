package cinder

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/gcfg.v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// The ConfigMap with which an administrator configures the driver, and its key for the configuration. If a key is missing, the driver
// uses the configuration of the cloud, which is also the cloud provider's.
const (
	configName = "cinder-csi-config"
	configKey  = "config"
)

// TopologyKey is the key that says whether volumes belong to zones: in the administrator's ConfigMap, the cloud's and the driver's own.
const TopologyKey = "enable_topology"

// Files in the driver's own ConfigMap. The driver reads optionsFile in all its pods, and loginFile only in the controller's.
const (
	optionsFile = "cloud.conf"
	loginFile   = "login.conf"
)

// cloudName is the name that the installer gives the cloud in clouds.yaml.
const cloudName = "openstack"

// Where the controller's asset mounts clouds.yaml and the driver's own ConfigMap.
const (
	cloudsFile = "/etc/openstack/clouds.yaml"
	configDir  = "/etc/cinder/"
)

// configFiles returns the content of the driver's own ConfigMap: the files that the driver reads, and whether volumes
// belong to zones. If nobody has decided on zones, the current setting stays: volumes that were created with zones need
// them, even if another operator created them.
func configFiles(cloud, source, current map[string]string) (map[string]string, error) {
	text, from := take(cloud, source, drivers.CloudConfigKey, configKey)
	options, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	zones, from := take(cloud, source, TopologyKey, TopologyKey)
	if zones == "" {
		zones = "false"
		if current[TopologyKey] == "true" {
			zones = "true"
		}
	}
	if zones != "true" && zones != "false" {
		return nil, fmt.Errorf(`%s: found %q, want "true" or "false"`, from, zones)
	}
	login := map[string]string{"use-clouds": "true", "clouds-file": cloudsFile, "cloud": cloudName}
	maps.Copy(login, options.login())
	content := map[string]string{TopologyKey: zones}
	if bundle, from := take(cloud, source, drivers.CABundleKey, drivers.CABundleKey); bundle != "" {
		if !drivers.HasCertificate(bundle) {
			return nil, fmt.Errorf("%s: found no certificate, want the CA bundle of the cloud in PEM format", from)
		}
		content[drivers.CABundleKey], login["ca-file"] = bundle, configDir+drivers.CABundleKey
	}
	content[loginFile] = format("Global", login)
	content[optionsFile] = format("BlockStorage", options.blockStorage()) + format("Metadata", options.metadata())
	return content, nil
}

// take returns a value from the driver's ConfigMap or else from the cloud's, and its place for a message.
func take(cloud, source map[string]string, cloudKey, sourceKey string) (value, from string) {
	if value := source[sourceKey]; value != "" {
		return value, fmt.Sprintf("ConfigMap %s/%s, key %s", drivers.DriverConfigNamespace, configName, sourceKey)
	}
	return cloud[cloudKey], fmt.Sprintf("ConfigMap %s/%s, key %s, which is a copy of the ConfigMap in namespace %s that the Infrastructure cluster names in spec.cloudConfig",
		drivers.CloudConfigNamespace, drivers.CloudConfigName, cloudKey, drivers.DriverConfigNamespace)
}

// Login returns the login options of the driver's pods, except for credentials, and the certificate authorities of the cloud.
func Login(cloud, source map[string]string) (login map[string]string, authorities string, err error) {
	text, from := take(cloud, source, drivers.CloudConfigKey, configKey)
	o, err := parse(text)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", from, err)
	}
	authorities, _ = take(cloud, source, drivers.CABundleKey, drivers.CABundleKey)
	return o.login(), authorities, nil
}

// zonesUnsaid reports whether no administrator has decided if volumes belong to zones.
func zonesUnsaid(cloud, source map[string]string) bool {
	value, _ := take(cloud, source, TopologyKey, TopologyKey)
	return value == ""
}

// options are the parts of a configuration that the driver reads. The driver takes credentials only from clouds.yaml, and ignores the
// other options, which are for the cloud provider.
type options struct {
	Global map[string]*struct {
		Region       string
		EndpointType string `gcfg:"os-endpoint-type"`
		TLSInsecure  string `gcfg:"tls-insecure"`
	}
	BlockStorage struct {
		NodeVolumeAttachLimit    int64 `gcfg:"node-volume-attach-limit"`
		RescanOnResize           bool  `gcfg:"rescan-on-resize"`
		IgnoreVolumeAZ           bool  `gcfg:"ignore-volume-az"`
		IgnoreVolumeMicroversion bool  `gcfg:"ignore-volume-microversion"`
	}
	Metadata struct {
		SearchOrder    string `gcfg:"search-order"`
		RequestTimeout string `gcfg:"request-timeout"`
	}
}

// parse reads a configuration as the driver would, and fails where the driver would exit.
func parse(text string) (options, error) {
	var o options
	if err := gcfg.FatalOnly(gcfg.ReadStringInto(&o, text)); err != nil {
		return o, fmt.Errorf("%s; want sections such as [BlockStorage], with a line such as ignore-volume-az = true for each option", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if timeout := o.Metadata.RequestTimeout; timeout != "" {
		if _, err := time.ParseDuration(timeout); err != nil {
			return o, fmt.Errorf("request-timeout: found %q, want a duration such as 10s", timeout)
		}
	}
	if order := o.Metadata.SearchOrder; order != "" {
		places := strings.Split(order, ",")
		for _, place := range places {
			if place = strings.TrimSpace(place); len(places) > 2 || place != "configDrive" && place != "metadataService" {
				return o, fmt.Errorf("search-order: found %q, want configDrive, metadataService, or both with a comma between them", order)
			}
		}
	}
	return o, nil
}

func (o options) login() map[string]string {
	global := o.Global[""] // the other sections are for other clouds
	if global == nil {
		return nil
	}
	return map[string]string{"region": global.Region, "os-endpoint-type": global.EndpointType, "tls-insecure": global.TLSInsecure}
}

func (o options) blockStorage() map[string]string {
	set := map[string]string{}
	if limit := o.BlockStorage.NodeVolumeAttachLimit; limit != 0 {
		set["node-volume-attach-limit"] = strconv.FormatInt(limit, 10)
	}
	for name, value := range map[string]bool{
		"rescan-on-resize": o.BlockStorage.RescanOnResize, "ignore-volume-az": o.BlockStorage.IgnoreVolumeAZ,
		"ignore-volume-microversion": o.BlockStorage.IgnoreVolumeMicroversion,
	} {
		if value {
			set[name] = "true"
		}
	}
	return set
}

func (o options) metadata() map[string]string {
	return map[string]string{"search-order": o.Metadata.SearchOrder, "request-timeout": o.Metadata.RequestTimeout}
}

// quoted escapes characters that the driver would not read as part of a value.
var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`)

// format returns a section with the options that are not empty.
func format(section string, options map[string]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "[%s]\n", section)
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if value := options[name]; value != "" {
			fmt.Fprintf(&text, "%s = \"%s\"\n", name, quoted.Replace(value))
		}
	}
	return text.String()
}

// topology returns the Apply function of a Setting that adds an argument with the value true or false: whether volumes belong to zones.
func topology(argument string) func(drivers.Cluster, *corev1.Container) []string {
	return func(cluster drivers.Cluster, container *corev1.Container) []string {
		enabled := cluster.CloudConfig[TopologyKey] == "true"
		container.Args = append(container.Args, argument+strconv.FormatBool(enabled))
		return nil
	}
}
