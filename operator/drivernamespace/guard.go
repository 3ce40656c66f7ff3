package drivernamespace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/placement"
	"github.com/berth-csi/berth/operator/clustercsidriver"
	"github.com/berth-csi/berth/operator/transport"
)

// checkInterval is how long a check of the driver's namespace is valid. Deleting a namespace that contains the driver
// takes longer.
const checkInterval = time.Second

// A Guard lets writes to the cluster through only while the driver's namespace has the expected UID. If the namespace
// was deleted, somebody may have created another one with the same name, and the operator's writes would give that
// person credentials and the permissions of the driver's service accounts.
//
// Writes to the ClusterCSIDriver always pass.
type Guard struct {
	reader client.Reader
	onLost func()

	mu        sync.Mutex
	namespace Namespace // the zero value until it is known
	checked   time.Time
}

var errNamespaceUnknown = errors.New("the operator writes nothing before it knows the driver's namespace")

// NewGuard returns a guard that rejects all writes until Allow is called. It calls onLost when it finds that the
// namespace was deleted or replaced.
func NewGuard(reader client.Reader, onLost func()) *Guard {
	return &Guard{reader: reader, onLost: onLost}
}

// Allow lets writes through from now on, while the namespace exists.
func (g *Guard) Allow(namespace Namespace) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.namespace, g.checked = namespace, time.Time{}
}

// check fails unless the namespace has the expected UID.
func (g *Guard) check(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	want := g.namespace
	if want.Name == "" {
		return errNamespaceUnknown
	}
	if want.Lost || time.Since(g.checked) < checkInterval {
		return nil // once the namespace is lost, the operator only deletes objects outside of it
	}
	started := time.Now()
	found, err := placement.ReadNamespace(ctx, g.reader, want.Name)
	if err != nil {
		return fmt.Errorf("checking that the driver's namespace still has its UID: %w", err)
	}
	if found == nil || found.UID != want.UID || found.Terminating {
		klog.InfoS("The driver's namespace was deleted or replaced", "namespace", want.Name, "uid", want.UID)
		g.onLost()
		return fmt.Errorf("namespace %s with UID %s, which the driver is in, has been deleted or is being deleted: the operator no longer writes anything", want.Name, want.UID)
	}
	g.checked = started
	return nil
}

// Wrap returns a round tripper that is guarded.
func (g *Guard) Wrap(next http.RoundTripper) http.RoundTripper {
	return transport.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "/"+clustercsidriver.Resource.Resource+"/") {
			if err := g.check(request.Context()); err != nil {
				if request.Body != nil {
					request.Body.Close()
				}
				return nil, err
			}
		}
		return next.RoundTrip(request)
	})
}
