// Package nfs is an NFS server for the programs of package nfsclient, which images of drivers have in place of mount.nfs and
// efs-proxy. Test machines have no NFS client in their kernels: a mount becomes a bind mount of a folder of this machine.
// All nodes that mount the same export share its files.
//
//	server := nfs.Start(t, func(r nfs.Request) (string, error) { … })
//	server.ServeNode(listener) // a listener at nfs.Socket in the node's network namespace
package nfs

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/lab/nfs/wire"
)

// Socket is the abstract socket at which a node's programs get their mounts: see ServeNode.
const Socket = wire.Socket

// Request is a request for an export.
type Request struct {
	// Path is the path of the export.
	Path string
	// Version is the version of the protocol, such as "4.1".
	Version string
	// Host is the name or the address of a tunnel's server. It is empty without a tunnel.
	Host string
	// FileSystem and AccessPoint come from mount.efs's certificate for the tunnel. They are empty without TLS, and
	// AccessPoint also without an access point.
	FileSystem, AccessPoint string
}

// Exports returns the folder of this machine that is mounted for a request. If Exports fails with a syscall.Errno, such as
// EACCES or ENOENT, the mount fails with the same error. After any other error the connection ends.
type Exports func(Request) (folder string, err error)

// Server is an NFS server. It needs root to make mounts.
type Server struct {
	exports  Exports
	listener net.Listener

	mu       sync.Mutex
	folders  map[wire.Ticket]string
	requests []Request
}

// Start starts a server at a free port of 127.0.0.1, until the test ends.
func Start(t testing.TB, exports Exports) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	s := New(exports)
	s.listener = listener
	s.ServeClients(listener)
	return s
}

// New returns a server without an address.
func New(exports Exports) *Server {
	return &Server{exports: exports, folders: map[wire.Ticket]string{}}
}

// ServeClients answers requests for exports, until the listener is closed. On nodes, servers of NFS have port 2049.
func (s *Server) ServeClients(listener net.Listener) { go serve(listener, s.talk) }

// Address returns the address where the server listens. On nodes, servers of NFS have port 2049.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Requests returns all requests for exports, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ServeNode gives a node's programs the mounts that they were promised, until the listener is closed.
func (s *Server) ServeNode(listener net.Listener) { go serve(listener, s.redeem) }

// serve handles connections until the listener is closed.
func serve(listener net.Listener, handle func(net.Conn) error) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = handle(conn) // the client sees that the connection ends
		}()
	}
}

// talk answers a request for an export.
func (s *Server) talk(conn net.Conn) error {
	objects := json.NewDecoder(conn)
	var greeting wire.Greeting
	if err := objects.Decode(&greeting); err != nil {
		return err
	}
	request := Request{}
	if tunnel := greeting.Tunnel; tunnel != nil {
		request.Host = tunnel.Host
		if len(tunnel.Certificate) > 0 {
			var err error
			if request.FileSystem, request.AccessPoint, err = ReadCertificate(tunnel.Certificate); err != nil {
				return err
			}
		}
		greeting = wire.Greeting{}
		if err := objects.Decode(&greeting); err != nil {
			return err
		}
	}
	if greeting.Mount == nil {
		return errors.New("the client asks for no mount")
	}
	request.Path, request.Version = greeting.Mount.Path, greeting.Mount.Version
	answer, err := s.answer(request)
	if err != nil {
		return err
	}
	return json.NewEncoder(conn).Encode(answer)
}

func (s *Server) answer(request Request) (wire.Answer, error) {
	s.mu.Lock()
	s.requests = append(s.requests, request)
	s.mu.Unlock()
	folder, err := s.exports(request)
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return wire.Answer{Error: errno}, nil
	}
	if err != nil {
		return wire.Answer{}, err
	}
	ticket := wire.Ticket(rand.Text()[:wire.TicketLength])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folders[ticket] = folder
	return wire.Answer{Ticket: ticket}, nil
}

// redeem sends the mount that a ticket is for. The mount is not attached yet; the client attaches it at a path of its choice.
func (s *Server) redeem(conn net.Conn) error {
	content := make([]byte, wire.TicketLength)
	if _, err := conn.Read(content); err != nil {
		return err
	}
	ticket := wire.Ticket(content)
	s.mu.Lock()
	folder, ok := s.folders[ticket]
	delete(s.folders, ticket)
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("there is no ticket %q", ticket)
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, folder, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("clone the mount of %s: %w", folder, err)
	}
	defer unix.Close(tree)
	// Later mounts in it do not appear on this machine.
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Propagation: unix.MS_PRIVATE}); err != nil {
		return err
	}
	_, _, err = conn.(*net.UnixConn).WriteMsgUnix([]byte{0}, unix.UnixRights(tree), nil)
	return err
}

// ReadCertificate returns the IDs in a certificate that mount.efs made.
func ReadCertificate(content []byte) (fileSystem, accessPoint string, err error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return "", "", errors.New("the client's certificate is no PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", "", fmt.Errorf("the client's certificate: %w", err)
	}
	for _, extension := range certificate.Extensions {
		into := map[string]*string{wire.AccessPointExtension.String(): &accessPoint, wire.FileSystemExtension.String(): &fileSystem}[extension.Id.String()]
		if into == nil {
			continue
		}
		if _, err := asn1.Unmarshal(extension.Value, into); err != nil {
			return "", "", fmt.Errorf("extension %s of the client's certificate: %w", extension.Id, err)
		}
	}
	if fileSystem == "" {
		return "", "", errors.New("the client's certificate names no file system")
	}
	return fileSystem, accessPoint, nil
}
