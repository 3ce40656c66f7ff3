package drivers

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CredentialsRequestKind is the kind of objects that request credentials from the cloud credential operator.
// CredentialsRequestNamespace is where that operator reads them.
var CredentialsRequestKind = schema.GroupVersionKind{Group: "cloudcredential.openshift.io", Version: "v1", Kind: "CredentialsRequest"}

const CredentialsRequestNamespace = "openshift-cloud-credential-operator"

// A Leftover is an object that a predecessor made for the driver and that this definition does not have. The driver's operator
// does not touch it, because the driver's pods may need it until all of them are up to date.
type Leftover struct {
	Kind schema.GroupVersionKind
	// Namespace is as in an asset: NamespacePlaceholder for the driver's namespace, "" for a cluster-scoped object, or one of OpenShift's
	// namespaces, which begin with "openshift-".
	Namespace string
	Name      string
	// Credentials are the credentials that a CredentialsRequest requests; nil for other kinds.
	Credentials *OldCredentials
}

// OldCredentials names the Secrets with a predecessor's credentials, in the driver's namespace.
type OldCredentials struct {
	// Secret is the Secret that the CredentialsRequest names.
	Secret string
	// Copy is the Secret into which the predecessor copied the credentials, under Keys; "" if it made no copy.
	Copy string
	Keys []string
}

// Leftovers returns the leftovers of the predecessors of a driver in a namespace, with this namespace in place of the placeholder. It
// fails if a leftover must not be deleted.
func (d Driver) Leftovers(namespace string) ([]Leftover, error) {
	assets, err := d.unrendered()
	if err != nil {
		return nil, err
	}
	var found []Leftover
	for _, p := range d.Predecessors() {
		for _, l := range p.Leaves {
			if err := l.check(assets); err != nil {
				return nil, fmt.Errorf("leftover %s %s of driver %s: %w", l.Kind.Kind, l.Name, d.Name, err)
			}
			l.Namespace = strings.ReplaceAll(l.Namespace, NamespacePlaceholder, namespace)
			found = append(found, l)
		}
	}
	return found, nil
}

func (l Leftover) check(assets []Manifest) error {
	if isRequest := l.Kind == CredentialsRequestKind; isRequest != (l.Credentials != nil) {
		return errors.New("want its credentials if it is a CredentialsRequest, and else none")
	}
	return checkDeletable(l.Kind, l.Namespace, l.Name, assets)
}
