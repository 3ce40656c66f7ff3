package clusterstorage

import (
	"errors"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
)

// observed is the state of the cluster on which a sync bases its decisions.
type observed struct {
	infrastructure  *configv1.Infrastructure // nil if there is none
	storage         *operatorv1.Storage
	clusterOperator *configv1.ClusterOperator // nil if there is none
	// gates are the feature gates that are enabled for this version.
	gates map[configv1.FeatureGateName]bool
	// proxy holds the settings with which pods reach addresses outside the cluster.
	proxy configv1.ProxyStatus
	// customResources are the ClusterCSIDrivers, and csiDrivers the CSIDrivers, by name.
	customResources map[string]*operatorv1.ClusterCSIDriver
	csiDrivers      map[string]*storagev1.CSIDriver
	bindings        []*rbacv1.ClusterRoleBinding
}

// errNoStorage says that the object for the operator's reports is missing.
var errNoStorage = errors.New("there is no Storage object with the name cluster: nothing is done until there is one; the cluster version operator creates it")

// observe reads the caches.
func (c *cluster) observe(version string) (observed, error) {
	o := observed{customResources: map[string]*operatorv1.ClusterCSIDriver{}, csiDrivers: map[string]*storagev1.CSIDriver{}}
	var err error
	if o.infrastructure, err = orNil(c.config.Config().V1().Infrastructures().Lister().Get("cluster")); err != nil {
		return o, fmt.Errorf("reading Infrastructure cluster: %w", err)
	}
	if o.clusterOperator, err = orNil(c.clusterOperator.Config().V1().ClusterOperators().Lister().Get(ClusterOperatorName)); err != nil {
		return o, fmt.Errorf("reading ClusterOperator %s: %w", ClusterOperatorName, err)
	}
	gates, err := orNil(c.config.Config().V1().FeatureGates().Lister().Get("cluster"))
	if err != nil {
		return o, fmt.Errorf("reading FeatureGate cluster: %w", err)
	}
	o.gates = enabledGates(gates, version)
	proxy, err := orNil(c.config.Config().V1().Proxies().Lister().Get("cluster"))
	if err != nil {
		return o, fmt.Errorf("reading Proxy cluster: %w", err)
	}
	if proxy != nil {
		o.proxy = proxy.Status
	}
	if o.storage, err = orNil(c.operator.Operator().V1().Storages().Lister().Get("cluster")); err != nil {
		return o, fmt.Errorf("reading Storage cluster: %w", err)
	}
	if o.storage == nil {
		return o, errNoStorage
	}
	customResources, err := c.operator.Operator().V1().ClusterCSIDrivers().Lister().List(labels.Everything())
	if err != nil {
		return o, fmt.Errorf("reading ClusterCSIDrivers: %w", err)
	}
	for _, custom := range customResources {
		o.customResources[custom.Name] = custom
	}
	csiDrivers, err := c.kubeInformers.Storage().V1().CSIDrivers().Lister().List(labels.Everything())
	if err != nil {
		return o, fmt.Errorf("reading CSIDrivers: %w", err)
	}
	for _, driver := range csiDrivers {
		o.csiDrivers[driver.Name] = driver
	}
	if o.bindings, err = c.kubeInformers.Rbac().V1().ClusterRoleBindings().Lister().List(labels.Everything()); err != nil {
		return o, fmt.Errorf("reading ClusterRoleBindings: %w", err)
	}
	return o, c.showClasses()
}

// showClasses shows the cluster's classes in metrics. Nothing else depends on them.
func (c *cluster) showClasses() error {
	classes, err := c.kubeInformers.Storage().V1().StorageClasses().Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("reading StorageClasses: %w", err)
	}
	var attributes []*storagev1.VolumeAttributesClass
	if c.attributesClasses != nil {
		if attributes, err = c.attributesClasses.List(labels.Everything()); err != nil {
			return fmt.Errorf("reading VolumeAttributesClasses: %w", err)
		}
	}
	show(classes, attributes)
	return nil
}

// orNil returns nil for an object that does not exist.
func orNil[T any](object *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// enabledGates returns the feature gates that are enabled for a version of OpenShift.
func enabledGates(gates *configv1.FeatureGate, version string) map[configv1.FeatureGateName]bool {
	enabled := map[configv1.FeatureGateName]bool{}
	if gates == nil {
		return enabled
	}
	for _, details := range gates.Status.FeatureGates {
		if details.Version != version {
			continue
		}
		for _, attributes := range details.Enabled {
			enabled[attributes.Name] = true
		}
	}
	return enabled
}
