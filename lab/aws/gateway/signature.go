package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/berth-csi/berth/lab/aws/iam"
)

const (
	algorithm  = "AWS4-HMAC-SHA256"
	dateFormat = "20060102T150405Z"
	// maxSkew is how far a client's clock may be off.
	maxSkew = 15 * time.Minute
)

// signature is the Authorization header of a request, as the Signature Version 4 defines it.
type signature struct {
	accessKeyID, date, region, service string
	headers                            []string
}

// parse reads an Authorization header such as
// "AWS4-HMAC-SHA256 Credential=KEY/20260102/us-east-1/ec2/aws4_request, SignedHeaders=host;x-amz-date, Signature=HEX".
func parse(header string) (signature, bool) {
	rest, ok := strings.CutPrefix(header, algorithm+" ")
	if !ok {
		return signature{}, false
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[key] = value
	}
	scope := strings.Split(fields["Credential"], "/")
	if len(scope) != 5 || scope[4] != "aws4_request" || fields["Signature"] == "" {
		return signature{}, false
	}
	return signature{accessKeyID: scope[0], date: scope[1], region: scope[2], service: scope[3], headers: strings.Split(fields["SignedHeaders"], ";")}, true
}

// authenticate returns who signed a request.
func (g *Gateway) authenticate(s Service, r *Request) (iam.Principal, *Error) {
	header := r.HTTP.Header.Get("Authorization")
	got, ok := parse(header)
	if !ok {
		return iam.Principal{}, &s.Refusals.Unsigned
	}
	wrong := func(why string) (iam.Principal, *Error) {
		refusal := s.Refusals.Signature
		refusal.Message += " " + why
		return iam.Principal{}, &refusal
	}
	if got.service != s.Name || got.region != g.region {
		return wrong("Credential should be scoped to a valid region and the correct service: '" + g.region + "', '" + s.Name + "'. It is scoped to '" + got.region + "', '" + got.service + "'.")
	}
	date, err := time.Parse(dateFormat, r.HTTP.Header.Get("X-Amz-Date"))
	if err != nil || date.Format("20060102") != got.date || time.Since(date).Abs() > maxSkew {
		return wrong("Signature not yet current or expired: " + strconv.Quote(r.HTTP.Header.Get("X-Amz-Date")) + ".")
	}
	credentials, ok := g.directory.Find(got.accessKeyID)
	if !ok || credentials.SessionToken != r.HTTP.Header.Get("X-Amz-Security-Token") {
		return iam.Principal{}, &s.Refusals.Unknown
	}
	want, err := sign(r, got, credentials, date)
	if err != nil {
		return wrong(err.Error())
	}
	if subtle.ConstantTimeCompare([]byte(normal(want)), []byte(normal(header))) != 1 {
		return wrong("Check your AWS Secret Access Key and signing method. Consult the service documentation for details.")
	}
	if !credentials.Expires.IsZero() && time.Now().After(credentials.Expires) {
		return credentials.Principal, &s.Refusals.Expired
	}
	return credentials.Principal, nil
}

// sign returns the Authorization header that the request must have. The SDK's own signer makes it, from the headers that the client
// signed.
func sign(r *Request, s signature, credentials iam.Credentials, date time.Time) (string, error) {
	location := *r.HTTP.URL
	location.Scheme, location.Host = "https", r.HTTP.Host
	again := &http.Request{Method: r.HTTP.Method, URL: &location, Host: r.HTTP.Host, Header: http.Header{}}
	for _, name := range s.headers {
		again.Header[http.CanonicalHeaderKey(name)] = r.HTTP.Header.Values(name)
	}
	again.Header.Del("Host") // the signer adds it
	if slices.Contains(s.headers, "content-length") {
		again.Header.Del("Content-Length")
		again.ContentLength = r.HTTP.ContentLength
	}
	hash := sha256.Sum256(r.Body)
	err := v4.NewSigner().SignHTTP(r.HTTP.Context(),
		aws.Credentials{AccessKeyID: credentials.AccessKeyID, SecretAccessKey: credentials.SecretAccessKey, SessionToken: credentials.SessionToken},
		again, hex.EncodeToString(hash[:]), s.service, s.region, date)
	return again.Header.Get("Authorization"), err
}

// normal removes insignificant differences between two headers.
func normal(header string) string { return strings.ReplaceAll(header, " ", "") }
