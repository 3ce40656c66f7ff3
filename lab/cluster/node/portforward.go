package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
)

// portForward connects a stream with a port of a pod, until either of them is closed.
func (p *provider) portForward(ctx context.Context, namespace, name string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	known := p.find(namespace, name)
	if known == nil {
		return errdefs.NotFoundf("pod %s/%s is not on this node", namespace, name)
	}
	address := net.JoinHostPort(known.view().Status.PodIP, strconv.Itoa(int(port)))
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("pod %s/%s does not listen on port %d: %w", namespace, name, port, err)
	}
	defer conn.Close()
	ended := make(chan error, 2)
	join := func(to io.Writer, from io.Reader) {
		_, err := io.Copy(to, from)
		ended <- err
	}
	go join(conn, stream)
	go join(stream, conn)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
