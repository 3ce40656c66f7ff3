package drivers

import "net/http"

// MaxAnswer is the largest answer of a cloud that operators read, in bytes. A page of 100 EFS access points with 50 tags of the largest size
// each has 8 MiB.
const MaxAnswer = 16 << 20

// LimitedTransport ends answers of a cloud with an error after MaxAnswer: whoever may write a Secret with credentials may choose who
// answers, and an endless answer would take the operator's memory.
type LimitedTransport struct{ *http.Transport }

// RoundTrip sends a request.
func (l LimitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.Transport.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, MaxAnswer)
	}
	return response, err
}
