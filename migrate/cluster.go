package migrate

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// DefaultJournalNamespace holds the journals unless an administrator names another namespace. No tenant can write there, or create a
// namespace of that name.
const DefaultJournalNamespace = metav1.NamespaceSystem

// Cluster is the connection to a cluster.
type Cluster struct {
	Config *rest.Config
	Client client.Client
	// JournalNamespace holds the journals. Anyone who can write there controls migrations. The default is
	// DefaultJournalNamespace.
	JournalNamespace string
	// Warn, if set, is called with the reason for each ConfigMap in the journals' namespace that is ignored.
	Warn func(string)
}

// journals returns the namespace of the journals.
func (c Cluster) journals() string { return cmp.Or(c.JournalNamespace, DefaultJournalNamespace) }

// Command returns a command line for the migration of a plan in this cluster.
func (e Engine[P]) Command(cluster Cluster, p P, verb string) string {
	return e.command(cluster.journals(), p, verb)
}

func (e Engine[P]) command(journals string, p Plan, verb string) string {
	called := verb
	if e.Verb != nil {
		called = e.Verb(p.(P), verb)
	}
	line := "berth " + e.Name + " " + called + p.Arguments(called)
	if journals != DefaultJournalNamespace {
		line += escape.Command(" --journal-namespace %s", journals)
	}
	return line
}

// Find reads an object and reports whether it exists. If the cluster does not serve the object's API, the object does not exist.
func Find(ctx context.Context, c client.Client, object client.Object, namespace, name string) (bool, error) {
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// NamespaceUID returns the UID of a namespace. It is empty if the namespace does not exist.
func NamespaceUID(ctx context.Context, c client.Client, name string) (types.UID, error) {
	namespace := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
	if _, err := Find(ctx, c, namespace, "", name); err != nil {
		return "", fmt.Errorf("reading Namespace %s: %w", name, err)
	}
	return namespace.UID, nil
}
