package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/drivers/placement"
)

// believedFor is how long a look at the driver's namespace holds. It takes longer to delete a namespace with the
// driver in it.
const believedFor = time.Second

// A guard lets writes to the cluster through only while the driver's namespace is the one that was decided on. If it
// has been deleted, or another one has been made in its place, whatever the operator writes would be a stranger's:
// credentials, and permissions of service accounts.
//
// Writes to the ClusterCSIDriver pass always.
type guard struct {
	reader client.Reader
	// lost is called when the namespace is found to be another one.
	lost func()

	mu     sync.Mutex
	place  place // none before it is known
	looked time.Time
}

var errPlaceUnknown = errors.New("nothing is written before the driver's namespace is known")

// keep lets writes through from now on, while the namespace is the place.
func (g *guard) keep(p place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.place, g.looked = p, time.Time{}
}

// check fails if the namespace is not the place.
func (g *guard) check(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.place.namespace == "" {
		return errPlaceUnknown
	}
	if g.place.lost || time.Since(g.looked) < believedFor {
		return nil // What is lost gets no writes: only what is outside of it is removed.
	}
	began := time.Now()
	found, err := placement.ReadNamespace(ctx, g.reader, g.place.namespace)
	if err != nil {
		return fmt.Errorf("looking whether the driver's namespace is still the same: %w", err)
	}
	if found == nil || found.UID != g.place.uid || found.Terminating {
		g.lost()
		return fmt.Errorf("namespace %s with UID %s, which the driver is in, has been deleted or is about to be: nothing is written any more", g.place.namespace, g.place.uid)
	}
	g.looked = began
	return nil
}

func (g *guard) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "/"+clusterCSIDrivers.Resource+"/") {
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
