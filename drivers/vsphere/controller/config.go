package controller

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	"gopkg.in/gcfg.v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/drivers/vsphere"
	"github.com/berth-csi/berth/internal/boundedyaml"
)

// A vCenter is a vCenter that runs nodes of the cluster.
type vCenter struct {
	server      string
	port        int
	insecure    bool // its certificate is not verified
	datacenters []string
	// clusters are the inventory paths of the compute clusters that run the nodes, as far as they are known.
	clusters       []string
	user, password string
}

// cloudConfig is the cloud configuration of a cluster on vSphere, as far as the driver needs it. Installers wrote it as an INI
// file, and now write YAML.
type cloudConfig struct {
	insecure bool
	servers  map[string]*serverConfig
	// workspace is where nodes are created, in old configurations.
	workspace struct{ server, resourcePool string }
}

type serverConfig struct {
	port        int
	insecure    bool
	datacenters []string
}

// vCenters returns the cluster's vCenters, sorted by their names. The Infrastructure names them; in older clusters,
// only the cloud configuration does.
func vCenters(cloud drivers.Cloud) ([]vCenter, error) {
	config, err := parseCloudConfig(cloud.Config)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s, key %s: %w. Correct the ConfigMap in namespace openshift-config that Infrastructure cluster names in spec.cloudConfig",
			drivers.CloudConfigNamespace, drivers.CloudConfigName, drivers.CloudConfigKey, err)
	}
	found := map[string]*vCenter{}
	for server, of := range config.servers {
		found[server] = &vCenter{server: server, port: of.port, insecure: config.insecure || of.insecure, datacenters: of.datacenters}
		if path, _, ok := strings.Cut(config.workspace.resourcePool, "/Resources"); ok && config.workspace.server == server {
			found[server].clusters = []string{path}
		}
	}
	if spec := cloud.Infrastructure.Spec.PlatformSpec.VSphere; spec != nil && len(spec.VCenters) > 0 {
		named := map[string]*vCenter{}
		for _, of := range spec.VCenters {
			v := &vCenter{server: of.Server, insecure: config.insecure}
			if known := found[of.Server]; known != nil {
				v = known
			}
			v.port, v.datacenters = cmp.Or(int(of.Port), v.port), slices.Clone(of.Datacenters)
			named[of.Server] = v
		}
		for _, domain := range spec.FailureDomains {
			v := named[domain.Server]
			if v == nil {
				continue
			}
			if !slices.Contains(v.clusters, domain.Topology.ComputeCluster) {
				v.clusters = append(v.clusters, domain.Topology.ComputeCluster)
			}
			// A failure domain that was added later may be in a datacenter that nobody added to the vCenter's list. The
			// driver searches for nodes only in the datacenters of its configuration.
			if datacenter := domain.Topology.Datacenter; datacenter != "" && !slices.Contains(v.datacenters, datacenter) {
				v.datacenters = append(v.datacenters, datacenter)
			}
		}
		found = named
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no vCenter is known: neither Infrastructure cluster names one in spec.platformSpec.vsphere.vcenters, nor ConfigMap %s/%s, key %s",
			drivers.CloudConfigNamespace, drivers.CloudConfigName, drivers.CloudConfigKey)
	}
	var all []vCenter
	for _, server := range slices.Sorted(maps.Keys(found)) {
		v := found[server]
		v.port = cmp.Or(v.port, 443)
		v.user, v.password = string(cloud.Credentials[server+".username"]), string(cloud.Credentials[server+".password"])
		if v.user == "" || v.password == "" {
			return nil, fmt.Errorf("the Secret %s/%s needs the keys %s.username and %[3]s.password, to log in to that vCenter", cloud.Namespace, vsphere.Driver.Configuration.Credentials, server)
		}
		if !hasDomain.MatchString(v.user) {
			return nil, fmt.Errorf("the Secret %s/%s, key %s.username: found %q, want a user with a domain, such as user@vsphere.local or DOMAIN\\user: "+
				"vCenter may know the user without one, but the driver does not start", cloud.Namespace, vsphere.Driver.Configuration.Credentials, server, v.user)
		}
		all = append(all, *v)
	}
	return all, nil
}

// hasDomain matches user names with a domain. The driver does not start with other user names.
var hasDomain = regexp.MustCompile(`^([\w.-]+@[A-Za-z\d.-]+|[A-Za-z\d.-]+\\[\w.-]+)$`)

// parseCloudConfig parses a configuration in either format.
func parseCloudConfig(text string) (cloudConfig, error) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
			if strings.HasPrefix(line, "[") {
				return parseINI(text)
			}
			return parseYAML(text)
		}
	}
	return cloudConfig{}, nil
}

func parseINI(text string) (cloudConfig, error) {
	type section struct {
		Port         string
		InsecureFlag bool `gcfg:"insecure-flag"`
		Datacenters  string
	}
	var file struct {
		Global    section
		Workspace struct {
			Server           string
			ResourcePoolPath string `gcfg:"resourcepool-path"`
		}
		VirtualCenter map[string]*section
	}
	if err := gcfg.FatalOnly(gcfg.ReadStringInto(&file, text)); err != nil {
		return cloudConfig{}, fmt.Errorf("it is no valid INI file: %w", err)
	}
	config := cloudConfig{insecure: file.Global.InsecureFlag, servers: map[string]*serverConfig{}}
	config.workspace.server, config.workspace.resourcePool = file.Workspace.Server, file.Workspace.ResourcePoolPath
	for server, of := range file.VirtualCenter {
		port, err := parsePort(cmp.Or(of.Port, file.Global.Port))
		if err != nil {
			return cloudConfig{}, fmt.Errorf("the vCenter %s: %w", server, err)
		}
		config.servers[server] = &serverConfig{port: port, insecure: of.InsecureFlag, datacenters: list(cmp.Or(of.Datacenters, file.Global.Datacenters))}
	}
	return config, nil
}

func parseYAML(text string) (cloudConfig, error) {
	type section struct {
		Server       string   `json:"server"`
		Port         int      `json:"port"`
		InsecureFlag bool     `json:"insecureFlag"`
		Datacenters  []string `json:"datacenters"`
	}
	var file struct {
		Global  section            `json:"global"`
		VCenter map[string]section `json:"vcenter"`
	}
	if err := boundedyaml.Unmarshal([]byte(text), &file); err != nil {
		return cloudConfig{}, fmt.Errorf("it is neither an INI file nor valid YAML: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	config := cloudConfig{insecure: file.Global.InsecureFlag, servers: map[string]*serverConfig{}}
	for name, of := range file.VCenter {
		config.servers[cmp.Or(of.Server, name)] = &serverConfig{port: of.Port, insecure: of.InsecureFlag, datacenters: of.Datacenters}
	}
	return config, nil
}

func parsePort(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return 0, fmt.Errorf("its port is %q, want a number up to 65535", text)
	}
	return port, nil
}

// list splits a list at its commas.
func list(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// configKey is the key of the driver's configuration in its Secret.
const configKey = "cloud.conf"

// Content returns the content of the Secret with the driver's configuration.
func Content(cloud drivers.Cloud) (map[string][]byte, error) {
	all, err := vCenters(cloud)
	if err != nil {
		return nil, err
	}
	id := cloud.Infrastructure.Status.InfrastructureName
	if id == "" {
		return nil, errors.New("the Infrastructure has no status.infrastructureName, the ID with which volumes are marked as the cluster's")
	}
	var text strings.Builder
	// This ID tells vCenter to which cluster a volume belongs, and the installer finds the cluster's volumes by it.
	fmt.Fprintf(&text, "[Global]\ncluster-id = %s\ncluster-distribution = \"OpenShift\"\n", quote(id))
	if categories := vsphere.TopologyCategories(cloud.Infrastructure, cloud.DriverConfig); len(categories) > 0 {
		fmt.Fprintf(&text, "\n[Labels]\ntopology-categories = %s\n", quote(strings.Join(categories, ", ")))
	}
	text.WriteString(snapshotLimits(cloud.DriverConfig.VSphere))
	for _, v := range all {
		fmt.Fprintf(&text, "\n[VirtualCenter %s]\nport = \"%d\"\ninsecure-flag = %t\ndatacenters = %s\nuser = %s\npassword = %s\n",
			quote(v.server), v.port, v.insecure, quote(strings.Join(v.datacenters, ", ")), quote(v.user), quote(v.password))
	}
	return map[string][]byte{configKey: []byte(text.String())}, nil
}

// snapshotLimits returns the section with the administrator's limits of snapshots, "" for none. For a limit that is not set, the driver
// has a default.
func snapshotLimits(config *operatorv1.VSphereCSIDriverConfigSpec) string {
	if config == nil {
		return ""
	}
	var options string
	for _, limit := range []struct {
		option string
		value  *uint32
	}{
		{"global-max-snapshots-per-block-volume", config.GlobalMaxSnapshotsPerBlockVolume},
		{"granular-max-snapshots-per-block-volume-vsan", config.GranularMaxSnapshotsPerBlockVolumeInVSAN},
		{"granular-max-snapshots-per-block-volume-vvol", config.GranularMaxSnapshotsPerBlockVolumeInVVOL},
	} {
		if limit.value != nil {
			options += fmt.Sprintf("%s = %d\n", limit.option, *limit.value)
		}
	}
	if options == "" {
		return ""
	}
	return "\n[Snapshot]\n" + options
}

// quote quotes a value for the file.
func quote(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}
