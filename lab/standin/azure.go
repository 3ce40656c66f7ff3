package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/lab/folders"
	"github.com/berth-csi/berth/lab/standin/backend"
)

// azureConfig is the configuration of a driver for Azure, in the fields that decide how it logs in and where volumes are.
type azureConfig struct {
	TenantID           string `json:"tenantId"`
	SubscriptionID     string `json:"subscriptionId"`
	ResourceGroup      string `json:"resourceGroup"`
	Location           string `json:"location"`
	ClientID           string `json:"aadClientId"`
	ClientSecret       string `json:"aadClientSecret"`
	ManagedIdentity    bool   `json:"useManagedIdentityExtension"`
	ManagedIdentityID  string `json:"userAssignedIdentityID"`
	FederatedToken     bool   `json:"useFederatedWorkloadIdentityExtension"`
	FederatedTokenFile string `json:"aadFederatedTokenFile"`
}

// readAzureConfig reads the file in AZURE_CREDENTIAL_FILE, or the default file. It returns nil if that fails and allowEmpty is set.
func readAzureConfig(allowEmpty bool) (*azureConfig, error) {
	file := cmp.Or(strings.TrimSpace(os.Getenv("AZURE_CREDENTIAL_FILE")), "/etc/kubernetes/azure.json")
	text, err := os.ReadFile(file)
	config := &azureConfig{}
	if err == nil {
		err = json.Unmarshal(text, config)
	}
	if err != nil {
		log.Printf("load azure config from file(%s) failed with %v", file, err)
		if allowEmpty {
			log.Printf("no cloud config provided, error: %v, driver will run without cloud config", err)
			return nil, nil
		}
		return nil, fmt.Errorf("failed to get Azure Cloud Provider, error: no cloud config provided, error: %w", err)
	}
	// Microsoft's webhook for workload identity sets these variables.
	config.TenantID = cmp.Or(os.Getenv("AZURE_TENANT_ID"), config.TenantID)
	config.ClientID = cmp.Or(os.Getenv("AZURE_CLIENT_ID"), config.ClientID)
	if file := os.Getenv("AZURE_FEDERATED_TOKEN_FILE"); file != "" {
		config.FederatedToken, config.FederatedTokenFile = true, file
	}
	return config, nil
}

// login returns the driver's credentials for Azure. If several are configured, it uses the same one as the real driver.
func (c *azureConfig) login() (backend.Login, error) {
	if c == nil {
		return nil, errors.New("no cloud config provided")
	}
	for name, value := range map[string]string{"tenantId": c.TenantID, "subscriptionId": c.SubscriptionID, "resourceGroup": c.ResourceGroup, "location": c.Location} {
		if value == "" {
			return nil, fmt.Errorf("the cloud config has no %s", name)
		}
	}
	login := backend.Login{"tenant": c.TenantID, "subscription": c.SubscriptionID, "group": c.ResourceGroup}
	switch {
	case c.FederatedToken:
		token, err := os.ReadFile(c.FederatedTokenFile)
		if err != nil {
			return nil, fmt.Errorf("WorkloadIdentityCredential: %w", err)
		}
		login["client"], login["token"] = c.ClientID, string(token)
	case c.ManagedIdentity:
		login["identity"] = cmp.Or(c.ManagedIdentityID, "system")
	case c.ClientID != "" && c.ClientSecret != "":
		login["client"], login["secret"] = c.ClientID, c.ClientSecret
	default:
		return nil, errors.New("no credentials provided for Azure cloud provider")
	}
	return login, nil
}

// azureDriver returns the settings that both drivers share, and the client of the API server.
func azureDriver(flags *flag.FlagSet) (driver, *azureConfig, kubernetes.Interface, error) {
	config, err := readAzureConfig(valueOf[bool](flags, "allow-empty-cloud-config"))
	if err != nil {
		return driver{}, nil, nil, err
	}
	inCluster, err := rest.InClusterConfig()
	if err != nil {
		return driver{}, nil, nil, err
	}
	api, err := kubernetes.NewForConfig(inCluster)
	return driver{
		name:     valueOf[string](flags, "drivername"),
		endpoint: valueOf[string](flags, "endpoint"), metrics: valueOf[string](flags, "metrics-address"),
		alsoOnNode: true,
		refused:    func(name string) error { return fmt.Errorf("invalid parameter %s in storage class", name) },
		login:      config.login, backend: backend.Address, folder: backend.Folder,
	}, config, api, err
}

// azureDisk runs the Azure Disk driver.
func azureDisk(ctx context.Context, flags *flag.FlagSet) error {
	d, config, api, err := azureDriver(flags)
	if err != nil {
		return err
	}
	d.features = folders.Features{Attaches: true, Clones: true, Parameters: true, Modifies: true}
	d.topology = "topology." + d.name + "/zone"
	d.parameters = strings.Fields("attachdiskinitialdelay cachingmode diskaccessid diskencryptionsetid diskencryptiontype diskiopsreadwrite diskmbpsreadwrite " +
		"diskname enableasyncattach enablebursting enableperformanceplus fstype kind location logicalsectorsize maxshares networkaccesspolicy perfprofile " +
		"publicnetworkaccess resourcegroup skuname storageaccounttype subscriptionid tags tagvaluedelimiter useragent writeacceleratorenabled zoned")
	d.mutable = []string{"skuname", "diskiopsreadwrite", "diskmbpsreadwrite"}
	d.snapshotParameters = strings.Fields("dataaccessauthmode incremental location networkaccesspolicy publicnetworkaccess resourcegroup subscriptionid tags tagvaluedelimiter useragent")
	if name := valueOf[string](flags, "nodeid"); name != "" {
		limit := valueOf[int](flags, "volume-attach-limit")
		d.info = func(ctx context.Context) (*csi.NodeGetInfoResponse, error) {
			return azureNode(ctx, api, name, d.topology, config, limit-valueOf[int](flags, "reserved-data-disk-slot-num"))
		}
	}
	return d.serve(ctx)
}

// defaultDataDisks is how many disks a virtual machine of an unknown type can have.
const defaultDataDisks = 16

// azureNode describes a node. The real driver asks the metadata service first, which is not simulated here, and reads
// the Node if that does not answer.
func azureNode(ctx context.Context, api kubernetes.Interface, name, topology string, config *azureConfig, limit int) (*csi.NodeGetInfoResponse, error) {
	node, err := api.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("GetNodeInfoFromLabels on node(%s) failed with %w", name, err)
	}
	segments := map[string]string{topology: ""}
	if zone := node.Labels[corev1.LabelTopologyZone]; config != nil && strings.HasPrefix(zone, strings.ToLower(config.Location)+"-") {
		segments[topology], segments[corev1.LabelTopologyZone] = zone, zone
	}
	if limit < 0 {
		limit += defaultDataDisks + 1
	}
	return &csi.NodeGetInfoResponse{NodeId: name, MaxVolumesPerNode: int64(limit), AccessibleTopology: &csi.Topology{Segments: segments}}, nil
}

// storageAccount is the account in Azure that the shares are in.
const storageAccount = "fstandin"

// azureFile runs the Azure File driver.
func azureFile(ctx context.Context, flags *flag.FlagSet) error {
	d, _, api, err := azureDriver(flags)
	if err != nil {
		return err
	}
	d.features = folders.Features{Clones: true, Parameters: true, GrowsAlone: true, MountGroup: true}
	d.alsoOnNodes = true
	d.parameters = strings.Fields("accesstier accountaccesstier accountquota allowblobpublicaccess allowsharedkeyaccess clientid confidentialcontainerlabel " +
		"createaccount createfolderifnotexist disabledeleteretentionpolicy diskname enablelargefileshares enablemultichannel encryptintransit foldername " +
		"fsgroupchangepolicy fstype getlatestaccountkey location matchtags mountpermissions mountwithmanagedidentity networkendpointtype protocol " +
		"provisionedbandwidth provisionediops publicnetworkaccess requireinfraencryption resourcegroup rootsquashtype runtimeclasshandler secretname " +
		"secretnamespace selectrandommatchingaccount server shareaccesstier sharename sharenameprefix skuname storageaccount storageaccounttype " +
		"storageendpointsuffix storeaccountkey subnetname subscriptionid tags tagvaluedelimiter usedataplaneapi usesecretcache vnetlinkname vnetname vnetresourcegroup")
	d.snapshotParameters = []string{"usedataplaneapi"}
	d.created = func(ctx context.Context, request *csi.CreateVolumeRequest, _ *csi.Volume) error {
		return storeAccountKey(ctx, api, request.Parameters)
	}
	if name := valueOf[string](flags, "nodeid"); name != "" {
		d.info = func(context.Context) (*csi.NodeGetInfoResponse, error) {
			return &csi.NodeGetInfoResponse{NodeId: name}, nil
		}
		d.staging = func(ctx context.Context, request *csi.NodeStageVolumeRequest) error {
			return readAccountKey(ctx, api, request.VolumeContext)
		}
	}
	return d.serve(ctx)
}

// accountSecret returns the namespace and name of the Secret with the key of a volume's storage account. The default namespace is the
// claim's.
func accountSecret(parameters map[string]string) (namespace, name string) {
	namespace, name = cmp.Or(parameters["csi.storage.k8s.io/pvc/namespace"], metav1.NamespaceDefault), "azure-storage-account-"+storageAccount+"-secret"
	for key, value := range parameters {
		switch strings.ToLower(key) {
		case "secretnamespace":
			namespace = value
		case "secretname":
			name = value
		}
	}
	return namespace, name
}

func storeAccountKey(ctx context.Context, api kubernetes.Interface, parameters map[string]string) error {
	namespace, name := accountSecret(parameters)
	_, err := api.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"azurestorageaccountname": []byte(storageAccount), "azurestorageaccountkey": []byte("c3RhbmQtaW4=")},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("couldn't create secret %w", err)
	}
	return nil
}

func readAccountKey(ctx context.Context, api kubernetes.Interface, volume map[string]string) error {
	namespace, name := accountSecret(volume)
	secret, err := api.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("could not get secret(%s): %w", name, err)
	}
	if string(secret.Data["azurestorageaccountname"]) != storageAccount || len(secret.Data["azurestorageaccountkey"]) == 0 {
		return fmt.Errorf("could not get account name or key from secret(%s), namespace(%s)", name, namespace)
	}
	return nil
}

// injectAzureCredentials is OpenShift's program that merges a Secret of the cloud credential operator into the
// configuration of the cloud.
func injectAzureCredentials(_ context.Context, flags *flag.FlagSet) error {
	text, err := os.ReadFile(valueOf[string](flags, "cloud-config-file-path"))
	if err != nil {
		return err
	}
	secret := map[string]string{}
	for _, key := range []string{"azure_client_id", "azure_client_secret", "azure_federated_token_file", "azure_tenant_id"} {
		value, err := os.ReadFile(filepath.Join(valueOf[string](flags, "creds-path"), key))
		if err != nil && (!errors.Is(err, fs.ErrNotExist) || key == "azure_client_id") {
			return fmt.Errorf("failed to read %s from secret: %w", key, err)
		}
		secret[key] = string(value)
	}
	tenant, token := secret["azure_tenant_id"], secret["azure_federated_token_file"]
	switch {
	case token == "" && secret["azure_client_secret"] == "":
		return errors.New("azure_client_secret should be set up")
	case token != "" && secret["azure_client_secret"] != "":
		return errors.New("azure_client_secret is set while workload identity is enabled using azure_federated_token_file, this should never happen")
	case token != "" && tenant == "":
		return errors.New("azure_tenant_id should be set up while workload identity is enabled using azure_federated_token_file, this should never happen")
	}
	config := map[string]any{}
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("couldn't read cloud config from file: %w", err)
	}
	config["aadClientId"] = secret["azure_client_id"]
	if _, found := config["useManagedIdentityExtension"]; found && valueOf[bool](flags, "disable-identity-extension-auth") {
		config["useManagedIdentityExtension"] = false
	}
	if token != "" {
		config["tenantId"], config["aadFederatedTokenFile"], config["useFederatedWorkloadIdentityExtension"] = tenant, token, true
	} else {
		config["aadClientSecret"] = secret["azure_client_secret"]
	}
	merged, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(valueOf[string](flags, "output-file-path"), merged, 0o644)
}
