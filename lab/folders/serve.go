package folders

import (
	"context"
	"errors"
	"io/fs"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
)

// Serve serves gRPC on a socket until ctx ends. The socket of an earlier process is replaced. It logs the calls that fail, or all calls
// if verbose.
func Serve(ctx context.Context, socket string, verbose bool, register func(*grpc.Server)) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	return ServeOn(ctx, listener, Logged(verbose), register)
}

// Logged returns an interceptor that logs the calls that fail, or all calls if verbose.
func Logged(verbose bool) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		response, err := handle(ctx, request)
		if err != nil {
			log.Printf("%s: %v", info.FullMethod, err)
		} else if verbose {
			log.Printf("%s: done", info.FullMethod)
		}
		return response, err
	}
}

// ServeOn serves gRPC on a listener until ctx ends.
func ServeOn(ctx context.Context, listener net.Listener, each grpc.UnaryServerInterceptor, register func(*grpc.Server)) error {
	server := grpc.NewServer(grpc.UnaryInterceptor(each))
	register(server)
	stopped := context.AfterFunc(ctx, server.GracefulStop)
	defer stopped()
	return server.Serve(listener)
}
