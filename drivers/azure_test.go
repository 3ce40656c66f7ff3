package drivers_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// TestAzureCloudConfig: the driver gets the configuration of the cloud as it is, or an administrator learns its fault
// with it.
func TestAzureCloudConfig(t *testing.T) {
	const config = `{"tenantId":"t","subscriptionId":"s","resourceGroup":"g","location":"westeurope","other":1}`
	for name, test := range map[string]struct {
		cloud, want map[string]string
		refuse      string
	}{
		"public cloud":     {cloud: map[string]string{"cloud.conf": config}, want: map[string]string{"config": config}},
		"Azure Stack":      {cloud: map[string]string{"cloud.conf": config, "endpoints": "{}"}, want: map[string]string{"config": config, "endpoints": "{}"}},
		"no ConfigMap":     {refuse: "found nothing"},
		"no configuration": {cloud: map[string]string{"ca-bundle.pem": "PEM"}, refuse: "found nothing"},
		"an INI file":      {cloud: map[string]string{"cloud.conf": "[Global]"}, refuse: "found no JSON object"},
		"no location":      {cloud: map[string]string{"cloud.conf": strings.ReplaceAll(config, "location", "region")}, refuse: "found no location"},
		"a strange tenant": {cloud: map[string]string{"cloud.conf": strings.ReplaceAll(config, `"t"`, "7")}, refuse: "found no tenantId"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := drivers.AzureCloudConfig("config").Content(test.cloud, nil, nil)
			if test.refuse != "" {
				if err == nil || !strings.Contains(err.Error(), test.refuse) || !strings.Contains(err.Error(), "ConfigMap openshift-config-managed/kube-cloud-config, key cloud.conf") {
					t.Errorf("got %v, want %q and the place in it", err, test.refuse)
				}
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, got, "content")
		})
	}
}

func azureCluster(azure *configv1.AzurePlatformStatus) *configv1.Infrastructure {
	return &configv1.Infrastructure{Status: configv1.InfrastructureStatus{
		InfrastructureName: "berth-x7x2k", PlatformStatus: &configv1.PlatformStatus{Azure: azure}}}
}

// TestAzureTags: tags that have commas and equals signs, which an Infrastructure may have, arrive as they are.
func TestAzureTags(t *testing.T) {
	tags := []configv1.AzureResourceTag{{Key: "team", Value: "harbour,pier=1"}, {Key: "cost", Value: "7"}}
	for name, test := range map[string]struct {
		infrastructure *configv1.Infrastructure
		more           []string
		want           string
	}{
		"no Infrastructure": {},
		"another platform":  {infrastructure: azureCluster(nil)},
		"no tags":           {infrastructure: azureCluster(&configv1.AzurePlatformStatus{}), want: "kubernetes.io_cluster.berth-x7x2k=owned"},
		"tags": {infrastructure: azureCluster(&configv1.AzurePlatformStatus{ResourceTags: tags}), more: []string{"class=a"},
			want: "class=a|cost=7|kubernetes.io_cluster.berth-x7x2k=owned|team=harbour,pier=1"},
	} {
		t.Run(name, func(t *testing.T) {
			var want map[string]string
			if test.want != "" {
				want = map[string]string{"tags": test.want, "tagValueDelimiter": "|"}
			}
			assert.Empty(t, cmp.Diff(want, drivers.AzureTags(test.infrastructure, test.more...)), "parameters (-want +got)")
		})
	}
}

// TestAzureEndpoints: only on an Azure Stack do drivers read endpoints.
func TestAzureEndpoints(t *testing.T) {
	for cloud, want := range map[configv1.AzureCloudEnvironment][]corev1.EnvVar{
		configv1.AzurePublicCloud: nil,
		configv1.AzureStackCloud:  {{Name: "AZURE_ENVIRONMENT_FILEPATH", Value: "/etc/cloud/endpoints"}},
	} {
		container := &corev1.Container{}
		cluster := drivers.Cluster{Infrastructure: azureCluster(&configv1.AzurePlatformStatus{CloudName: cloud})}
		assert.Emptyf(t, drivers.AzureEndpoints("/etc/cloud")(cluster, container), "left out in %s", cloud)
		assert.Emptyf(t, cmp.Diff(want, container.Env), "%s: environment (-want +got)", cloud)
	}
}

// TestAzureConfigReachesDrivers: in each pod of a driver for Azure, the injector writes the file that the driver reads, from
// the ConfigMap that the operator fills and the Secret of the CredentialsRequest, and the driver finds endpoints and the
// token that the Secret names.
func TestAzureConfigReachesDrivers(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		if !d.HasImage(drivers.AzureCredentialsInjectorImage) {
			return // not a driver for Azure
		}
		var pods []corev1.PodSpec
		for _, m := range drivers.OfKind(manifests, "Deployment") {
			pods = append(pods, as[appsv1.Deployment](t, m).Spec.Template.Spec)
		}
		for _, m := range drivers.OfKind(manifests, "DaemonSet") {
			pods = append(pods, as[appsv1.DaemonSet](t, m).Spec.Template.Spec)
		}
		require.Lenf(t, pods, 2, "got %d pods, want those of the controller and of the nodes", len(pods))
		for _, pod := range pods {
			driver, injector := pod.Containers[0], pod.InitContainers[0]
			paths := map[string]string{} // flags of the injector
			for _, arg := range injector.Args {
				name, value, _ := strings.Cut(arg, "=")
				paths[name] = value
			}
			file := paths["--output-file-path"]
			for _, env := range driver.Env {
				if env.Name == "AZURE_CREDENTIAL_FILE" && env.Value != file {
					t.Errorf("container %s reads %s, and the injector writes %s", driver.Name, env.Value, file)
				}
			}
			merged := volumeAt(pod, injector, file)
			if merged.EmptyDir == nil || volumeAt(pod, driver, file).Name != merged.Name {
				t.Errorf("container %s does not have the volume with %s, %+v", driver.Name, file, merged)
			}
			if v := volumeAt(pod, injector, paths["--creds-path"]+"/azure_client_id"); v.Secret == nil || v.Secret.SecretName != d.Secrets[0] {
				t.Errorf("the injector reads credentials from %+v, want Secret %s", v, d.Secrets[0])
			}
			for what, v := range map[string]corev1.Volume{"the injector": volumeAt(pod, injector, paths["--cloud-config-file-path"]), "the driver": volumeAt(pod, driver, "/etc/cloud-config/endpoints")} {
				if v.ConfigMap == nil || v.ConfigMap.Name != d.CloudConfig.ConfigMap {
					t.Errorf("%s has %+v, want ConfigMap %s", what, v, d.CloudConfig.ConfigMap)
				}
			}
		}
	})
}

// volumeAt returns the volume that a container has at the folder of a file.
func volumeAt(pod corev1.PodSpec, container corev1.Container, file string) corev1.Volume {
	for _, mount := range container.VolumeMounts {
		if mount.MountPath != file[:strings.LastIndex(file, "/")] {
			continue
		}
		for _, volume := range pod.Volumes {
			if volume.Name == mount.Name {
				return volume
			}
		}
	}
	return corev1.Volume{}
}
