package drivers_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/drivers"
)

// TestCredentialKeys: a container that mounts credentials reads all keys that the operator accepts, each from a file or
// from a variable, and starts without any of them. The operator's own credentials are in no container.
func TestCredentialKeys(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d drivers.Driver, manifests []drivers.Manifest) {
		if len(d.CredentialKeys) == 0 {
			return // the driver does not say which keys it reads
		}
		requested := map[string]bool{}
		for _, m := range drivers.OfKind(manifests, "CredentialsRequest") {
			name, _, _ := unstructured.NestedString(m.Object.Object, "spec", "secretRef", "name")
			requested[name] = true
		}
		if d.CloudAccess != nil {
			delete(requested, d.CloudAccess.Secret)
		}
		read := map[string]bool{}
		for _, w := range workloads(t, manifests) {
			for _, volume := range w.pod.Spec.Volumes {
				if volume.Secret == nil || !requested[volume.Secret.SecretName] {
					continue
				}
				for _, c := range w.containers() {
					for _, mount := range c.VolumeMounts {
						if mount.Name == volume.Name {
							read[volume.Secret.SecretName] = true
							checkReads(t, w.file, c, volume.Secret, d.CredentialKeys)
						}
					}
				}
			}
		}
		assert.Lenf(t, read, len(requested), "Secrets that containers read, want those of all CredentialsRequests: %v", requested)
	})
}

func checkReads(t *testing.T, file string, c corev1.Container, secret *corev1.SecretVolumeSource, sets [][]string) {
	t.Helper()
	keys := map[string]bool{}
	for _, item := range secret.Items {
		keys[item.Key] = true
	}
	for _, variable := range c.Env {
		if variable.ValueFrom == nil || variable.ValueFrom.SecretKeyRef == nil {
			continue
		}
		ref := variable.ValueFrom.SecretKeyRef
		if ref.Name != secret.SecretName || ref.Optional == nil || !*ref.Optional {
			t.Errorf("%s: container %s: variable %s is from %+v, want an optional key of Secret %s", file, c.Name, variable.Name, ref, secret.SecretName)
		}
		keys[ref.Key] = true
	}
	for _, set := range sets {
		for _, key := range set {
			assert.Truef(t, keys[key], "%s: container %s does not read the key %s of Secret %s", file, c.Name, key, secret.SecretName)
		}
	}
}
