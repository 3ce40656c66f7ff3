// Package probe asks a server for its health, as a replacement for grpc_health_probe, which OLM's pods call for kubelet's probes.
package probe

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/berth-csi/berth/cmd/internal/version/stamp"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// Name is the name by which the program is called.
const Name = "grpc_health_probe"

// Exit codes of grpc_health_probe.
const (
	healthy = iota
	wrongArguments
	notConnected
	notAnswered
	unhealthy
)

// refused are flags of grpc_health_probe for kinds of connections that Berth's servers do not have.
var refused = []string{"tls", "tls-no-verify", "tls-ca-cert", "tls-client-cert", "tls-client-key", "tls-server-name", "alts", "spiffe", "gzip"}

// probe holds the flags.
type probe struct {
	address, service, agent string
	headers                 headers
	toConnect, toAnswer     time.Duration
	verbose, printVersion   bool
}

// Run asks once, and returns the exit code. It reports the result on stderr.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	say := func(format string, args ...any) { fmt.Fprintln(stderr, escape.Line(fmt.Sprintf(format, args...))) }
	p := probe{headers: headers{metadata.MD{}}}
	flags := p.flags(stderr)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) || err != nil {
		return wrongArguments
	}
	if err := p.check(flags); err != nil {
		say("error: %v", err)
		return wrongArguments
	}
	if p.printVersion {
		fmt.Fprintln(stdout, "berth "+stamp.Version())
		return healthy
	}
	connection, err := p.connect(ctx)
	if err != nil {
		say("error: cannot connect to %q within %s: %v", p.address, p.toConnect, err)
		return notConnected
	}
	defer connection.Close()
	answer, err := p.ask(ctx, connection)
	switch {
	case status.Code(err) == codes.Unimplemented:
		say("error: the server at %q has no health service (grpc.health.v1.Health): %v", p.address, err)
		return notAnswered
	case err != nil:
		say("error: the server at %q does not answer within %s: %v", p.address, p.toAnswer, err)
		return notAnswered
	case answer.GetStatus() != healthpb.HealthCheckResponse_SERVING:
		say("service unhealthy (responded with %q)", answer.GetStatus())
		return unhealthy
	}
	say("status: %s", answer.GetStatus())
	return healthy
}

func (p *probe) flags(stderr io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet(Name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&p.address, "addr", "", "`HOST:PORT` of the server (required)")
	flags.StringVar(&p.service, "service", "", "`NAME` of the service to ask for (default the server itself)")
	flags.StringVar(&p.agent, "user-agent", Name, "`TEXT` that says who asks")
	flags.DurationVar(&p.toConnect, "connect-timeout", time.Second, "`TIME` to connect")
	flags.DurationVar(&p.toAnswer, "rpc-timeout", time.Second, "`TIME` to answer")
	flags.Var(&p.headers, "rpc-header", "`NAME:VALUE` of a header; may be repeated")
	flags.BoolVar(&p.verbose, "v", false, "accepted, and has no effect")
	flags.BoolVar(&p.printVersion, "version", false, "print the version of this program")
	for _, name := range refused {
		if name == "tls" || name == "tls-no-verify" || !strings.HasPrefix(name, "tls-") {
			flags.Bool(name, false, "not part of Berth")
		} else {
			flags.String(name, "", "not part of Berth")
		}
	}
	return flags
}

// check fails for flags that cannot be honored.
func (p *probe) check(flags *flag.FlagSet) (err error) {
	flags.Visit(func(f *flag.Flag) {
		for _, name := range refused {
			if f.Name == name && f.Value.String() != "false" && f.Value.String() != "" {
				err = fmt.Errorf("-%s is not part of Berth, whose servers have no encryption and no compression; use the original grpc_health_probe for other servers", name)
			}
		}
	})
	switch {
	case err != nil || p.printVersion:
		return err
	case p.address == "":
		return errors.New("-addr is missing; want the host and the port of the server, such as :50051")
	case p.toConnect <= 0:
		return fmt.Errorf("-connect-timeout is %s, want more than 0", p.toConnect)
	case p.toAnswer <= 0:
		return fmt.Errorf("-rpc-timeout is %s, want more than 0", p.toAnswer)
	}
	return nil
}

// connect connects to the server, and fails if that takes too long.
func (p *probe) connect(ctx context.Context) (*grpc.ClientConn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.toConnect)
	defer cancel()
	connection, err := grpc.NewClient("passthrough:///"+p.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent(p.agent))
	if err != nil {
		return nil, err
	}
	connection.Connect()
	for state := connection.GetState(); state != connectivity.Ready; state = connection.GetState() {
		if !connection.WaitForStateChange(ctx, state) {
			return nil, errors.Join(fmt.Errorf("nothing answers there (%s)", strings.ToLower(state.String())), connection.Close())
		}
	}
	return connection, nil
}

func (p *probe) ask(ctx context.Context, connection *grpc.ClientConn) (*healthpb.HealthCheckResponse, error) {
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(ctx, p.headers.MD), p.toAnswer)
	defer cancel()
	return healthpb.NewHealthClient(connection).Check(ctx, &healthpb.HealthCheckRequest{Service: p.service})
}

// headers are the headers of the request.
type headers struct{ metadata.MD }

func (h *headers) String() string { return "" }

func (h *headers) Set(text string) error {
	name, value, is := strings.Cut(text, ":")
	if !is {
		return fmt.Errorf("%q is no header; want NAME: VALUE", text)
	}
	h.Append(name, strings.TrimLeftFunc(value, unicode.IsSpace))
	return nil
}
