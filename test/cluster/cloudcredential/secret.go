package cloudcredential

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

// The keys of a Secret by which AWS clients know their credentials.
const (
	keyID       = "aws_access_key_id"
	keySecret   = "aws_secret_access_key"
	credentials = "credentials"
)

// defaultTokenPath is where the token is of a program that does not say otherwise.
const defaultTokenPath = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// RootNamespace and RootOpenStack are where the installer leaves what the cluster logs in to OpenStack with:
// a Secret with the keys clouds.yaml and, if need be, cacert. OpenStack has no users to make for each
// request, so all of them get a copy.
const (
	RootNamespace = "kube-system"
	RootOpenStack = "openstack-credentials"
)

// secret is the Secret that the request asks for. The key pair of an existing one is kept, as the
// real operator keeps a user's valid key; where there is none, a new pair is made up. root is what the
// cluster itself logs in with, for requests that use it.
func (r request) secret(existing, root *corev1.Secret) *applycorev1.SecretApplyConfiguration {
	return applycorev1.Secret(r.spec.SecretRef.Name, r.spec.SecretRef.Namespace).
		WithLabels(map[string]string{ownerMark: "true"}).
		WithAnnotations(map[string]string{ownerMark: Namespace + "/" + r.object.GetName()}).
		WithType(corev1.SecretTypeOpaque).
		WithData(r.secretData(existing, root))
}

func (r request) secretData(existing, root *corev1.Secret) map[string][]byte {
	if r.usesRoot() {
		return root.Data
	}
	if r.usesToken() {
		return map[string][]byte{credentials: fmt.Appendf(nil,
			"[default]\nsts_regional_endpoints = regional\nrole_arn = %s\nweb_identity_token_file = %s",
			r.spec.ProviderSpec.STSIAMRoleARN, cmp.Or(r.spec.CloudTokenPath, defaultTokenPath))}
	}
	id, secret := []byte("LOCAL"+rand.Text()[:15]), []byte(rand.Text())
	if existing != nil && len(existing.Data[keyID]) > 0 && len(existing.Data[keySecret]) > 0 {
		id, secret = existing.Data[keyID], existing.Data[keySecret]
	}
	return map[string][]byte{
		keyID:       id,
		keySecret:   secret,
		credentials: fmt.Appendf(nil, "[default]\n%s = %s\n%s = %s", keyID, id, keySecret, secret),
	}
}

// isAsWanted tells whether writing the Secret would change nothing that the operator cares for.
func isAsWanted(existing *corev1.Secret, wanted *applycorev1.SecretApplyConfiguration) bool {
	return maps.EqualFunc(existing.Data, wanted.Data, bytes.Equal) &&
		existing.Labels[ownerMark] == wanted.Labels[ownerMark] &&
		existing.Annotations[ownerMark] == wanted.Annotations[ownerMark]
}
