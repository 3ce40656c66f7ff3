// Package backend is the storage behind the drivers of package standin: it serves the CSI's controller, and keeps
// volumes in a folder that the nodes share. A stand-in sends it the calls of its sidecars, with its login.
package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path"
	"slices"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/berth-csi/berth/lab/folders"
)

// Where stand-ins find the backend: its address on all nodes and in their pods, and the folder on nodes. The drivers' pods on nodes see
// this folder, because they mount the kubelet's folder, which contains it.
const (
	Address = "203.0.113.20:9800"
	Folder  = "/var/lib/kubelet/stand-in"
)

// LoginKey is the key under which the metadata of a call has the Login, in JSON.
const LoginKey = "login-bin"

// Login holds a driver's credentials from its configuration, such as "user" and "password".
type Login map[string]string

// Call is a call that a driver has sent.
type Call struct {
	// Method is the method of the CSI, such as "CreateVolume".
	Method string
	Login  Login
	// Error is the response's error, nil for success.
	Error error
}

// Options configure a backend.
type Options struct {
	// Folder is where the volumes are. It must be mounted on each node, at the constant Folder.
	Folder string
	// Nodes reports whether a node with an ID exists; nil accepts all IDs.
	Nodes func(id string) bool
	// Login fails if a driver may not log in. If it is nil, all drivers may.
	Login func(Login) error
}

// Backend is a backend.
type Backend struct {
	folders.Store
	login    func(Login) error
	server   *grpc.Server
	listener net.Listener

	mu    sync.Mutex
	calls []Call
}

// Start starts a backend at a free port of 127.0.0.1.
func Start(options Options) (*Backend, error) {
	store, err := folders.OpenStore(options.Folder)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &Backend{Store: store, login: options.Login, listener: listener}
	b.server = grpc.NewServer(grpc.UnaryInterceptor(b.intercept))
	csi.RegisterControllerServer(b.server, folders.Controller{Store: store, Features: folders.Features{Attaches: true, Clones: true, Parameters: true, Modifies: true, Nodes: options.Nodes}})
	go func() { _ = b.server.Serve(listener) }() // until it is closed
	return b, nil
}

// Close ends the backend.
func (b *Backend) Close() { b.server.Stop() }

// ListensAt returns the address where the backend listens. Nodes find it at Address.
func (b *Backend) ListensAt() string { return b.listener.Addr().String() }

// Calls returns all calls, in order.
func (b *Backend) Calls() []Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

// intercept answers a call if the driver may log in, and records every call.
func (b *Backend) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (response any, err error) {
	login, err := loginOf(ctx)
	if err == nil && b.login != nil {
		err = b.login(login)
	}
	if err != nil {
		err = status.Error(codes.PermissionDenied, err.Error())
	} else {
		response, err = handle(ctx, request)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, Call{Method: path.Base(info.FullMethod), Login: login, Error: err})
	return response, err
}

// loginOf returns the login of a call.
func loginOf(ctx context.Context) (Login, error) {
	values := metadata.ValueFromIncomingContext(ctx, LoginKey)
	if len(values) != 1 {
		return nil, fmt.Errorf("the call has %d logins, want one", len(values))
	}
	var login Login
	return login, json.Unmarshal([]byte(values[0]), &login)
}
