package cinder

import (
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

const (
	standardLogin = `[Global]
cloud = "openstack"
clouds-file = "/etc/openstack/clouds.yaml"
use-clouds = "true"
`
	noOptions = "[BlockStorage]\n[Metadata]\n"
)

func bundle() string {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func TestConfigFiles(t *testing.T) {
	ca := bundle()
	for name, test := range map[string]struct {
		cloud, source, current map[string]string
		want                   map[string]string
	}{
		"nothing": {want: map[string]string{"login.conf": standardLogin, "cloud.conf": noOptions, "enable_topology": "false"}},
		"zones of another operator": {current: map[string]string{"enable_topology": "true", "cloud.conf": "[Global]\nregion = sea-1\n"},
			want: map[string]string{"login.conf": standardLogin, "cloud.conf": noOptions, "enable_topology": "true"}},
		"zones of another operator, which the administrator does not want": {
			current: map[string]string{"enable_topology": "true"}, source: map[string]string{"enable_topology": "false"},
			want: map[string]string{"login.conf": standardLogin, "cloud.conf": noOptions, "enable_topology": "false"}},
		"of the installer": {
			cloud: map[string]string{"cloud.conf": `[Global]
secret-name = openstack-credentials
secret-namespace = kube-system
region = sea-1
ca-file = /etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem
[LoadBalancer]
use-octavia = True
`, "ca-bundle.pem": ca},
			want: map[string]string{
				"login.conf": `[Global]
ca-file = "/etc/cinder/ca-bundle.pem"
cloud = "openstack"
clouds-file = "/etc/openstack/clouds.yaml"
region = "sea-1"
use-clouds = "true"
`, "cloud.conf": noOptions, "enable_topology": "false", "ca-bundle.pem": ca},
		},
		"credentials are those of the Secret": {
			source: map[string]string{"config": "[Global]\nusername = admin\npassword = secret\nauth-url = https://elsewhere\nuse-clouds = false\n"},
			want:   map[string]string{"login.conf": standardLogin, "cloud.conf": noOptions, "enable_topology": "false"},
		},
		"of the driver and of the cloud": {
			cloud:  map[string]string{"cloud.conf": "[BlockStorage]\nrescan-on-resize = yes\n", "enable_topology": "false", "ca-bundle.pem": ca},
			source: map[string]string{"config": "[BlockStorage]\nignore-volume-az = yes\nnode-volume-attach-limit = 24\n", "enable_topology": "true"},
			want: map[string]string{
				"login.conf": strings.Replace(standardLogin, "[Global]\n", "[Global]\nca-file = \"/etc/cinder/ca-bundle.pem\"\n", 1), "ca-bundle.pem": ca,
				"cloud.conf": `[BlockStorage]
ignore-volume-az = "true"
node-volume-attach-limit = "24"
[Metadata]
`, "enable_topology": "true"},
		},
		"only zones": {
			cloud:  map[string]string{"cloud.conf": "[Metadata]\nsearch-order = configDrive, metadataService\nrequest-timeout = 10s\n"},
			source: map[string]string{"enable_topology": "true"},
			want: map[string]string{"login.conf": standardLogin, "cloud.conf": `[BlockStorage]
[Metadata]
request-timeout = "10s"
search-order = "configDrive, metadataService"
`, "enable_topology": "true"},
		},
		"a value in quotes": {
			source: map[string]string{"config": `[Global]
region = "a \"b\\c\" ; d"
`},
			want: map[string]string{"login.conf": strings.Replace(standardLogin, "use-clouds", "region = \"a \\\"b\\\\c\\\" ; d\"\nuse-clouds", 1), "cloud.conf": noOptions, "enable_topology": "false"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := configFiles(test.cloud, test.source, test.current)
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(test.want, got), "content (-want +got)")
			// What is written is read as it was meant.
			again, err := configFiles(map[string]string{"cloud.conf": got["cloud.conf"] + got["login.conf"], "enable_topology": got["enable_topology"], "ca-bundle.pem": got["ca-bundle.pem"]}, nil, nil)
			require.NoError(t, err, "read again")
			assert.Equal(t, got, again, "read again")
		})
	}
}

// TestWrongConfigs: a configuration with which the driver would not start is refused, with the place and the
// correction.
func TestWrongConfigs(t *testing.T) {
	for name, test := range map[string]struct {
		cloud, source map[string]string
		want          []string
	}{
		"no sections": {source: map[string]string{"config": "ignore-volume-az = yes"}, want: []string{"openshift-config/cinder-csi-config, key config: ", "want sections"}},
		"no boolean":  {source: map[string]string{"config": "[BlockStorage]\nignore-volume-az = perhaps"}, want: []string{"perhaps"}},
		"of the cloud": {cloud: map[string]string{"cloud.conf": "[BlockStorage]\nnode-volume-attach-limit = many"},
			want: []string{"openshift-config-managed/kube-cloud-config, key cloud.conf", "spec.cloudConfig", "many"}},
		"no duration":    {source: map[string]string{"config": "[Metadata]\nrequest-timeout = 10"}, want: []string{`"10"`, "want a duration"}},
		"no place":       {source: map[string]string{"config": "[Metadata]\nsearch-order = config-drive"}, want: []string{"config-drive", "want configDrive"}},
		"three places":   {source: map[string]string{"config": "[Metadata]\nsearch-order = \"configDrive,metadataService,configDrive\""}, want: []string{"want configDrive"}},
		"zones":          {source: map[string]string{"enable_topology": "True"}, want: []string{"cinder-csi-config, key enable_topology", `"True"`, `want "true" or "false"`}},
		"no certificate": {cloud: map[string]string{"ca-bundle.pem": "nothing"}, want: []string{"key ca-bundle.pem", "found no certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := configFiles(test.cloud, test.source, nil)
			require.Errorf(t, err, "got %v, want an error", got)
			for _, part := range test.want {
				assert.ErrorContains(t, err, part)
			}
		})
	}
}

func TestTopology(t *testing.T) {
	for value, want := range map[string]string{"": "false", "false": "false", "true": "true"} {
		pod := &corev1.PodSpec{Containers: []corev1.Container{{Name: "csi-driver"}, {Name: "csi-provisioner"}, {Name: "cinder-plugin"}, {Name: "other"}}}
		Driver.Configure(pod, drivers.Cluster{CloudConfig: map[string]string{TopologyKey: value}})
		var got []string
		for _, c := range pod.Containers {
			got = append(got, c.Args...)
		}
		assert.Equalf(t, []string{"--with-topology=" + want, "--feature-gates=Topology=" + want, "--with-topology=" + want}, got, "arguments for enable_topology %q", value)
	}
}
