package drivers

import "net/http"

// MaxAnswer is the size, in bytes, of the largest answer that operators read from a cloud. A page of 100 EFS access points, each with 50
// tags of the maximum size, has 8 MiB.
const MaxAnswer = 16 << 20

// LimitedTransport ends a cloud's answer with an error after MaxAnswer bytes: whoever may write a Secret with credentials may choose the
// server, and an endless answer would exhaust the operator's memory.
type LimitedTransport struct{ *http.Transport }

// RoundTrip sends a request.
func (l LimitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.Transport.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, MaxAnswer)
	}
	return response, err
}
