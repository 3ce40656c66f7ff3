// Command sample is the CSI driver that drivers/sample defines: each volume is a folder below a folder that all nodes
// share. It is for tests, as it does not limit how much a volume holds.
//
// It registers itself with the kubelet, which other drivers leave to the sidecar node-driver-registrar.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// driverName is the name of the CSIDriver.
const driverName = "csi.sharedresource.openshift.io"

// program is the process of the driver. The fields are its flags.
type program struct {
	endpoint     string
	folder       string
	node         string
	registration string
	plugin       string
	level        int
}

func main() {
	var p program
	flag.StringVar(&p.endpoint, "endpoint", "unix:///csi/csi.sock", "`URL` of the socket to serve the CSI on")
	flag.StringVar(&p.folder, "folder", "/volumes", "`FOLDER` that all nodes share, for the volumes")
	flag.StringVar(&p.node, "node", "", "`NAME` of the node to mount volumes on; the controller has none")
	flag.StringVar(&p.registration, "registration", "", "`FOLDER` in which the kubelet looks for the sockets of drivers")
	flag.StringVar(&p.plugin, "kubelet-path", "", "`PATH` at which the kubelet finds the endpoint's socket")
	flag.IntVar(&p.level, "v", 2, "`LEVEL` of the log: 2 for calls that fail, 4 for all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := p.run(ctx, flag.Args()); err != nil {
		log.Fatalf("sample: %v", err)
	}
}

// run serves until ctx ends.
func (p program) run(ctx context.Context, args []string) error {
	socket, ok := strings.CutPrefix(p.endpoint, "unix://")
	if !ok || socket == "" || len(args) > 0 {
		return fmt.Errorf("--endpoint is %q and the arguments are %q; want a URL such as unix:///csi/csi.sock and no arguments", p.endpoint, args)
	}
	if (p.registration == "") != (p.plugin == "") {
		return fmt.Errorf("--registration is %q and --kubelet-path is %q; want both or none", p.registration, p.plugin)
	}
	volumes, err := openStore(p.folder)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return p.serve(ctx, socket, func(s *grpc.Server) {
			csi.RegisterIdentityServer(s, identity{})
			csi.RegisterControllerServer(s, controller{store: volumes})
			csi.RegisterNodeServer(s, node{name: p.node, store: volumes})
		})
	})
	if p.registration != "" {
		group.Go(func() error {
			return p.serve(ctx, filepath.Join(p.registration, driverName+"-reg.sock"), func(s *grpc.Server) {
				registration.RegisterRegistrationServer(s, registrar{path: p.plugin})
			})
		})
	}
	return group.Wait()
}

// serve serves gRPC on a socket until ctx ends. The socket of an earlier process is replaced.
func (p program) serve(ctx context.Context, socket string, register func(*grpc.Server)) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(p.logged))
	register(server)
	stopped := context.AfterFunc(ctx, server.GracefulStop)
	defer stopped()
	return server.Serve(listener)
}

// logged logs calls, as the log's level says.
func (p program) logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	response, err := handle(ctx, request)
	if err != nil {
		log.Printf("%s: %v", info.FullMethod, err)
	} else if p.level >= 4 {
		log.Printf("%s: done", info.FullMethod)
	}
	return response, err
}
