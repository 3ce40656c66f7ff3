package metrics

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
	// cacheSize is the number of decisions in the cache, by the hashes of their tokens.
	cacheSize = 1024
	// exemptFor is how long the reviews of a token that was accepted are exempt from the rate limit.
	exemptFor = 10 * time.Minute
)

// cacheFor is how long a decision is cached. A rejected token does not become valid. But permissions change, and
// whoever loses a token or a permission must lose access soon.
var cacheFor = map[int]time.Duration{
	http.StatusOK:           10 * time.Second,
	http.StatusForbidden:    5 * time.Second,
	http.StatusUnauthorized: 30 * time.Second,
}

// identity is a token and the path that was requested with it, hashed so that no tokens are kept in memory.
type identity [sha256.Size]byte

// A reviewer authenticates and authorizes requests.
type reviewer struct {
	ServeOptions
	decisions *cache.LRUExpireCache // HTTP status by identity
	exempt    *cache.LRUExpireCache // the identities that were accepted recently
	inFlight  singleflight.Group
	limiter   flowcontrol.RateLimiter
	limits    limits
}

func newReviewer(options ServeOptions, limits limits) *reviewer {
	return &reviewer{
		ServeOptions: options,
		decisions:    cache.NewLRUExpireCache(cacheSize),
		exempt:       cache.NewLRUExpireCache(cacheSize),
		limiter:      flowcontrol.NewTokenBucketRateLimiter(limits.reviewsPerSecond, limits.reviewBurst),
		limits:       limits,
	}
}

// reviewed passes on the requests of clients that the API server authenticates by their token and that RBAC allows to
// get the URL, and of clients with a token of the operator's own account for its metrics.
func (r *reviewer) reviewed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		code, err := r.review(request)
		if err != nil {
			klog.ErrorS(err, "Failed to review a request", "method", request.Method, "path", request.URL.Path)
		}
		if code != http.StatusOK {
			http.Error(w, http.StatusText(code), code)
			return
		}
		next.ServeHTTP(w, request)
	})
}

// review returns the HTTP status for a request, and an error if the API server could not be asked.
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
	// Concurrent requests with the same token share one review, which continues if one of them is canceled.
	answer := r.inFlight.DoChan(string(id[:]), func() (any, error) {
		return r.decide(context.WithoutCancel(request.Context()), id, path, token)
	})
	select {
	case result := <-answer:
		return result.Val.(int), result.Err
	case <-request.Context().Done():
		return http.StatusServiceUnavailable, nil
	}
}

// decide reviews a token, within the rate limit, and caches the decision.
func (r *reviewer) decide(ctx context.Context, id identity, path, token string) (int, error) {
	if _, ok := r.exempt.Get(id); !ok {
		waiting, cancel := context.WithTimeout(ctx, r.limits.reviewWait)
		defer cancel()
		if r.limiter.Wait(waiting) != nil {
			return http.StatusTooManyRequests, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, r.limits.review)
	defer cancel()
	code, err := r.ask(ctx, path, token)
	if code == http.StatusOK {
		r.exempt.Add(id, nil, exemptFor)
	}
	if ttl := cacheFor[code]; ttl > 0 {
		r.decisions.Add(id, code, ttl)
	}
	return code, err
}

// ask asks the API server who the user of a token is, and what the user may do.
func (r *reviewer) ask(ctx context.Context, path, token string) (int, error) {
	spec := authenticationv1.TokenReviewSpec{Token: token}
	forMetrics := r.Audience != "" && slices.Contains(audiencesOf(token), r.Audience)
	if forMetrics {
		spec.Audiences = []string{r.Audience} // otherwise the API server reviews it as a token for itself
	}
	who, err := r.Kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("reviewing the token: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	if forMetrics {
		// A client that can create tokens of the operator's account already has all of its permissions.
		if slices.Contains(who.Status.Audiences, r.Audience) && who.Status.User.Username == r.Account {
			return http.StatusOK, nil
		}
		return http.StatusForbidden, nil
	}
	may, err := r.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: accessOf(who.Status.User, path)}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("reviewing the access of %s: %w", who.Status.User.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// audiencesOf returns the audiences that a service account token claims. They are not verified: they only determine
// which audience the API server is asked to verify.
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

// accessOf describes the access of a user to a URL.
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
