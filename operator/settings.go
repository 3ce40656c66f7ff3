package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorv1 "github.com/openshift/api/operator/v1"
	applyoperatorv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourcehash"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-csi/berth/drivers"
)

// secretAnnotation begins the annotations of a pod that tell the content of the Secrets it mounts.
const secretAnnotation = "berth.dev/secret-"

// observeCluster returns what the driver's settings are made of.
func (o *operator) observeCluster(c *clients) (drivers.Cluster, error) {
	infrastructure, err := c.configInformers.Config().V1().Infrastructures().Lister().Get("cluster")
	if err != nil {
		return drivers.Cluster{}, err
	}
	object, err := c.dynamicInformers.ForResource(clusterCSIDrivers).Lister().Get(o.driver.CSIName)
	if err != nil {
		return drivers.Cluster{}, err
	}
	custom := &operatorv1.ClusterCSIDriver{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.(*unstructured.Unstructured).Object, custom); err != nil {
		return drivers.Cluster{}, fmt.Errorf("reading ClusterCSIDriver %s: %w", o.driver.CSIName, err)
	}
	return drivers.Cluster{Infrastructure: infrastructure, ClusterCSIDriver: custom}, nil
}

// configure fits the driver's pods, of whichever kind, to the cluster as far as library-go does not,
// and fails if a placeholder is left in the end: the sync that calls it reports Degraded.
func (o *operator) configure(c *clients, pod *corev1.PodTemplateSpec) error {
	cluster, err := o.observeCluster(c)
	if err != nil {
		return err
	}
	o.driver.Configure(&pod.Spec, cluster)
	leaveOutEmptyCipherSuites(&pod.Spec)
	for _, secret := range mountedSecrets(o.driver.Secrets, pod.Spec) {
		if err := o.annotateSecret(c, secret, pod); err != nil {
			return err
		}
	}
	return checkRendered(pod)
}

// leaveOutEmptyCipherSuites removes the argument for a TLS profile that names no cipher suite which Go
// lets one choose. library-go leaves its placeholder as it is then.
func leaveOutEmptyCipherSuites(pod *corev1.PodSpec) {
	for i, container := range pod.Containers {
		pod.Containers[i].Args = slices.DeleteFunc(container.Args, func(arg string) bool {
			return strings.HasSuffix(arg, "=${TLS_CIPHER_SUITES}")
		})
	}
}

// mountedSecrets returns those Secrets that a pod mounts.
func mountedSecrets(secrets []string, pod corev1.PodSpec) []string {
	return slices.DeleteFunc(slices.Clone(secrets), func(secret string) bool {
		return !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Secret.SecretName == secret
		})
	})
}

// annotateSecret marks a pod with the content of a Secret that it mounts, if that exists: when the
// content changes, the pods are replaced, and only these.
func (o *operator) annotateSecret(c *clients, name string, pod *corev1.PodTemplateSpec) error {
	secret, err := c.secrets(name).Lister().Secrets(c.place.namespace).Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	hash, err := resourcehash.GetSecretHash(secret)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, secretAnnotation+name, hash)
	return nil
}

// settingsController tells in a condition, and in an event when that changes, whether there is anything
// that the cluster asks for and the driver cannot do. The driver works all the same, so this is no
// reason to call it degraded.
type settingsController struct {
	*operator
	clients *clients
	told    string // the last message
}

func (o *operator) newSettingsController(c *clients) factory.Controller {
	controller := &settingsController{operator: o, clients: c}
	controller.told = c.condition(controller.conditionType()).Message
	return factory.New().
		WithInformers(
			c.customResource.Informer(),
			c.configInformers.Config().V1().Infrastructures().Informer(),
		).
		WithSync(controller.sync).
		WithSyncDegradedOnError(c.customResource).
		ToController(o.driver.ConditionPrefix+"DriverSettingsController", o.recorder)
}

func (c *settingsController) sync(ctx context.Context, _ factory.SyncContext) error {
	cluster, err := c.observeCluster(c.clients)
	if err != nil {
		return err
	}
	status, reason, message := operatorv1.ConditionTrue, "AsExpected", strings.Join(c.driver.LeftOut(cluster), " ")
	if message != "" {
		status, reason = operatorv1.ConditionFalse, "LeftOut"
	}
	// The condition first: it is what an operator that is started again reads to know what it has told.
	if err := c.clients.customResource.ApplyOperatorStatus(ctx, c.driver.ConditionPrefix+"DriverSettings", applyoperatorv1.OperatorStatus().WithConditions(
		applyoperatorv1.OperatorCondition().WithType(c.conditionType()).WithStatus(status).WithReason(reason).WithMessage(message))); err != nil {
		return err
	}
	if message != c.told && message != "" {
		c.recorder.Warning("SettingsLeftOut", message)
	}
	c.told = message
	return nil
}

func (c *settingsController) conditionType() string {
	return c.driver.ConditionPrefix + "DriverSettingsApplied"
}
