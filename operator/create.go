package operator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// neverSeen is a resource version that no object has. With it, server-side apply creates an object, and fails if
// there is one.
const neverSeen = "1"

// createByName turns requests that create an object into server-side apply. To RBAC, such a request tells the
// object's name, so that the permission can be limited to it; where the name is only in the body, a permission to
// create one object is one to create any.
func createByName(manager string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodPost || request.Body == nil {
				return next.RoundTrip(request)
			}
			body, err := io.ReadAll(request.Body)
			request.Body.Close()
			if err != nil {
				return nil, err
			}
			object := &unstructured.Unstructured{}
			if err := json.Unmarshal(body, &object.Object); err != nil {
				return nil, fmt.Errorf("creating an object by %s: %w", request.URL.Path, err)
			}
			if object.GetName() == "" {
				return nil, fmt.Errorf("creating an object by %s: it has no name", request.URL.Path)
			}
			object.SetResourceVersion(neverSeen)
			if body, err = json.Marshal(object.Object); err != nil {
				return nil, err
			}
			request = request.Clone(request.Context())
			request.Method = http.MethodPatch
			request.URL.Path = path.Join(request.URL.Path, url.PathEscape(object.GetName()))
			request.URL.RawQuery = url.Values{"fieldManager": {manager}}.Encode()
			request.Header.Set("Content-Type", string(types.ApplyYAMLPatchType))
			request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
			return next.RoundTrip(request)
		})
	}
}
