package fault_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-csi/berth/lab/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// limit bounds every wait. It is generous, for busy machines.
const limit = 2 * time.Minute

// encodings are the encodings that a client may use.
var encodings = []struct{ name, contentType string }{
	{"json", "application/json"},
	{"protobuf", "application/vnd.kubernetes.protobuf"},
}

// space is a namespace of the shared cluster.
type space struct {
	t         *testing.T
	cfg       *rest.Config
	namespace string
	admin     typedcorev1.SecretInterface // without faults
}

func newSpace(t *testing.T) *space {
	c := cluster.Shared(t, cluster.Options{})
	w := &space{t: t, cfg: c.Config(), namespace: c.Namespace(t)}
	w.admin = w.secrets(w.cfg)
	return w
}

// secrets is the client for the objects that these tests write.
func (w *space) secrets(cfg *rest.Config) typedcorev1.SecretInterface {
	return kubernetes.NewForConfigOrDie(cfg).CoreV1().Secrets(w.namespace)
}

func named(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func (w *space) exists(name string) bool {
	w.t.Helper()
	_, err := w.admin.Get(context.Background(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}
