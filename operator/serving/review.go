package serving

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
)

const (
	// remembered is how many tokens are remembered, by their hashes.
	remembered = 1024
	// knownFor is how long a token that was accepted need not wait for others to be looked into.
	knownFor = 10 * time.Minute
)

// remember says how long a decision holds. A token that is refused does not become valid, while rights
// change; and who loses a token or a right loses access soon.
var remember = map[int]time.Duration{
	http.StatusOK:           10 * time.Second,
	http.StatusForbidden:    5 * time.Second,
	http.StatusUnauthorized: 30 * time.Second,
}

// identity is a token and what is asked for with it, hashed so that the memory holds no tokens.
type identity [sha256.Size]byte

// reviewer finds out who may read what.
type reviewer struct {
	Options
	decisions *cache.LRUExpireCache // HTTP status by identity
	known     *cache.LRUExpireCache // the identities that were accepted lately
	asking    singleflight.Group
	limiter   flowcontrol.RateLimiter
	limits    limits
}

func newReviewer(options Options, limits limits) *reviewer {
	return &reviewer{
		Options:   options,
		decisions: cache.NewLRUExpireCache(remembered),
		known:     cache.NewLRUExpireCache(remembered),
		limiter:   flowcontrol.NewTokenBucketRateLimiter(limits.reviewsPerSecond, limits.reviewsAtOnce),
		limits:    limits,
	}
}

// reviewed passes on requests of those whom the API server knows by their token and RBAC allows to get
// the URL, and of those who have a token of the operator's own account that is for its metrics.
func (r *reviewer) reviewed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		code, err := r.review(request)
		if err != nil {
			klog.Errorf("%s %s: %v", request.Method, request.URL.Path, err)
		}
		if code != http.StatusOK {
			http.Error(w, http.StatusText(code), code)
			return
		}
		next.ServeHTTP(w, request)
	})
}

// review returns the HTTP status that a request deserves, and why it could not be found out.
func (r *reviewer) review(request *http.Request) (int, error) {
	token, ok := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return http.StatusUnauthorized, nil
	}
	path := request.URL.Path
	id := identity(sha256.Sum256([]byte(path + "\n" + token)))
	if code, ok := r.decisions.Get(id); ok {
		return code.(int), nil
	}
	// Requests with the same token wait for the same answer, which is not given up when one of them is.
	answer := r.asking.DoChan(string(id[:]), func() (any, error) {
		return r.decide(context.WithoutCancel(request.Context()), id, path, token)
	})
	select {
	case result := <-answer:
		return result.Val.(int), result.Err
	case <-request.Context().Done():
		return http.StatusServiceUnavailable, nil
	}
}

// decide asks the API server, and remembers what comes of it.
func (r *reviewer) decide(ctx context.Context, id identity, path, token string) (int, error) {
	if _, ok := r.known.Get(id); !ok {
		turn, cancel := context.WithTimeout(ctx, r.limits.turn)
		defer cancel()
		if r.limiter.Wait(turn) != nil {
			return http.StatusTooManyRequests, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, r.limits.review)
	defer cancel()
	code, err := r.ask(ctx, path, token)
	if code == http.StatusOK {
		r.known.Add(id, nil, knownFor)
	}
	if hold := remember[code]; hold > 0 {
		r.decisions.Add(id, code, hold)
	}
	return code, err
}

// ask asks the API server whose token it is, and what they may do.
func (r *reviewer) ask(ctx context.Context, path, token string) (int, error) {
	spec := authenticationv1.TokenReviewSpec{Token: token}
	forMetrics := r.Audience != "" && slices.Contains(audiencesOf(token), r.Audience)
	if forMetrics {
		spec.Audiences = []string{r.Audience} // else the review is of a token for the API server
	}
	who, err := r.Kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("asking the API server whose token it is: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	if forMetrics {
		// Whoever may make tokens of the operator's account may do all that the operator may.
		if slices.Contains(who.Status.Audiences, r.Audience) && who.Status.User.Username == r.Account {
			return http.StatusOK, nil
		}
		return http.StatusForbidden, nil
	}
	may, err := r.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: accessOf(who.Status.User, path)}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("asking the API server what %s may do: %w", who.Status.User.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// audiencesOf returns whom a service account's token says that it is for. The API server says whether
// that is true; here it only chooses what to ask the API server for.
func audiencesOf(token string) []string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var claims struct {
		Audiences []string `json:"aud"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return nil
	}
	return claims.Audiences
}

// accessOf describes the wish of a user to read a URL.
func accessOf(user authenticationv1.UserInfo, path string) authorizationv1.SubjectAccessReviewSpec {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}
}
