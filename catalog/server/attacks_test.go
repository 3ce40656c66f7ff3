package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/berth-csi/berth/catalog/server"
	"github.com/berth-csi/berth/lab/cluster"
)

// longest is how long the tests wait for something that takes the server less than a second.
const longest = 30 * time.Second

// TestAttacks: a client on the network tries to keep the server busy or other clients out.
func TestAttacks(t *testing.T) {
	address := serveBy(t, server.ServeQuickly, catalogDir)
	for _, kind := range []struct {
		name string
		do   func(*attacker)
	}{
		{"say nothing", nil},
		{"ask nothing", func(a *attacker) { a.greet(nil) }},
		{"begin a request", func(a *attacker) { a.greet(nil); a.begin(1, "/api.Registry/ListBundles") }},
		{"begin a request that has no end", func(a *attacker) {
			a.greet(nil)
			a.begin(1, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
		}},
		{"read no answer", func(a *attacker) {
			a.greet([]http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}})
			for stream := uint32(1); stream < 20; stream += 2 {
				a.begin(stream, "/api.Registry/ListBundles")
				a.end(stream)
			}
		}},
	} {
		t.Run("keep a connection/"+kind.name, func(t *testing.T) {
			t.Parallel()
			a := attack(t, address, "127.0.0.2")
			if kind.do != nil {
				kind.do(a)
			}
			a.awaitClosed()
		})
	}

	t.Run("ping for ever", func(t *testing.T) {
		t.Parallel()
		a := attack(t, serveBy(t, server.Serve, catalogDir), "127.0.0.2")
		a.greet(nil)
		for range 10 {
			a.check(a.framer.WritePing(false, [8]byte{}))
		}
		for {
			frame, err := a.framer.ReadFrame()
			require.NoError(t, err, "the server does not say that it is too much")
			if away, ok := frame.(*http2.GoAwayFrame); ok {
				assert.Equal(t, http2.ErrCodeEnhanceYourCalm, away.ErrCode, "the server goes away with")
				return
			}
		}
	})

	t.Run("open very many streams", func(t *testing.T) {
		t.Parallel()
		a := attack(t, serveBy(t, server.Serve, catalogDir), "127.0.0.2")
		a.greet(nil)
		const streams = 100
		for i := range uint32(streams) {
			a.begin(2*i+1, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
		}
		// Streams that are refused were opened before the client knew the server's limit.
		for refused := 0; refused < streams-16; {
			frame, err := a.framer.ReadFrame()
			require.NoErrorf(t, err, "%d streams were refused, want %d", refused, streams-16)
			if reset, ok := frame.(*http2.RSTStreamFrame); ok && reset.ErrCode == http2.ErrCodeRefusedStream {
				refused++
			}
		}
	})

	t.Run("send ahead", func(t *testing.T) { // fast, so that gRPC allows more and more
		t.Parallel()
		a := attack(t, serveBy(t, server.Serve, catalogDir), "127.0.0.2")
		a.greet(nil)
		a.begin(1, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
		a.check(a.framer.WriteData(1, false, []byte{0, 0, 0, 15, 255})) // a message of 4 KiB, of which nothing comes
		a.begin(3, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
		for range 3 { // requests that it refuses, so that it takes all
			a.check(a.framer.WriteData(3, false, make([]byte, 16<<10)))
		}
		last := [8]byte{1}
		a.check(a.framer.WritePing(false, last))
		for {
			frame, err := a.framer.ReadFrame()
			a.check(err)
			switch frame := frame.(type) {
			case *http2.PingFrame:
				if frame.IsAck() && frame.Data == last {
					return
				}
				if !frame.IsAck() { // it measures how much it has got by now
					last = [8]byte{2}
					a.check(a.framer.WritePing(true, frame.Data))
					a.check(a.framer.WritePing(false, last))
				}
			case *http2.SettingsFrame:
				if size, has := frame.Value(http2.SettingInitialWindowSize); has && size > 64<<10 {
					t.Errorf("the server has %d bytes of a request sent before it reads them; want at most 64 KiB", size)
				}
			}
		}
	})

	t.Run("send a large request", func(t *testing.T) {
		t.Parallel()
		_, err := api.NewRegistryClient(dialFrom(t, serveBy(t, server.Serve, catalogDir), "127.0.0.3")).GetPackage(t.Context(), &api.GetPackageRequest{Name: strings.Repeat("x", 5<<10)})
		assert.Equalf(t, codes.ResourceExhausted, status.Code(err), "the answer is: %v", err)
	})

	t.Run("send large headers", func(t *testing.T) {
		t.Parallel()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", 20<<10))
		_, err := api.NewRegistryClient(dialFrom(t, serveBy(t, server.Serve, catalogDir), "127.0.0.4")).GetPackage(ctx, &api.GetPackageRequest{Name: "tide"})
		assert.Error(t, err, "it is answered")
	})

	t.Run("take all connections", func(t *testing.T) {
		t.Parallel()
		address := serveBy(t, server.Serve, catalogDir)
		olm := api.NewRegistryClient(dialFrom(t, address, "127.0.0.1"))
		checkAnswers := func() {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), longest)
			defer cancel()
			_, err := olm.GetPackage(ctx, &api.GetPackageRequest{Name: "tide"}, grpc.WaitForReady(true))
			assert.NoError(t, err, "OLM gets no answer")
		}
		checkAnswers()
		var attackers []*attacker
		connect := func(from string) {
			t.Helper()
			a := attack(t, address, from)
			attackers = append(attackers, a)
			// The server may close the connection before this is written.
			_, _ = io.WriteString(a.conn, http2.ClientPreface)
			_ = a.framer.WriteSettings()
		}
		for host := range 4 { // from a few addresses, and then from very many
			for range 32 {
				connect(fmt.Sprintf("127.0.1.%d", host+1))
			}
			checkAnswers()
		}
		for host := range 200 {
			connect(fmt.Sprintf("127.0.2.%d", host+1))
		}
		checkAnswers()
		cluster.Eventually(t, longest, "the server to close what is too much", func(context.Context) error {
			open := 0
			for _, a := range attackers {
				if a.isOpen() {
					open++
				}
			}
			if open > 128 {
				return fmt.Errorf("%d of %d connections are open", open, len(attackers))
			}
			return nil
		})
	})
}

// attacker speaks HTTP/2 by hand.
type attacker struct {
	t      *testing.T
	conn   net.Conn
	framer *http2.Framer
}

func attack(t *testing.T, address, from string) *attacker {
	t.Helper()
	conn, err := dialerFrom(from).Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(longest)))
	return &attacker{t, conn, http2.NewFramer(conn, conn)}
}

func (a *attacker) check(err error) {
	a.t.Helper()
	require.NoError(a.t, err)
}

// greet begins HTTP/2.
func (a *attacker) greet(settings []http2.Setting) {
	a.t.Helper()
	_, err := io.WriteString(a.conn, http2.ClientPreface)
	a.check(err)
	a.check(a.framer.WriteSettings(settings...))
}

// begin begins a request.
func (a *attacker) begin(stream uint32, method string) {
	a.t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", method}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		a.check(encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	a.check(a.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}))
}

// end ends a request with an empty message.
func (a *attacker) end(stream uint32) {
	a.t.Helper()
	a.check(a.framer.WriteData(stream, true, make([]byte, 5)))
}

// isOpen reports whether the server keeps the connection open. It discards the server's data.
func (a *attacker) isOpen() bool {
	_ = a.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := io.Copy(io.Discard, a.conn)
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// awaitClosed waits until the server has closed the connection. It answers pings to seem alive.
func (a *attacker) awaitClosed() {
	a.t.Helper()
	for {
		frame, err := a.framer.ReadFrame()
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			a.t.Errorf("the server keeps the connection for more than %v", longest)
		}
		if err != nil {
			return
		}
		if ping, ok := frame.(*http2.PingFrame); ok && !ping.IsAck() {
			_ = a.framer.WritePing(true, ping.Data)
		}
	}
}

func dialerFrom(address string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: longest}
}

// dialFrom connects a client, from an address of loopback.
func dialFrom(t *testing.T, address, from string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialerFrom(from).DialContext(ctx, "tcp", address)
		}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestUnreadAnswers: answers that clients do not read take no more than their room, other clients still get answers, and the room
// is free again when the clients are gone.
func TestUnreadAnswers(t *testing.T) {
	const total = 1 << 20
	dir := t.TempDir()
	payload := base64.StdEncoding.EncodeToString([]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cargo"}, "data": {"cargo": "` + strings.Repeat("x", 100<<10) + `"}}`))
	text := "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\nschema: olm.channel\npackage: tide\nname: stable\nentries: [{name: tide.v1.0.0}, {name: tide.v2.0.0, replaces: tide.v1.0.0}]\n"
	for _, version := range []string{"1.0.0", "2.0.0"} {
		text += fmt.Sprintf("---\nschema: olm.bundle\npackage: tide\nname: tide.v%[1]s\nproperties:\n- {type: olm.package, value: {packageName: tide, version: %[1]s}}\n- {type: olm.bundle.object, value: {data: %[2]s}}\n"+
			"- {type: olm.csv.metadata, value: {displayName: tide}}\n", version, payload)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "catalog.yaml"), []byte(text), 0o600))
	serveIt, taken := server.ServeWithin(total)
	address := serveBy(t, serveIt, dir)
	var attackers []*attacker
	for range 8 {
		a := attack(t, address, "127.0.0.2")
		a.greet([]http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}})
		for stream := uint32(1); stream < 32; stream += 2 {
			a.begin(stream, "/api.Registry/ListBundles")
			a.end(stream)
		}
		attackers = append(attackers, a)
	}
	cluster.Eventually(t, longest, "the attackers to take their share", func(context.Context) error {
		if made, sent := taken(); sent < total/8 || made == 0 {
			return fmt.Errorf("%d bytes are made, and %d are not read", made, sent)
		}
		return nil
	})
	if made, sent := taken(); made > total/4 || sent > total/4 {
		t.Errorf("%d bytes are made, and %d are not read; want at most %d for one address", made, sent, total/4)
	}
	stream, err := api.NewRegistryClient(dialFrom(t, address, "127.0.0.3")).ListBundles(t.Context(), &api.ListBundlesRequest{})
	got := -1
	for ; err == nil; got++ {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) || got != 2 {
		t.Errorf("another client gets %d bundles, want 2: %v", got, err)
	}
	for _, a := range attackers {
		a.conn.Close()
	}
	cluster.Eventually(t, longest, "the room to be free", func(context.Context) error {
		if made, sent := taken(); made+sent > 0 {
			return fmt.Errorf("%d and %d bytes are taken", made, sent)
		}
		return nil
	})
}
