package fault

// A Fault disturbs the client at a point. It is part of a subtest's name.
type Fault string

// Faults of a write.
const (
	// KilledBefore kills the client before it sends the request.
	KilledBefore Fault = "killed-before"
	// KilledAfter kills the client after the API server has processed the request, and before the client gets the
	// response.
	KilledAfter Fault = "killed-after"
	// ResponseDropped lets the API server process the request, and breaks the connection before the client gets the
	// response.
	ResponseDropped Fault = "response-dropped"
	// Conflict answers 409: somebody else changed the object.
	Conflict Fault = "conflict"
	// TooManyRequests answers 429 and asks the client to retry after a second.
	TooManyRequests Fault = "too-many-requests"
	// ServerError answers 500.
	ServerError Fault = "server-error"
	// Hang never answers, so that the client must give up. The API server does not get the request.
	Hang Fault = "hang"
)

// Faults of a watch. Both start with the first event after the watch's initial list.
const (
	// Stale delays events until the test calls Deliver once the client has settled without them, but not for longer than
	// thirty seconds. It keeps their order.
	Stale Fault = "stale"
	// EventDropped drops the event, ends the watch and answers 410 when the client resumes it, so that the client
	// lists again. A server can do nothing worse: a watch is one ordered stream of all events since a resource
	// version, and a server that cannot deliver an event ends the stream. The client then resumes from the last
	// version that it saw. It either gets every event since, or is told that the version has expired and lists. So a
	// client can miss that something happened, such as a deletion before another creation, but not the resulting
	// state.
	EventDropped Fault = "event-dropped"
)

// Faults returns the faults that are possible at a point.
func (p Point) Faults() []Fault {
	if p.IsWatch() {
		return []Fault{Stale, EventDropped}
	}
	return []Fault{KilledBefore, KilledAfter, ResponseDropped, Conflict, TooManyRequests, ServerError, Hang}
}

// reachesServer reports whether the API server gets a write in spite of the fault.
func (f Fault) reachesServer() bool {
	return f == "" || f == KilledAfter || f == ResponseDropped
}
