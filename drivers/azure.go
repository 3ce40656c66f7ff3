package drivers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
)

// AzureCredentialKeys are the alternative sets of keys in a Secret with Azure credentials: for a service principal, or for an identity
// that uses a service account's tokens.
var AzureCredentialKeys = [][]string{
	{"azure_client_id", "azure_client_secret"},
	{"azure_client_id", "azure_tenant_id", "azure_federated_token_file"},
}

// AzureCredentialsInjectorImage is the image of the program that merges the credentials of a driver into the configuration of the cloud.
// The driver reads both from one file.
var AzureCredentialsInjectorImage = Image{Env: "CREDENTIALS_INJECTOR_IMAGE", Default: "quay.io/openshift/origin-cluster-cloud-controller-manager-operator:4.21"}

// Keys of the configuration of an Azure cloud in a driver's namespace: the configuration in JSON, and, only on an Azure
// Stack, its endpoints.
const (
	azureConfigKey    = "config"
	azureEndpointsKey = "endpoints"
)

// AzureCloudConfig returns the CloudConfig of a driver on Azure.
func AzureCloudConfig(configMap string) *CloudConfig {
	return &CloudConfig{ConfigMap: configMap, Content: func(cloud, _, _ map[string]string) (map[string]string, error) {
		text := cloud[CloudConfigKey]
		if err := checkAzureConfig(text); err != nil {
			return nil, fmt.Errorf("ConfigMap %s/%s, key %s: %w, want the configuration of an Azure cloud in JSON. Correct the ConfigMap in namespace "+
				"openshift-config that the Infrastructure cluster names in spec.cloudConfig", CloudConfigNamespace, CloudConfigName, CloudConfigKey, err)
		}
		content := map[string]string{azureConfigKey: text}
		if endpoints := cloud[azureEndpointsKey]; endpoints != "" {
			content[azureEndpointsKey] = endpoints
		}
		return content, nil
	}}
}

// azureFields are the fields of the cloud's configuration that a driver requires.
var azureFields = []string{"tenantId", "subscriptionId", "resourceGroup", "location"}

func checkAzureConfig(text string) error {
	if text == "" {
		return fmt.Errorf("found nothing")
	}
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return fmt.Errorf("found no JSON object: %w", err)
	}
	for _, field := range azureFields {
		if value, ok := fields[field].(string); !ok || value == "" {
			return fmt.Errorf("found no %s", field)
		}
	}
	return nil
}

// IsAzureStack reports whether a cluster runs on an Azure Stack: Azure in a private data centre, with fewer services.
func IsAzureStack(infrastructure *configv1.Infrastructure) bool {
	azure := azureOf(infrastructure)
	return azure != nil && azure.CloudName == configv1.AzureStackCloud
}

// AzureEndpoints returns the Apply function of a Setting that tells a container where the endpoints of an Azure Stack are. folder is
// where the container mounts the ConfigMap of AzureCloudConfig.
func AzureEndpoints(folder string) func(Cluster, *corev1.Container) []string {
	return func(cluster Cluster, container *corev1.Container) (leftOut []string) {
		if IsAzureStack(cluster.Infrastructure) {
			container.Env = append(container.Env, corev1.EnvVar{Name: "AZURE_ENVIRONMENT_FILEPATH", Value: folder + "/" + azureEndpointsKey})
		}
		return nil
	}
}

// tagsDelimiter separates tags. No tag of an Infrastructure can contain it. A tag can contain a comma, the drivers'
// default.
const tagsDelimiter = "|"

// AzureTags returns class parameters with the tags that Azure drivers set on new resources: the tag by which the installer finds the
// cluster's resources, the tags that the cluster wants on all its resources, and the tags in more.
func AzureTags(infrastructure *configv1.Infrastructure, more ...string) map[string]string {
	azure := azureOf(infrastructure)
	if azure == nil {
		return nil
	}
	tags := slices.Clone(more)
	if id := infrastructure.Status.InfrastructureName; id != "" {
		tags = append(tags, "kubernetes.io_cluster."+id+"=owned")
	}
	for _, tag := range azure.ResourceTags {
		tags = append(tags, tag.Key+"="+tag.Value)
	}
	slices.Sort(tags)
	return map[string]string{"tags": strings.Join(tags, tagsDelimiter), "tagValueDelimiter": tagsDelimiter}
}

// azureOf returns the Azure part of an Infrastructure; nil on another platform.
func azureOf(infrastructure *configv1.Infrastructure) *configv1.AzurePlatformStatus {
	if infrastructure == nil || infrastructure.Status.PlatformStatus == nil {
		return nil
	}
	return infrastructure.Status.PlatformStatus.Azure
}
