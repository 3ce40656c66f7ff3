package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/client-go/rest"
)

// dialTimeout is how long an address may take to answer before it counts as unreachable.
const dialTimeout = 3 * time.Second

// connection is a gRPC connection to the server of a CatalogSource.
type connection struct {
	registry api.RegistryClient
	// via names the address or the pod in messages.
	via  string
	conn *grpc.ClientConn
	stop func() // stops the port forwarding, if any
}

// Close closes the connection.
func (c *connection) Close() error {
	defer c.stop()
	return c.conn.Close()
}

// connect connects to the server of a CatalogSource: directly if its address is reachable from here, or else to the pod that
// serves it.
func connect(ctx context.Context, config *rest.Config, source *v1alpha1.CatalogSource) (*connection, error) {
	address := addressOf(source)
	direct := reachable(ctx, address)
	if direct == nil {
		return newConnection(address, address, func() {})
	}
	if source.Spec.Address != "" { // no pod of this cluster is known to serve it
		return nil, fmt.Errorf("spec.address cannot be reached from here: %w; run this where it can be reached, or correct the address", direct)
	}
	forwarded, pod, stop, err := forward(ctx, config, source)
	if err != nil {
		return nil, fmt.Errorf("neither its address nor its pod can be reached: %w", errors.Join(direct, err))
	}
	return newConnection(forwarded, "pod "+pod, stop)
}

// addressOf returns the host and port that OLM dials, or "" if the CatalogSource does not have them yet.
func addressOf(source *v1alpha1.CatalogSource) string {
	if source.Spec.Address != "" {
		return source.Spec.Address
	}
	if source.Status.GRPCConnectionState != nil {
		return source.Status.GRPCConnectionState.Address
	}
	return ""
}

// reachable returns an error if an address cannot be reached from here.
func reachable(ctx context.Context, address string) error {
	if address == "" {
		return errors.New("it has no address yet")
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// newConnection connects without encryption: OLM supports none here.
func newConnection(address, via string, stop func()) (*connection, error) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		stop()
		return nil, fmt.Errorf("connecting to %s: %w", via, err)
	}
	return &connection{registry: api.NewRegistryClient(conn), via: via, conn: conn, stop: stop}, nil
}
