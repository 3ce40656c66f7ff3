package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-csi/berth/cmd/internal/faults"
)

// A reason says why a command failed, in a sentence with advice. It wraps the library's error, for --verbose.
type reason struct {
	sentence string
	err      error
}

func (r *reason) Error() string { return r.sentence }
func (r *reason) Unwrap() error { return r.err }

// troubles are the faults of a connection that can be explained. says is the part of the sentence after the cluster's address.
var troubles = []struct {
	is   func(error) bool
	says string
}{
	{func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }, "nothing listens there; check that it runs"},
	{func(err error) bool { return as[*net.DNSError](err) }, "there is no host of that name; check the server in the kubeconfig file"},
	{func(err error) bool { return as[*tls.CertificateVerificationError](err) }, "its certificate is not one that the kubeconfig file trusts; check the server and its certificate authority there"},
	{func(err error) bool { return as[tls.RecordHeaderError](err) }, "it does not speak TLS; check the server in the kubeconfig file"},
	{isTimeout, "it does not answer in time; check the network, such as a VPN or HTTPS_PROXY"},
}

func as[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

func isTimeout(err error) bool {
	var timed net.Error
	return errors.As(err, &timed) && timed.Timeout() && !errors.Is(err, context.DeadlineExceeded)
}

// connection adds a reason to the errors of requests that cannot reach the cluster.
type connection struct{ http.RoundTripper }

func (c *connection) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(request)
	if err == nil || request.Context().Err() != nil {
		return response, err
	}
	for _, trouble := range troubles {
		if trouble.is(err) {
			return nil, &reason{fmt.Sprintf("cannot reach the cluster at %s: %s, or choose another cluster with --kubeconfig or --context", request.URL.Host, trouble.says), err}
		}
	}
	return nil, err
}

// explain returns the reason for an error. If no reason is known, or if there are several errors, it returns the error itself.
func explain(err error) error {
	if len(faults.Lines(err)) > 1 {
		return err
	}
	if known := (*reason)(nil); errors.As(err, &known) {
		return &reason{known.sentence, errors.New(strings.Replace(err.Error(), known.sentence, known.err.Error(), 1))}
	}
	if apierrors.IsUnauthorized(err) {
		return &reason{"the cluster does not accept your credentials: log in again, such as with oc login, or choose another context with --context", err}
	}
	return err
}

// printCauses prints each wrapped error whose text is not yet part of the printed text.
func printCauses(cmd *cobra.Command, err error) {
	said := err.Error()
	for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(cause) {
		if !strings.Contains(said, cause.Error()) {
			said = cause.Error()
			cmd.PrintErrln("  because: " + said)
		}
	}
}
