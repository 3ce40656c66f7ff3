package controllers

import (
	"slices"
	"strings"

	"github.com/openshift/library-go/pkg/operator/resource/resourcehash"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/drivers"
	"github.com/berth-csi/berth/internal/boundedyaml"
)

// secretAnnotation is the prefix of the pod annotations with the hashes of the mounted Secrets.
const secretAnnotation = "berth.dev/secret-"

// cloudAnnotation is the pod annotation with the hash of the cloud's configuration, which programs read only when they start.
const cloudAnnotation = "berth.dev/cloud-config"

// configure adapts the driver's pods to the cluster where library-go does not. It fails if a placeholder remains, and
// the sync that calls it then reports Degraded.
func (b Workloads) configure(pod *corev1.PodTemplateSpec) error {
	cluster, err := b.Observe()
	if err != nil {
		return err
	}
	b.Driver.Configure(&pod.Spec, cluster)
	removeEmptyCipherSuites(&pod.Spec)
	for _, secret := range mountedSecrets(b.Driver.PodSecrets(), pod.Spec) {
		if err := b.annotateSecret(secret, pod); err != nil {
			return err
		}
	}
	if len(cluster.CloudConfig) > 0 && mountsConfigMap(b.Driver.CloudConfig.ConfigMap, pod.Spec) {
		hash, err := resourcehash.GetConfigMapHash(&corev1.ConfigMap{Data: cluster.CloudConfig})
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, cloudAnnotation, hash)
	}
	return checkRendered(pod)
}

func mountsConfigMap(name string, pod corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == name })
}

// removeEmptyCipherSuites removes the argument for the cipher suites if it still has its placeholder. library-go leaves the placeholder
// there if the TLS profile has no cipher suite that can be configured in Go.
func removeEmptyCipherSuites(pod *corev1.PodSpec) {
	for i, container := range pod.Containers {
		pod.Containers[i].Args = slices.DeleteFunc(container.Args, func(arg string) bool {
			return strings.HasSuffix(arg, "=${TLS_CIPHER_SUITES}")
		})
	}
}

// mountedSecrets returns the Secrets that a pod mounts.
func mountedSecrets(secrets []string, pod corev1.PodSpec) []string {
	return slices.DeleteFunc(slices.Clone(secrets), func(secret string) bool {
		return !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Secret.SecretName == secret
		})
	})
}

// annotateSecret annotates a pod with the hash of a Secret that it mounts, if the Secret exists. When the content
// changes, only the pods that mount it are replaced.
func (b Workloads) annotateSecret(name string, pod *corev1.PodTemplateSpec) error {
	secret, err := b.Named(name).Core().V1().Secrets().Lister().Secrets(b.Namespace).Get(name)
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

// checkRendered fails if an object still has a placeholder.
func checkRendered(object any) error {
	document, err := boundedyaml.Marshal(object)
	if err != nil {
		return err
	}
	return drivers.CheckRendered(document)
}
