// Package cloudaccess has what the operator needs to call the cloud itself, besides the driver: where the cloud is, credentials of its
// own, certificate authorities, and a rate of calls that leaves the driver room.
package cloudaccess

import (
	"fmt"
	"maps"

	configinformers "github.com/openshift/client-go/config/informers/externalversions/config/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// Source is where the operator reads it.
type Source struct {
	Driver    drivers.Driver
	Namespace string // the driver's
	// Infrastructures is the informer of the cluster's Infrastructure, Secret that of the operator's credentials,
	// CloudConfig that of the ConfigMap with the configuration of the cloud, and TrustedCA that of the driver's ConfigMap with
	// the certificate authorities that the cluster trusts.
	Infrastructures configinformers.InfrastructureInformer
	Secret          coreinformers.SecretInformer
	CloudConfig     coreinformers.ConfigMapInformer
	TrustedCA       coreinformers.ConfigMapInformer
	// Limiter spaces out the calls.
	Limiter *RateLimiter
}

// Informers are those whose objects Read reads.
func (s Source) Informers() []factory.Informer {
	return []factory.Informer{s.Infrastructures.Informer(), s.Secret.Informer(), s.CloudConfig.Informer(), s.TrustedCA.Informer()}
}

// Read reads it. There are no credentials while there is no Secret.
func (s Source) Read() (drivers.CloudAccess, error) {
	infrastructure, err := s.Infrastructures.Lister().Get("cluster")
	if err != nil {
		return drivers.CloudAccess{}, fmt.Errorf("reading the cluster's Infrastructure: %w", err)
	}
	access := drivers.CloudAccess{Infrastructure: infrastructure, TokenFile: s.Driver.Tagging.TokenFile, Wait: s.Limiter.Wait}
	secret, err := s.Secret.Lister().Secrets(s.Namespace).Get(s.Driver.Tagging.Secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return drivers.CloudAccess{}, err
	}
	if err == nil {
		access.Credentials = map[string][]byte{}
		maps.Copy(access.Credentials, secret.Data)
	}
	access.CABundle, err = s.authorities()
	return access, err
}

// authorities returns the certificate authorities of the cloud and those that the cluster trusts.
func (s Source) authorities() (string, error) {
	read := func(informer coreinformers.ConfigMapInformer, namespace, name, key string) (string, error) {
		object, err := informer.Lister().ConfigMaps(namespace).Get(name)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return object.Data[key], nil
	}
	cloud, err := read(s.CloudConfig, drivers.CloudConfigNamespace, drivers.CloudConfigName, drivers.CABundleKey)
	if err != nil {
		return "", err
	}
	if cloud != "" {
		if err := drivers.CheckCABundle(cloud); err != nil {
			return "", err
		}
	}
	trusted, err := read(s.TrustedCA, s.Namespace, s.Driver.TrustedCABundle, drivers.TrustedCAKey)
	return cloud + "\n" + trusted, err
}
