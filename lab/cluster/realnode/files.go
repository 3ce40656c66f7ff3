package realnode

import (
	"fmt"

	"github.com/berth-csi/berth/lab/cluster/realnode/machine"
)

// Paths of files in a node.
const (
	kubeletConfigFile = "/etc/kubernetes/kubelet.yaml"
	kubeconfigFile    = "/etc/kubernetes/kubeconfig"
	clientCAFile      = "/etc/kubernetes/clients-ca.crt"
	hostsFolder       = "/etc/containerd/certs.d"
)

// files returns the files of a node that differ from the machine's.
func (o Options) files() map[string]string {
	return map[string]string{
		kubeletConfigFile:                    kubeletConfig,
		kubeconfigFile:                       string(o.Kubeconfig),
		clientCAFile:                         string(o.ClientCA),
		"/etc/containerd/config.toml":        containerdConfig,
		hostsFolder + "/_default/hosts.toml": fmt.Sprintf(registryHosts, registryAddress),
		"/etc/cni/net.d/00-pods.conflist":    fmt.Sprintf(podNetworkConfig, o.Place.Pods),
		"/etc/hosts":                         fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", o.Place.Address, o.Name),
		// There are no name servers, and a lookup fails at once.
		"/etc/resolv.conf": "",
	}
}

// kubeletConfig: a node does not limit its pods together, and neither removes images nor evicts pods because the
// machine's disk is nearly full.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous:
    enabled: false
  webhook:
    enabled: true
  x509:
    clientCAFile: ` + clientCAFile + `
authorization:
  mode: Webhook
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
makeIPTablesUtilChains: false
containerRuntimeEndpoint: unix://` + containerdSocket + `
resolvConf: ""
volumePluginDir: /var/lib/kubelet/volume-plugins
serializeImagePulls: false
# By default once a minute, and only then does a kubelet notice that a volume of a running pod was expanded.
syncFrequency: 5s
imageGCHighThresholdPercent: 100
evictionHard:
  memory.available: 0%
  nodefs.available: 0%
  nodefs.inodesFree: 0%
  imagefs.available: 0%
`

// pauseImage is the image of the containers that hold pods' namespaces.
const pauseImage = "node.berth.test/pause"

// containerdConfig: without restrict_oom_score_adj, runc fails for pods that ask for a lower OOM score than a process
// without CAP_SYS_RESOURCE may set.
const containerdConfig = `version = 3

[grpc]
address = "` + containerdSocket + `"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "` + pauseImage + `:1"

[plugins.'io.containerd.cri.v1.images'.registry]
config_path = "` + hostsFolder + `"

[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["` + machine.CNIFolder + `"]
conf_dir = "/etc/cni/net.d"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
`

// registryHosts makes containerd pull the images of all registries from one.
const registryHosts = `server = "http://%[1]s"

[host."http://%[1]s"]
capabilities = ["pull", "resolve"]
`

// podNetworkConfig connects each pod with its node by a pair of network devices.
const podNetworkConfig = `{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [
    {
      "type": "ptp",
      "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}
    }
  ]
}
`
