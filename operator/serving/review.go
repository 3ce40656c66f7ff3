package serving

import (
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// reviewed passes on requests of those whom the API server knows by their token and RBAC allows to get
// the URL.
func reviewed(kube kubernetes.Interface, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		code, err := review(kube, request)
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
func review(kube kubernetes.Interface, request *http.Request) (int, error) {
	token, ok := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return http.StatusUnauthorized, nil
	}
	who, err := kube.AuthenticationV1().TokenReviews().Create(request.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("asking the API server whose token it is: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	may, err := kube.AuthorizationV1().SubjectAccessReviews().Create(request.Context(),
		&authorizationv1.SubjectAccessReview{Spec: accessOf(who.Status.User, request.URL.Path)}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("asking the API server what %s may do: %w", who.Status.User.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
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
