package controller

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/efs"
	"github.com/aws/aws-sdk-go-v2/service/efs/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/berth-csi/berth/drivers"
)

const (
	// callTimeout is how long a call to AWS may take.
	callTimeout = 30 * time.Second
	// sessionName identifies the operator's calls in AWS's logs when it assumes a role.
	sessionName = "aws-efs-operator-tags"
)

// An access holds what the operator needs to call EFS.
type access struct {
	// Infrastructure has the region and the endpoints of AWS.
	Infrastructure *configv1.Infrastructure
	// Credentials is the content of the Secret with the operator's own credentials, nil while there is none. TokenFile
	// has the token with which the operator assumes a role.
	Credentials map[string][]byte
	TokenFile   string
	// CABundle has, in PEM, the certificate authorities to trust in addition to the system's: AWS's own in private regions, and a
	// proxy's.
	CABundle string
	// Wait waits until the next call may be made, and must be called before each call. throttled says that AWS throttled the last call.
	// After an error of Wait, no further call may be made, and that error is returned.
	Wait func(ctx context.Context, throttled bool) error
}

// A caller calls EFS.
type caller struct {
	access
	efs         *efs.Client
	credentials *aws.CredentialsCache
	current     aws.Credentials // credentials for the next call
	close       func()
}

// tagsSecret and tagsRequest are the Secret with the operator's own credentials and the CredentialsRequest for it.
const (
	tagsSecret  = "tags-aws-efs-cloud-credentials"
	tagsRequest = "openshift-aws-efs-csi-driver-tags"
)

// connect creates the client of EFS, with the region and endpoints from the Infrastructure. It reads only the proxy
// from the environment, and queries no metadata service.
func connect(access access) (*caller, error) {
	c := &caller{access: access}
	platform := c.Infrastructure.Status.PlatformStatus
	if platform == nil || platform.AWS == nil || platform.AWS.Region == "" {
		return nil, errors.New("the Infrastructure cluster has no region in status.platformStatus.aws")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	roots, err := drivers.Authorities(c.CABundle)
	if err != nil {
		return nil, err
	}
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	endpoints := map[string]*string{}
	for _, endpoint := range platform.AWS.ServiceEndpoints {
		endpoints[endpoint.Name] = aws.String(endpoint.URL)
	}
	client := &http.Client{
		Transport:     drivers.LimitedTransport{Transport: transport},
		Timeout:       callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	// The rate of calls is limited, so the SDK must not retry by itself.
	provider, err := c.provider(sts.New(sts.Options{Region: platform.AWS.Region, BaseEndpoint: endpoints["sts"], HTTPClient: client, Retryer: aws.NopRetryer{}}))
	if err != nil {
		return nil, err
	}
	c.credentials = aws.NewCredentialsCache(provider, func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = time.Minute })
	c.efs = efs.New(efs.Options{Region: platform.AWS.Region, BaseEndpoint: endpoints["elasticfilesystem"], HTTPClient: client, Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return c.current, nil })})
	c.close = transport.CloseIdleConnections
	return c, nil
}

// provider returns the credentials of the Secret: a role to assume, or a key pair.
func (c *caller) provider(client *sts.Client) (aws.CredentialsProvider, error) {
	profile := readProfile(c.Credentials["credentials"])
	for _, key := range []string{"aws_access_key_id", "aws_secret_access_key"} {
		if profile[key] == "" {
			profile[key] = strings.TrimSpace(string(c.Credentials[key]))
		}
	}
	switch id, secret := profile["aws_access_key_id"], profile["aws_secret_access_key"]; {
	case profile["role_arn"] != "":
		// The token is always the operator's own. Otherwise, whoever writes the Secret could make the operator read
		// other files.
		return stscreds.NewWebIdentityRoleProvider(client, profile["role_arn"], stscreds.IdentityTokenFile(c.TokenFile),
			func(o *stscreds.WebIdentityRoleOptions) { o.RoleSessionName = sessionName }), nil
	case id != "" && secret != "":
		return credentials.NewStaticCredentialsProvider(id, secret, ""), nil
	}
	return nil, fmt.Errorf("found no credentials in Secret %s: its key credentials must have role_arn, or aws_access_key_id and aws_secret_access_key, in the profile [default]; "+
		"or the Secret must have the keys aws_access_key_id and aws_secret_access_key", tagsSecret)
}

// readProfile returns the settings of the profile [default] in a file of AWS credentials. It does not support settings
// with several lines, because the relevant ones have one line.
func readProfile(file []byte) map[string]string {
	settings, profile := map[string]string{}, ""
	for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			profile = strings.TrimSpace(strings.Trim(line, "[]"))
		} else if key, value, found := strings.Cut(line, "="); found && profile == "default" {
			settings[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return settings
}

// describeCredentials turns the error with which AWS refused the credentials into one that says what is wrong with them.
func (c *caller) describeCredentials(err error) error {
	role := readProfile(c.Credentials["credentials"])["role_arn"]
	message := fmt.Sprintf("the role %s in Secret %s cannot be assumed: %s", role, tagsSecret, describe(err))
	if code := codeOf(err); code == "AccessDenied" || code == "InvalidIdentityToken" {
		message += ". Have the role trust the service account of the operator, as the documentation says: https://github.com/berth-csi/berth/blob/main/docs/start/install.md"
	}
	return &callError{err, message}
}

// An endedError is an error of Wait: no further call may be made.
type endedError struct{ error }

func (e *endedError) Unwrap() error { return e.error }

// call makes a call, and repeats it while AWS throttles it. It gets the credentials first, to distinguish errors of the
// credentials from errors of the call.
func (c *caller) call(ctx context.Context, do func(context.Context) error) error {
	for throttled, renewed := false, false; ; {
		if err := c.Wait(ctx, throttled); err != nil {
			return &endedError{err}
		}
		var err error
		if c.current, err = c.credentials.Retrieve(ctx); err != nil {
			err = c.describeCredentials(err)
		} else if err = do(ctx); isExpired(err) && !renewed {
			c.credentials.Invalidate() // the session ended early
			renewed, throttled = true, false
			continue
		}
		if throttled = isThrottled(err); !throttled {
			return c.advise(err)
		}
	}
}

// eachAccessPoint calls f with each access point of a file system, until f returns false.
func (c *caller) eachAccessPoint(ctx context.Context, fileSystem string, f func(types.AccessPointDescription) (more bool)) error {
	input := &efs.DescribeAccessPointsInput{FileSystemId: &fileSystem}
	for range maxPages {
		var page *efs.DescribeAccessPointsOutput
		err := c.call(ctx, func(ctx context.Context) (err error) {
			page, err = c.efs.DescribeAccessPoints(ctx, input)
			return err
		})
		if err != nil {
			return err
		}
		for _, ap := range page.AccessPoints {
			if !f(ap) {
				return nil
			}
		}
		if aws.ToString(page.NextToken) == "" {
			return nil
		}
		input.NextToken = page.NextToken
	}
	return fmt.Errorf("got more than %d pages", maxPages)
}

// advise returns the error of a call, with advice on what to do.
func (c *caller) advise(err error) error {
	switch code := codeOf(err); {
	case err == nil:
		return nil
	case strings.HasPrefix(code, "AccessDenied"), code == "UnauthorizedOperation":
		return &callError{err, fmt.Sprintf("%s. Allow the user or the role of Secret %s what CredentialsRequest %s lists", describe(err), tagsSecret, tagsRequest)}
	case isExpired(err), code == "UnrecognizedClientException", code == "InvalidSignatureException":
		return &callError{err, fmt.Sprintf("%s. Renew the credentials in Secret %s", describe(err), tagsSecret)}
	}
	return &callError{err, describe(err)}
}

// A callError is an error of a call with a message that stays the same from call to call. The SDK's messages contain
// the ID of the request.
type callError struct {
	error
	message string
}

func (e *callError) Error() string { return e.message }
func (e *callError) Unwrap() error { return e.error }

// describe describes an error, without details that differ from call to call.
func describe(err error) string {
	var described *callError
	var api smithy.APIError
	var network *net.OpError
	switch {
	case errors.As(err, &described):
		return described.message
	case errors.As(err, &api):
		return fmt.Sprintf("%s: %s", api.ErrorCode(), api.ErrorMessage())
	case errors.As(err, &network) && network.Addr != nil:
		return fmt.Sprintf("%s %s: %v", network.Op, network.Addr, network.Err)
	}
	return err.Error()
}

// codeOf returns the code of an AWS error, "" for other errors.
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

var throttles = retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}

func isThrottled(err error) bool { return err != nil && throttles.IsErrorThrottle(err).Bool() }

func isExpired(err error) bool { return codeOf(err) == "ExpiredTokenException" }
