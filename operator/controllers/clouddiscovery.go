package controllers

import (
	"context"
	"errors"

	"github.com/openshift/library-go/pkg/controller/factory"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"

	"github.com/berth-csi/berth/drivers"
)

// CloudDiscovery queries a cloud.
type CloudDiscovery struct {
	Namespace string // the driver's
	// Find queries the cloud; see package drivers/controller.
	Find func(ctx context.Context, cloud drivers.Cloud, config, source map[string]string) (found map[string]string, err error)
	// Secret is the informer of the Secret with the credentials for the cloud.
	Secret coreinformers.SecretInformer
	// Cloud returns the cluster's information about the cloud, without credentials. Triggers are informers of the
	// objects that Cloud reads.
	Cloud    func() (drivers.Cloud, error)
	Triggers []factory.Informer
}

var errNoCloudCredentials = errors.New("there are no credentials to ask the cloud with yet")

// find queries the cloud.
func (a CloudDiscovery) find(ctx context.Context, d *drivers.Discovery, config, source map[string]string) (map[string]string, error) {
	secret, err := a.Secret.Lister().Secrets(a.Namespace).Get(d.Secret)
	if apierrors.IsNotFound(err) {
		return nil, errNoCloudCredentials
	}
	if err != nil {
		return nil, err
	}
	cloud, err := a.Cloud()
	if err != nil {
		return nil, err
	}
	cloud.Credentials = secret.Data
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return a.Find(ctx, cloud, config, source)
}
