package testbed

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// resolver is where pods on the host network send their queries if the kubelet knows no name servers.
const resolver = "127.0.0.1:53"

// resolveNames serves names on all nodes, and answers that there are no others.
func (s *Surroundings) resolveNames(names map[string]string) error {
	addresses := map[string]netip.Addr{}
	for name, text := range names {
		address, err := netip.ParseAddr(text)
		if err != nil || !address.Is4() {
			return fmt.Errorf("the name %s has the address %q, want one of IPv4", name, text)
		}
		addresses[strings.ToLower(name)+"."] = address
	}
	for _, node := range Nodes {
		conn, err := s.cluster.ListenPacketOn(node, "udp", resolver)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, func() { conn.Close() })
		go answerQueries(conn, addresses)
	}
	return nil
}

// answerQueries answers until the connection is closed.
func answerQueries(conn net.PacketConn, addresses map[string]netip.Addr) {
	packet := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(packet)
		if err != nil {
			return
		}
		if answer, err := answer(packet[:n], addresses); err == nil {
			_, _ = conn.WriteTo(answer, from) // whoever asked may be gone
		}
	}
}

func answer(packet []byte, addresses map[string]netip.Addr) ([]byte, error) {
	var query dnsmessage.Message
	if err := query.Unpack(packet); err != nil {
		return nil, err
	}
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true, RecursionDesired: query.RecursionDesired, RecursionAvailable: true},
		Questions: query.Questions,
	}
	for _, question := range query.Questions {
		address, known := addresses[strings.ToLower(question.Name.String())]
		if !known {
			reply.RCode = dnsmessage.RCodeNameError
		} else if question.Type == dnsmessage.TypeA {
			reply.Answers = append(reply.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: dnsmessage.ClassINET, TTL: 1},
				Body:   &dnsmessage.AResource{A: address.As4()},
			})
		}
	}
	return reply.Pack()
}
