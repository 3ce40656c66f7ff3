package aws_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	efssdk "github.com/aws/aws-sdk-go-v2/service/efs"
	stssdk "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/aws"
	"github.com/berth-csi/berth/lab/aws/gateway"
)

// TestSignatures: the cloud accepts requests signed with credentials that it knows, and no others.
func TestSignatures(t *testing.T) {
	for _, secure := range []bool{false, true} {
		c := aws.Start(t, aws.Options{Region: "sea-west-1", TLS: secure})
		user := c.AddUser(t, "operator", "elasticfilesystem:Describe*")
		good := c.Configure(t, user)
		describe := func(change func(*sdk.Config)) error {
			cfg := good.Copy()
			change(&cfg)
			_, err := efssdk.NewFromConfig(cfg).DescribeFileSystems(t.Context(), &efssdk.DescribeFileSystemsInput{MaxItems: sdk.Int32(3)})
			return err
		}
		static := func(id, secret, token string) func(*sdk.Config) {
			return func(cfg *sdk.Config) { cfg.Credentials = credentials.NewStaticCredentialsProvider(id, secret, token) }
		}
		require.NoError(t, describe(func(*sdk.Config) {}), "a signed request fails")
		identity, err := stssdk.NewFromConfig(good).GetCallerIdentity(t.Context(), &stssdk.GetCallerIdentityInput{})
		if err != nil || *identity.Arn != "arn:aws:iam::111122223333:user/operator" || *identity.Account != "111122223333" {
			t.Fatalf("got the identity %+v, error %v", identity, err)
		}
		aws.WantCode(t, describe(static(user.AccessKeyID, "guessed", "")), "InvalidSignatureException")
		aws.WantCode(t, describe(static("AKIAGUESSED", user.SecretAccessKey, "")), "UnrecognizedClientException")
		aws.WantCode(t, describe(static(user.AccessKeyID, user.SecretAccessKey, "token")), "UnrecognizedClientException")
		aws.WantCode(t, describe(func(cfg *sdk.Config) { cfg.Region = "us-east-1" }), "InvalidSignatureException")
		aws.WantCode(t, describe(func(cfg *sdk.Config) { cfg.Credentials = sdk.AnonymousCredentials{} }), "MissingAuthenticationTokenException")
		_, err = efssdk.NewFromConfig(good).DeleteAccessPoint(t.Context(), &efssdk.DeleteAccessPointInput{AccessPointId: sdk.String("fsap-0a")})
		if message := aws.WantCode(t, err, "AccessDeniedException"); !strings.Contains(message, "user/operator is not authorized to perform: elasticfilesystem:DeleteAccessPoint") {
			t.Errorf("the message %q does not say who may not do what", message)
		}
	}
}

// TestAlteredRequests: a signature does not fit another request.
func TestAlteredRequests(t *testing.T) {
	c := aws.Start(t, aws.Options{})
	cfg := c.Configure(t, c.AddUser(t, "driver", "elasticfilesystem:*"))
	alter := func(change func(*http.Request)) error {
		_, err := efssdk.NewFromConfig(cfg, func(o *efssdk.Options) {
			o.HTTPClient = doer(func(r *http.Request) (*http.Response, error) {
				change(r)
				return http.DefaultClient.Do(r)
			})
		}).CreateAccessPoint(t.Context(), accessPoint("fs-0a", "pvc-1"))
		return err
	}
	aws.WantCode(t, alter(func(*http.Request) {}), "FileSystemNotFound")
	aws.WantCode(t, alter(func(r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(strings.Replace(string(body), "fs-0a", "fs-0b", 1)))
	}), "InvalidSignatureException")
	aws.WantCode(t, alter(func(r *http.Request) { r.URL.RawQuery = "a=b" }), "InvalidSignatureException")
	aws.WantCode(t, alter(func(r *http.Request) { r.Host = "elsewhere" }), "InvalidSignatureException")
	aws.WantCode(t, alter(func(r *http.Request) {
		r.Header.Set("X-Amz-Date", time.Now().Add(time.Second).UTC().Format("20060102T150405Z"))
	}), "InvalidSignatureException")
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

// TestRecords: each call is recorded with who made it and how it ended.
func TestRecords(t *testing.T) {
	c := aws.Start(t, aws.Options{})
	user := c.AddUser(t, "driver", "elasticfilesystem:*")
	client := efssdk.NewFromConfig(c.Configure(t, user))
	_, _ = client.CreateAccessPoint(t.Context(), accessPoint("fs-0a", "pvc-1", efsTag("a", "b")))
	calls := c.Calls()
	require.Lenf(t, calls, 1, "got %d calls, want 1", len(calls))
	got := calls[0]
	if got.Service != "elasticfilesystem" || got.Action != "CreateAccessPoint" || got.Principal != user.Principal.ARN || got.Error != "FileSystemNotFound" {
		t.Errorf("got %+v", got)
	}
	if p := got.Parameters; p["FileSystemId"] != "fs-0a" || p["Tags.1.Key"] != "a" || p["PosixUser.Uid"] != "1000" {
		t.Errorf("got the parameters %v", p)
	}
}

func TestFaults(t *testing.T) {
	c := aws.Start(t, aws.Options{})
	fs := c.EFS.AddFileSystem(fileSystem)
	efs := efssdk.NewFromConfig(c.Configure(t, c.AddUser(t, "driver", "elasticfilesystem:*")))
	describe := func(options ...func(*efssdk.Options)) error {
		_, err := efs.DescribeFileSystems(t.Context(), &efssdk.DescribeFileSystemsInput{}, options...)
		return err
	}

	remove := c.Inject(gateway.Fault{Service: "elasticfilesystem", Action: "Describe*", Kind: gateway.Throttled})
	aws.WantCode(t, describe(), "ThrottlingException")
	aws.WantCode(t, describe(), "ThrottlingException")
	remove()
	assert.NoError(t, describe(), "without the fault, the request fails")

	// The SDK's own retries get over a fault that ends.
	c.Inject(gateway.Fault{Times: 2, Kind: gateway.Unavailable})
	assert.NoError(t, describe(func(o *efssdk.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	}), "after two failures")

	c.Inject(gateway.Fault{Principal: "arn:aws:iam::111122223333:user/n*", Kind: gateway.Denied})
	assert.NoError(t, describe(), "the fault of another principal applies")
	c.Inject(gateway.Fault{Principal: "arn:aws:iam::111122223333:user/d*", Times: 1, Kind: gateway.Denied})
	aws.WantCode(t, describe(), "AccessDeniedException")
	c.Inject(gateway.Fault{Action: "DescribeFileSystems", Times: 1, Error: gateway.Errorf("OptInRequired", "You are not subscribed to this service.")})
	aws.WantCode(t, describe(), "OptInRequired")

	// The access point is created, but the response is lost.
	c.Inject(gateway.Fault{Action: "CreateAccessPoint", Times: 1, Kind: gateway.Broken, After: true})
	_, err := efs.CreateAccessPoint(t.Context(), accessPoint(fs.ID, "lost"))
	if err == nil || len(c.EFS.AccessPoints()) != 1 {
		t.Errorf("got the error %v and %d access points, want an error and one", err, len(c.EFS.AccessPoints()))
	}
	calls := c.Calls()
	assert.Truef(t, calls[len(calls)-1].Lost, "the last call is not recorded as lost: %+v", calls[len(calls)-1])

	c.Inject(gateway.Fault{Action: "DescribeMountTargets", Delay: time.Hour})
	impatient, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = efs.DescribeMountTargets(impatient, &efssdk.DescribeMountTargetsInput{FileSystemId: &fs.ID})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestListen: the services listen where the caller wants, and their certificates are for that address.
func TestListen(t *testing.T) {
	var asked []string
	c := aws.Start(t, aws.Options{TLS: true, Listen: func(service string) (net.Listener, error) {
		asked = append(asked, service)
		return net.Listen("tcp", "127.0.0.2:0")
	}})
	cfg := c.Configure(t, c.AddUser(t, "driver"))
	_, err := stssdk.NewFromConfig(cfg).GetCallerIdentity(t.Context(), &stssdk.GetCallerIdentityInput{})
	assert.NoError(t, err)
	if slices.Sort(asked); !slices.Equal(asked, []string{"ec2", "efs", "sts"}) || !strings.HasPrefix(c.URL("sts"), "https://127.0.0.2:") {
		t.Errorf("got listeners for %q, and STS at %s", asked, c.URL("sts"))
	}
	t.Setenv("AWS_CA_BUNDLE", "")
	other, err := config.LoadDefaultConfig(t.Context(), config.WithRetryer(func() sdk.Retryer { return sdk.NopRetryer{} }))
	require.NoError(t, err)
	_, err = stssdk.NewFromConfig(other).GetCallerIdentity(t.Context(), &stssdk.GetCallerIdentityInput{})
	assert.ErrorContains(t, err, "certificate", "without the CA")
}
