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

// The keys of a Secret for AWS clients.
const (
	keyID       = "aws_access_key_id"
	keySecret   = "aws_secret_access_key"
	credentials = "credentials"
)

// defaultTokenPath is the path of the token for programs that do not set it.
const defaultTokenPath = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// RootNamespace, RootOpenStack, RootGCP, RootAzure and RootVSphere name the Secrets in which the installer stores the
// cluster's own credentials. The keys are clouds.yaml and optionally cacert for OpenStack, service_account.json for
// GCP, and azure_client_id, azure_client_secret and more for Azure. OpenStack, vSphere and Azure have no separate users
// for requests, so each request gets a copy. For GCP, the real operator also copies them where it may not create
// service accounts.
const (
	RootNamespace = "kube-system"
	RootOpenStack = "openstack-credentials"
	RootGCP       = "gcp-credentials"
	RootAzure     = "azure-credentials"
	RootVSphere   = "vsphere-creds"
)

// roots are the Secrets with the cluster's own credentials, by the kind of the requests that get a copy.
var roots = map[string]string{kindOpenStack: RootOpenStack, kindGCP: RootGCP, kindAzure: RootAzure, kindVSphere: RootVSphere}

// secret returns the Secret of the request. It keeps the key pair of an existing one, as the real operator keeps a
// user's valid key, or else invents a new one. root has the cluster's own credentials, for requests that use them.
func (r request) secret(existing, root *corev1.Secret) *applycorev1.SecretApplyConfiguration {
	return applycorev1.Secret(r.spec.SecretRef.Name, r.spec.SecretRef.Namespace).
		WithLabels(map[string]string{OwnerMark: "true"}).
		WithAnnotations(map[string]string{OwnerMark: Namespace + "/" + r.object.GetName()}).
		WithType(corev1.SecretTypeOpaque).
		WithData(r.secretData(existing, root))
}

func (r request) secretData(existing, root *corev1.Secret) map[string][]byte {
	if r.root() != "" {
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

// isAsWanted reports whether writing the Secret would change nothing relevant.
func isAsWanted(existing *corev1.Secret, wanted *applycorev1.SecretApplyConfiguration) bool {
	return maps.EqualFunc(existing.Data, wanted.Data, bytes.Equal) &&
		existing.Labels[OwnerMark] == wanted.Labels[OwnerMark] &&
		existing.Annotations[OwnerMark] == wanted.Annotations[OwnerMark]
}
