package fault

// A Fault is what happens at a point. Its text is a word for a subtest's name.
type Fault string

// Faults of a write.
const (
	// KilledBefore ends the client when it is about to send the request.
	KilledBefore Fault = "killed-before"
	// KilledAfter ends the client when the API server has done what the request asks for, and before the
	// client hears of it.
	KilledAfter Fault = "killed-after"
	// ResponseDropped has the API server do what the request asks for, and the connection break before the
	// client hears of it.
	ResponseDropped Fault = "response-dropped"
	// Conflict answers 409: somebody else changed the object.
	Conflict Fault = "conflict"
	// TooManyRequests answers 429 and asks the client to come again in a second.
	TooManyRequests Fault = "too-many-requests"
	// ServerError answers 500.
	ServerError Fault = "server-error"
	// Hang gives no answer until the client gives up. The request does nothing.
	Hang Fault = "hang"
)

// Faults of a watch. Both begin with the first event that the watch brings after its initial list.
const (
	// Stale holds events back until the test says that the client has settled without them (Deliver), or
	// for thirty seconds, and then delivers them in their order.
	Stale Fault = "stale"
	// EventDropped loses the event, ends the watch and answers 410 when the client resumes it, so that the
	// client lists anew. That is all a server can do to a client: a watch is one ordered stream of all
	// events since a resource version. A server that cannot deliver one ends the stream. The client then
	// resumes from the last version that it has seen, and either gets every event since, or is told that
	// the server does not remember them any more and must list. So what can be lost for good is that
	// something happened, such as a deletion before another creation, but never what came of it.
	EventDropped Fault = "event-dropped"
)

// Faults returns all faults that a point can have.
func (p Point) Faults() []Fault {
	if p.IsWatch() {
		return []Fault{Stale, EventDropped}
	}
	return []Fault{KilledBefore, KilledAfter, ResponseDropped, Conflict, TooManyRequests, ServerError, Hang}
}

// reachesServer tells whether a write gets to the API server in spite of the fault.
func (f Fault) reachesServer() bool {
	return f == "" || f == KilledAfter || f == ResponseDropped
}
