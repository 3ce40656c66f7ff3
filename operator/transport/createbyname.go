package transport

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

// CreateOnly is a resource version that no object has. Server-side apply with this resource version creates the object,
// and fails with a conflict if it exists.
const CreateOnly = "1"

// CreateByName turns create requests into server-side apply. The URL of an apply request contains the object's name, so
// an RBAC rule can limit it with resourceNames. RBAC cannot do that for create requests, because the name is only in
// the body: whoever may create one object may create any.
func CreateByName(fieldManager string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
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
				return nil, fmt.Errorf("creating an object at %s: %w", request.URL.Path, err)
			}
			if object.GetName() == "" {
				return nil, fmt.Errorf("creating an object at %s: it has no name", request.URL.Path)
			}
			object.SetResourceVersion(CreateOnly)
			if body, err = json.Marshal(object.Object); err != nil {
				return nil, err
			}
			request = request.Clone(request.Context())
			request.Method = http.MethodPatch
			request.URL.Path = path.Join(request.URL.Path, url.PathEscape(object.GetName()))
			request.URL.RawQuery = url.Values{"fieldManager": {fieldManager}}.Encode()
			request.Header.Set("Content-Type", string(types.ApplyYAMLPatchType))
			request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
			return next.RoundTrip(request)
		})
	}
}
