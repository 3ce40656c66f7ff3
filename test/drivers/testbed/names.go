package testbed

import (
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// resolver is where pods on the host network send their queries if the kubelet knows no name servers.
const resolver = "127.0.0.1:53"

// lookUp returns the IPv4 address of a host. Its name is in lower case, and has no dot at the end.
type lookUp func(host string) (address netip.Addr, known bool)

// lookUp looks for a host among the cloud's hosts.
func (c Cloud) lookUp(host string) (netip.Addr, bool) {
	if address, known := c.Names[host]; known {
		parsed, err := netip.ParseAddr(address)
		return parsed, err == nil && parsed.Is4()
	}
	if c.Resolve == nil {
		return netip.Addr{}, false
	}
	return c.Resolve(host)
}

// resolveNames serves names on all nodes, and denies all others.
func (s *Surroundings) resolveNames(names lookUp) error {
	for _, node := range Nodes {
		conn, err := s.cluster.ListenPacketOn(node, "udp", resolver)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, func() { conn.Close() })
		go answerQueries(conn, names)
	}
	return nil
}

// answerQueries answers until the connection is closed.
func answerQueries(conn net.PacketConn, names lookUp) {
	packet := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(packet)
		if err != nil {
			return
		}
		if answer, err := answer(packet[:n], names); err == nil {
			_, _ = conn.WriteTo(answer, from) // the client may be gone
		}
	}
}

func answer(packet []byte, names lookUp) ([]byte, error) {
	var query dnsmessage.Message
	if err := query.Unpack(packet); err != nil {
		return nil, err
	}
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true, RecursionDesired: query.RecursionDesired, RecursionAvailable: true},
		Questions: query.Questions,
	}
	for _, question := range query.Questions {
		address, known := names(strings.TrimSuffix(strings.ToLower(question.Name.String()), "."))
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
