// Package client calls AWS like administrators and installers: with the credentials that the SDK finds, and with many
// retries.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	efstypes "github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// Attempts is the maximum number of attempts, if AWS throttles a request, is unavailable or does not answer. All of one request can take
	// minutes.
	Attempts = 10
	// interval is the time between polls of an operation that AWS has not finished.
	interval = 5 * time.Second
	// dialTimeout is how long an attempt waits for a connection. The SDK waits for half a minute, ten times.
	dialTimeout = 5 * time.Second
)

// Clients call AWS.
type Clients struct {
	EFS *efs.Client
	EC2 EC2
	// Interval is the time between polls of an operation that AWS has not finished.
	Interval time.Duration
}

// New returns clients with the credentials that the SDK finds, for a region; "" means the SDK's default. Throttled requests
// are retried with backoff. The SDK's log is off: it only warns about its attempts. unanswered is called once for each request that does not
// reach AWS, before the second attempt.
func New(ctx context.Context, region string, unanswered func(*smithyhttp.RequestSendError)) (*Clients, error) {
	dialing := awshttp.NewBuildableClient().WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout })
	backoff := retry.NewExponentialJitterBackoff(retry.DefaultMaxBackoff)
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(region), config.WithLogger(logging.Nop{}), config.WithHTTPClient(dialing), config.WithRetryer(func() aws.Retryer {
		return retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) {
			o.StandardOptions = append(o.StandardOptions, func(o *retry.StandardOptions) {
				o.MaxAttempts, o.Backoff = Attempts, retry.BackoffDelayerFunc(func(attempt int, err error) (time.Duration, error) {
					if unsent := (*smithyhttp.RequestSendError)(nil); attempt == 1 && errors.As(err, &unsent) {
						unanswered(unsent)
					}
					return backoff.BackoffDelay(attempt, err)
				})
			})
		})
	}))
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of AWS: %w", err)
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil && strings.Contains(err.Error(), "no EC2 IMDS role found") {
		// The SDK's error describes its last attempt, not the missing credentials.
		return nil, &noCredentials{err}
	}
	if cfg.Region == "" {
		return nil, errors.New("there is no region: set --region or AWS_REGION")
	}
	return &Clients{EFS: efs.NewFromConfig(cfg), EC2: NewEC2(ec2.NewFromConfig(cfg)), Interval: interval}, nil
}

// noCredentials adds advice to an error of the SDK about its attempts to find credentials.
type noCredentials struct{ tried error }

func (e *noCredentials) Error() string {
	return "there are no AWS credentials: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run it on an instance with a role"
}
func (e *noCredentials) Unwrap() error { return e.tried }

// Poll calls try until it is done. If ctx ends first, the error is the last one of try.
func (c *Clients) Poll(ctx context.Context, try func(context.Context) (done bool, err error)) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, c.Interval, true, func(ctx context.Context) (done bool, err error) {
		done, last = try(ctx)
		if done {
			return true, last
		}
		return false, nil
	})
	if ctx.Err() != nil && last != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// CodeOf returns the code of an error of AWS, such as "FileSystemNotFound", or "" for other errors.
func CodeOf(err error) string {
	if api := (smithy.APIError)(nil); errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// EFSTags returns tags of EFS as a map.
func EFSTags(tags []efstypes.Tag) map[string]string {
	found := map[string]string{}
	for _, tag := range tags {
		found[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	return found
}

// EC2Tags returns tags of EC2 as a map.
func EC2Tags(tags []ec2types.Tag) map[string]string {
	found := map[string]string{}
	for _, tag := range tags {
		found[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	return found
}
