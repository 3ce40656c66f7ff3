package cluster

import (
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// adminKubeconfig is the name of the administrator's kubeconfig in a cluster's folder.
const adminKubeconfig = "kubeconfig"

// writeKubeconfig writes a self-contained kubeconfig for a user.
func (c *controlPlane) writeKubeconfig(name string, user user) error {
	config, err := c.kubeconfig(c.url(), user)
	if err != nil {
		return err
	}
	return clientcmd.WriteToFile(*config, c.path(name))
}

func (c *controlPlane) kubeconfig(url string, user user) (*clientcmdapi.Config, error) {
	identity, err := c.pki.client(user.name, user.groups...)
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["berth"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: c.pki.servers.cert}
	config.AuthInfos[user.name] = &clientcmdapi.AuthInfo{ClientCertificateData: identity.cert, ClientKeyData: identity.key}
	config.Contexts["berth"] = &clientcmdapi.Context{Cluster: "berth", AuthInfo: user.name}
	config.CurrentContext = "berth"
	return config, nil
}

// restConfig returns a client configuration for a user, without throttling.
func (c *controlPlane) restConfig(user user) (*rest.Config, error) {
	identity, err := c.pki.client(user.name, user.groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            c.url(),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.servers.cert, CertData: identity.cert, KeyData: identity.key},
		QPS:             -1,
	}, nil
}

func (c *controlPlane) url() string { return "https://" + c.hostPort(c.apiPort) }
