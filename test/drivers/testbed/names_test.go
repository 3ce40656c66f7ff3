package testbed

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// TestNames asks as nodes do: by any case, and also for addresses that a name does not have.
func TestNames(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	go answerQueries(server, Cloud{
		Names: map[string]string{"fs-1.efs.sea-west-1.amazonaws.com": "10.0.80.1"},
		Resolve: func(host string) (netip.Addr, bool) {
			return netip.MustParseAddr("10.0.80.4"), host == "fs-3.efs.sea-west-1.amazonaws.com"
		},
	}.lookUp)
	for _, tc := range []struct {
		name  string
		kind  dnsmessage.Type
		code  dnsmessage.RCode
		count int
	}{
		{"fs-1.efs.sea-west-1.amazonaws.com.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"FS-1.efs.sea-west-1.amazonaws.com.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"fs-1.efs.sea-west-1.amazonaws.com.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, 0},
		{"fs-3.efs.sea-west-1.amazonaws.com.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, 1},
		{"fs-2.efs.sea-west-1.amazonaws.com.", dnsmessage.TypeA, dnsmessage.RCodeNameError, 0},
	} {
		query := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
			Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(tc.name), Type: tc.kind, Class: dnsmessage.ClassINET}},
		}
		packet, err := query.Pack()
		require.NoError(t, err)
		conn, err := net.Dial("udp", server.LocalAddr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write(packet)
		require.NoError(t, err)
		answer := make([]byte, 512)
		n, err := conn.Read(answer)
		require.NoError(t, err)
		var got dnsmessage.Message
		require.NoError(t, got.Unpack(answer[:n]))
		if got.ID != 7 || got.RCode != tc.code || len(got.Answers) != tc.count {
			t.Errorf("%s %s: got %+v, want %s and %d answers", tc.kind, tc.name, got, tc.code, tc.count)
		}
	}
}
