package base

import (
	"crypto/tls"
	"encoding/binary"
	"encoding/pem"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/berth-csi/berth/lab/authority"
)

// server is a mount target of EFS, as far as a tunnel sees it: it speaks TLS, asks for the client's certificate, and answers the
// NULL procedure of NFS 4.
type server struct {
	mu sync.Mutex
	// certificate is the certificate of the last client that was answered, as PEM.
	certificate []byte
}

// startServer starts a mount target in a container's network, until the test ends.
func startServer(t *testing.T, c container, ca *authority.Authority) *server {
	t.Helper()
	config, err := ca.Config([]string{serverName})
	if err != nil {
		t.Fatal(err)
	}
	config.ClientAuth = tls.RequireAnyClientCert
	listener := c.listen(t, "127.0.0.1:2049")
	s := &server{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(tls.Server(conn, config))
		}
	}()
	return s
}

// serve answers calls until the client or a fault ends the connection.
func (s *server) serve(conn *tls.Conn) {
	defer conn.Close()
	for {
		call, err := readRecord(conn)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw})
		s.mu.Unlock()
		if err := writeRecord(conn, answer(call)); err != nil {
			return
		}
	}
}

// null is the head of a call of NFS 4's NULL procedure after its identifier: a call, of version 2 of RPC.
var null = []uint32{0, 2, 100003, 4, 0}

// answer returns the answer to a call: success, or an unknown program.
func answer(call []uint32) []uint32 {
	const reply, success, unavailable = 1, 0, 1
	status := uint32(success)
	if len(call) < 1+len(null) {
		return nil
	}
	for i, want := range null {
		if call[1+i] != want {
			status = unavailable
		}
	}
	return []uint32{call[0], reply, 0, 0, 0, status}
}

// lastFragment marks the last fragment of a record.
const lastFragment = 1 << 31

func readRecord(conn net.Conn) ([]uint32, error) {
	var head uint32
	if err := binary.Read(conn, binary.BigEndian, &head); err != nil {
		return nil, err
	}
	size := head &^ lastFragment
	if head == size || size%4 != 0 || size > 1<<10 {
		return nil, io.ErrUnexpectedEOF
	}
	words := make([]uint32, size/4)
	return words, binary.Read(conn, binary.BigEndian, words)
}

func writeRecord(conn net.Conn, words []uint32) error {
	return binary.Write(conn, binary.BigEndian, append([]uint32{lastFragment | uint32(4*len(words))}, words...))
}
