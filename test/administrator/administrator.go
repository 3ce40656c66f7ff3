// Package administrator calls a fake AWS with the clients of package internal/aws/client, as "berth aws" does, and can be killed before each
// request.
package administrator

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/efs"

	"github.com/berth-csi/berth/internal/aws/client"
	cloud "github.com/berth-csi/berth/lab/aws"
)

// Administrator has clients with all permissions. They retry as patiently as the real ones, but with shorter waits.
type Administrator struct {
	*client.Clients
	// EC2 has the operations that Berth does not call, too.
	EC2 *ec2.Client
	// before, which may be nil, is called before each request.
	before atomic.Pointer[func()]
}

// New returns an administrator of a cloud.
func New(t testing.TB, c *cloud.Cloud) *Administrator {
	t.Helper()
	a, user := &Administrator{}, c.AddUser(t, "administrator", "*")
	config := func(service string) aws.Config {
		cfg := c.Config(service, user)
		inner := cfg.HTTPClient
		cfg.HTTPClient = roundTrip(func(r *http.Request) (*http.Response, error) {
			if before := a.before.Load(); before != nil {
				(*before)()
			}
			return inner.Do(r)
		})
		cfg.Retryer = func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = 10, 10*time.Millisecond })
		}
		return cfg
	}
	a.EC2 = ec2.NewFromConfig(config("ec2"))
	a.Clients = &client.Clients{EFS: efs.NewFromConfig(config("efs")), EC2: client.NewEC2(a.EC2), Interval: 5 * time.Millisecond}
	return a
}

type roundTrip func(*http.Request) (*http.Response, error)

func (do roundTrip) Do(r *http.Request) (*http.Response, error) { return do(r) }

// KillAtEach calls do, and ends it before its first request, then before its second, and so on, until it succeeds. The test fails if do was
// ended fewer than least times, or fails for another reason.
func (a *Administrator) KillAtEach(t testing.TB, least int, do func(context.Context) error) {
	t.Helper()
	for killed := 0; ; killed++ {
		err := a.killAt(t.Context(), killed+1, do)
		switch {
		case err == nil && killed < least:
			t.Errorf("it was killed %d times only, want at least %d", killed, least)
			return
		case err == nil:
			return
		case !errors.Is(err, context.Canceled):
			t.Fatalf("killed before request %d: %v", killed+1, err)
		}
	}
}

// killAt calls do, and ends it before a request, counted from 1.
func (a *Administrator) killAt(ctx context.Context, request int, do func(context.Context) error) error {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	made := 0
	before := func() {
		if made++; made >= request {
			kill()
		}
	}
	a.before.Store(&before)
	defer a.before.Store(nil)
	return do(ctx)
}
