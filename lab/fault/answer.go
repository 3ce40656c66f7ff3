package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// retryAfter is the Retry-After of a 429 response in seconds, as an overloaded API server sends it.
const retryAfter = 1

// answers are the error responses that faults send instead of the API server's response.
var answers = map[Fault]func(Point) *apierrors.StatusError{
	Conflict: func(p Point) *apierrors.StatusError {
		return apierrors.NewConflict(schema.GroupResource{Resource: p.Resource}, p.Name, errors.New("an injected fault: the object has been modified"))
	},
	TooManyRequests: func(Point) *apierrors.StatusError {
		return apierrors.NewTooManyRequests("an injected fault: too many requests", retryAfter)
	},
	ServerError: func(Point) *apierrors.StatusError {
		return apierrors.NewInternalError(errors.New("an injected fault"))
	},
	EventDropped: func(Point) *apierrors.StatusError {
		return apierrors.NewResourceExpired("an injected fault: too old resource version")
	},
}

// answer returns an error as the API server would send it.
func answer(request *http.Request, failure *apierrors.StatusError) (*http.Response, error) {
	status := failure.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {mediaTypeJSON}}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return response(request, int(status.Code), header, body), nil
}

func response(request *http.Request, code int, header http.Header, body []byte) *http.Response {
	return &http.Response{
		Status: strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code))), StatusCode: code,
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: header,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: request,
	}
}

// Errors of a broken connection.
var (
	errReset   = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
)
