package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/berth-csi/berth/lab/folders"
)

// registrar is the sidecar that tells the kubelet of a driver. It ends when the kubelet refuses the driver, so that the kubelet
// starts it again.
func registrar(ctx context.Context, flags *flag.FlagSet) error {
	endpoint := valueOf[string](flags, "kubelet-registration-path")
	if endpoint == "" {
		return errors.New("kubelet-registration-path is a required parameter")
	}
	if valueOf[string](flags, "mode") == "kubelet-registration-probe" {
		return nil // as the real one, since the kubelet reports a failed registration itself
	}
	address, err := diagnosticsAddress(flags)
	if err != nil {
		return err
	}
	connection, err := connect(ctx, valueOf[string](flags, "csi-address"))
	if err != nil {
		return err
	}
	defer connection.Close()
	timeout := valueOf[time.Duration](flags, "timeout")
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	name, err := nameOf(asking, connection)
	if err != nil {
		return err
	}
	socket := filepath.Join(valueOf[string](flags, "plugin-registration-path"), name+"-reg.sock")
	listener, err := listenPrivately(socket)
	if err != nil {
		return err
	}
	defer os.Remove(socket)
	log.Printf("%s is registered at %s", name, socket)

	group, ctx := errgroup.WithContext(ctx)
	ctx, refuse := context.WithCancelCause(ctx)
	group.Go(func() error {
		err := folders.ServeOn(ctx, listener, folders.Logged(true), func(s *grpc.Server) {
			registration.RegisterRegistrationServer(s, plugin{name: name, endpoint: endpoint, refuse: refuse})
		})
		if cause := context.Cause(ctx); errors.As(cause, &refusal{}) {
			return cause
		}
		return err
	})
	if address != "" {
		group.Go(func() error {
			return serveHTTP(ctx, address, map[string]http.Handler{"/healthz": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answerHealth(w, checkRegistration(r.Context(), socket, name, timeout))
			})})
		})
	}
	return group.Wait()
}

// diagnosticsAddress returns the address for health checks, "" for none.
func diagnosticsAddress(flags *flag.FlagSet) (string, error) {
	port, address := valueOf[int](flags, "health-port"), valueOf[string](flags, "http-endpoint")
	switch {
	case port > 0 && address != "":
		return "", errors.New("only one of `--health-port` and `--http-endpoint` can be set")
	case port > 0:
		return fmt.Sprintf(":%d", port), nil
	}
	return address, nil
}

// listenPrivately listens on a socket that only the process's user may use. The socket of an earlier process is replaced.
func listenPrivately(socket string) (net.Listener, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	before := syscall.Umask(0o077)
	defer syscall.Umask(before)
	return net.Listen("unix", socket)
}

// connect waits until somebody serves a socket, however long that takes.
func connect(ctx context.Context, address string) (*grpc.ClientConn, error) {
	connection, err := grpc.NewClient("unix:"+strings.TrimPrefix(address, "unix:"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	connection.Connect()
	for state := connection.GetState(); state != connectivity.Ready; state = connection.GetState() {
		if !connection.WaitForStateChange(ctx, state) {
			return nil, errors.Join(ctx.Err(), connection.Close())
		}
		connection.Connect()
	}
	return connection, nil
}

// nameOf asks a driver for its name.
func nameOf(ctx context.Context, connection *grpc.ClientConn) (string, error) {
	info, err := csi.NewIdentityClient(connection).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{})
	if err != nil {
		return "", fmt.Errorf("ask the driver for its name: %w", err)
	}
	if info.Name == "" {
		return "", errors.New("the driver has no name")
	}
	return info.Name, nil
}

// plugin answers the kubelet.
type plugin struct {
	registration.UnimplementedRegistrationServer
	name, endpoint string
	refuse         context.CancelCauseFunc
}

// refusal is why the kubelet does not register the driver.
type refusal struct{ reason string }

func (r refusal) Error() string { return "the kubelet does not register the driver: " + r.reason }

func (p plugin) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: p.name, Endpoint: p.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

func (p plugin) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		p.refuse(refusal{status.Error})
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// errNoSocket is how a health check says that the kubelet finds no plugin.
var errNoSocket = errors.New("registration socket does not exist")

// checkRegistration sends the kubelet's requests to the registrar.
func checkRegistration(ctx context.Context, socket, name string, timeout time.Duration) error {
	if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
		return errNoSocket
	}
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	info, err := registration.NewRegistrationClient(connection).GetInfo(ctx, &registration.InfoRequest{})
	if err == nil && info.Name != name {
		err = fmt.Errorf("invalid driver name %s", info.Name)
	}
	return err
}

// answerHealth answers a health check.
func answerHealth(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
		fmt.Fprint(w, "ok")
		return
	case errors.Is(err, errNoSocket):
		w.WriteHeader(http.StatusNotFound)
	default:
		w.WriteHeader(http.StatusInternalServerError)
	}
	log.Printf("health check: %v", err)
	fmt.Fprint(w, err)
}
