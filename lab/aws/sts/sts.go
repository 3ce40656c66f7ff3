// Package sts is a fake AWS Security Token Service. It speaks the query protocol of the API version 2011-06-15.
package sts

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/berth-csi/berth/lab/aws/gateway"
	"github.com/berth-csi/berth/lab/aws/iam"
)

const namespace = "https://sts.amazonaws.com/doc/2011-06-15/"

// Limits of the duration of sessions, in seconds.
const (
	minDuration, defaultDuration, maxDuration = 900, 3600, 12 * 3600
)

// algorithms are the algorithms that IAM accepts in tokens.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512}

var sessionName = regexp.MustCompile(`^[\w+=,.@-]{2,64}$`)

// Service starts sessions of the directory's roles.
type Service struct {
	directory *iam.Directory
	lifetime  time.Duration
}

// New returns a service. If lifetime is not zero, sessions end after it, regardless of the requested duration.
func New(directory *iam.Directory, lifetime time.Duration) *Service {
	return &Service{directory: directory, lifetime: lifetime}
}

// Gateway returns the service for the gateway.
func (s *Service) Gateway() gateway.Service {
	return gateway.Service{
		Name:     "sts",
		Read:     read,
		Handlers: map[string]gateway.Handler{"AssumeRole": s.assumeRole, "AssumeRoleWithWebIdentity": s.assumeRoleWithWebIdentity, "GetCallerIdentity": s.callerIdentity},
		Unsigned: []string{"AssumeRoleWithWebIdentity"},
		Free:     []string{"GetCallerIdentity"},
		Write:    write,
		Fail:     fail,
		Refusals: gateway.Refusals{
			Unsigned:    gateway.Error{Status: http.StatusForbidden, Code: "MissingAuthenticationToken", Message: "Request is missing Authentication Token"},
			Unknown:     gateway.Error{Status: http.StatusForbidden, Code: "InvalidClientTokenId", Message: "The security token included in the request is invalid."},
			Signature:   gateway.Error{Status: http.StatusForbidden, Code: "SignatureDoesNotMatch", Message: "The request signature we calculated does not match the signature you provided."},
			Expired:     gateway.Error{Status: http.StatusForbidden, Code: "ExpiredToken", Message: "The security token included in the request is expired"},
			Throttled:   gateway.Error{Status: http.StatusBadRequest, Code: "Throttling", Message: "Rate exceeded"},
			Unavailable: gateway.Error{Status: http.StatusServiceUnavailable, Code: "ServiceUnavailable", Message: "The request has failed due to a temporary failure of the server."},
			Denied:      gateway.Error{Status: http.StatusForbidden, Code: "AccessDenied", Message: "User: %s is not authorized to perform: %s"},
		},
	}
}

// read keeps the token, which is a secret, from being recorded.
func read(r *gateway.Request) *gateway.Error {
	err := gateway.ReadForm(r)
	delete(r.Parameters, "WebIdentityToken")
	return err
}

func write(w http.ResponseWriter, r *gateway.Request, response any) {
	type content struct {
		XMLName   xml.Name
		Result    any    `xml:""`
		RequestID string `xml:"ResponseMetadata>RequestId"`
	}
	answer(w, r, http.StatusOK, content{XMLName: xml.Name{Space: namespace, Local: r.Action + "Response"}, Result: response, RequestID: r.ID})
}

func fail(w http.ResponseWriter, r *gateway.Request, err *gateway.Error) {
	var body struct {
		XMLName   xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ ErrorResponse"`
		Type      string   `xml:"Error>Type"`
		Code      string   `xml:"Error>Code"`
		Message   string   `xml:"Error>Message"`
		RequestID string   `xml:"RequestId"`
	}
	body.Type, body.Code, body.Message, body.RequestID = "Sender", err.Code, err.Message, r.ID
	answer(w, r, err.Status, body)
}

func answer(w http.ResponseWriter, r *gateway.Request, status int, body any) {
	w.Header().Set("Content-Type", "text/xml")
	w.Header().Set("X-Amzn-Requestid", r.ID)
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(body) // the client may be gone
}

type callerIdentityResult struct {
	XMLName xml.Name `xml:"GetCallerIdentityResult"`
	Arn     string
	UserID  string `xml:"UserId"`
	Account string
}

func (s *Service) callerIdentity(r *gateway.Request) (any, *gateway.Error) {
	return callerIdentityResult{Arn: r.Principal.ARN, UserID: r.Principal.UserID, Account: r.Principal.Account}, nil
}

type credentials struct {
	AccessKeyID     string `xml:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string
	Expiration      string
}

type assumedUser struct {
	AssumedRoleID string `xml:"AssumedRoleId"`
	Arn           string
}

type assumeRoleResult struct {
	XMLName     xml.Name
	Credentials credentials
	User        assumedUser `xml:"AssumedRoleUser"`
	// Subject, Audience and Provider are for web identities.
	Subject  string `xml:"SubjectFromWebIdentityToken,omitempty"`
	Audience string `xml:",omitempty"`
	Provider string `xml:",omitempty"`
}

// session checks the name and the duration of the session that a request asks for.
func session(r *gateway.Request) (string, time.Duration, *gateway.Error) {
	name, seconds := r.Parameters["RoleSessionName"], defaultDuration
	if !sessionName.MatchString(name) {
		return "", 0, gateway.Errorf("ValidationError", "1 validation error detected: Value '%s' at 'roleSessionName' failed to satisfy constraint: Member must satisfy regular expression pattern: [\\w+=,.@-]*", name)
	}
	if text := r.Parameters["DurationSeconds"]; text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < minDuration || n > maxDuration {
			return "", 0, gateway.Errorf("ValidationError", "The requested DurationSeconds %q is not between %d and %d", text, minDuration, maxDuration)
		}
		seconds = n
	}
	return name, time.Duration(seconds) * time.Second, nil
}

func (s *Service) start(r *gateway.Request, role iam.Role, name string, duration time.Duration) assumeRoleResult {
	if s.lifetime != 0 {
		duration = s.lifetime
	}
	made := s.directory.Assume(role, name, duration)
	return assumeRoleResult{
		XMLName:     xml.Name{Local: r.Action + "Result"},
		Credentials: credentials{made.AccessKeyID, made.SecretAccessKey, made.SessionToken, made.Expires.UTC().Format(time.RFC3339Nano)},
		User:        assumedUser{made.Principal.UserID, made.Principal.ARN},
	}
}

func (s *Service) assumeRole(r *gateway.Request) (any, *gateway.Error) {
	name, duration, err := session(r)
	if err != nil {
		return nil, err
	}
	arn := r.Parameters["RoleArn"]
	role, ok := s.directory.Trusts(arn, r.Principal, r.Parameters["ExternalId"])
	if !ok {
		return nil, &gateway.Error{Status: http.StatusForbidden, Code: "AccessDenied", Message: fmt.Sprintf("User: %s is not authorized to perform: sts:AssumeRole on resource: %s", r.Principal.ARN, arn)}
	}
	return s.start(r, role, name, duration), nil
}

// claims are the claims of a token that matter.
type claims struct {
	Issuer   string           `json:"iss"`
	Subject  string           `json:"sub"`
	Audience jwt.Audience     `json:"aud"`
	Expiry   *jwt.NumericDate `json:"exp"`
	Before   *jwt.NumericDate `json:"nbf"`
}

func (s *Service) assumeRoleWithWebIdentity(r *gateway.Request) (any, *gateway.Error) {
	name, duration, refusal := session(r)
	if refusal != nil {
		return nil, refusal
	}
	values, _ := url.ParseQuery(string(r.Body)) // ReadForm has parsed it
	text := values.Get("WebIdentityToken")
	if text == "" {
		text = r.HTTP.URL.Query().Get("WebIdentityToken")
	}
	token, err := jwt.ParseSigned(text, algorithms)
	if err != nil {
		return nil, gateway.Errorf("InvalidIdentityToken", "The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)")
	}
	c, refusal := s.verify(token)
	if refusal != nil {
		return nil, refusal
	}
	role, ok := s.directory.TrustsToken(r.Parameters["RoleArn"], c.Issuer, c.Subject)
	if !ok {
		return nil, &gateway.Error{Status: http.StatusForbidden, Code: "AccessDenied", Message: "Not authorized to perform sts:AssumeRoleWithWebIdentity"}
	}
	result := s.start(r, role, name, duration)
	result.Subject, result.Audience, result.Provider = c.Subject, strings.Join(c.Audience, " "), c.Issuer
	return result, nil
}

// verify checks a token's signature with the keys of its issuer, and then its audience and expiry.
func (s *Service) verify(token *jwt.JSONWebToken) (claims, *gateway.Error) {
	var c claims
	if err := token.UnsafeClaimsWithoutVerification(&c); err != nil {
		return claims{}, gateway.Errorf("InvalidIdentityToken", "The claims cannot be read: %v", err)
	}
	provider, ok := s.directory.Provider(c.Issuer)
	if !ok {
		return claims{}, gateway.Errorf("InvalidIdentityToken", "No OpenIDConnect provider found in your account for %s", c.Issuer)
	}
	document, err := provider.KeySet()
	if err != nil {
		return claims{}, gateway.Errorf("IDPCommunicationError", "The keys of %s cannot be read: %v", c.Issuer, err)
	}
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal(document, &keys); err != nil {
		return claims{}, gateway.Errorf("InvalidIdentityToken", "Couldn't retrieve verification key from your identity provider, please reference AssumeRoleWithWebIdentity documentation for requirements: %v", err)
	}
	switch {
	case token.Claims(&keys, &c) != nil:
		return claims{}, gateway.Errorf("InvalidIdentityToken", "Couldn't verify the signature of the token with the keys of %s", c.Issuer)
	case !slices.ContainsFunc(c.Audience, func(a string) bool { return slices.Contains(provider.Audiences, a) }):
		return claims{}, gateway.Errorf("InvalidIdentityToken", "Incorrect token audience")
	case c.Expiry == nil || time.Now().After(c.Expiry.Time()):
		return claims{}, gateway.Errorf("ExpiredTokenException", "Token expired")
	case c.Before != nil && time.Now().Before(c.Before.Time().Add(-time.Minute)):
		return claims{}, gateway.Errorf("InvalidIdentityToken", "Token is not valid yet")
	}
	return c, nil
}
