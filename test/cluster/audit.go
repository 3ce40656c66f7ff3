package cluster

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// AuditEvent is a request in the API server's audit log.
type AuditEvent struct {
	ID   string
	User string
	// Agent is the client's user agent, such as "berth/v1.0.0 (linux/amd64)".
	Agent string
	Verb  string // "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"

	Group, Resource, Subresource string
	Namespace, Name              string
	URI                          string // with its query; also of non-resource requests

	// Code is the HTTP status of the response.
	Code               int32
	Received, Answered time.Time
}

// AuditLog returns the path of the API server's audit log: a JSON document per line, of the type Event in
// audit.k8s.io/v1. Every request is in it before the client gets the response, except health checks and the API
// server's own requests. Bodies are not recorded.
func (c *Cluster) AuditLog() string { return c.path(auditLogName) }

// Audit returns all requests so far, in the order of their responses. It includes watches that are still running.
func (c *Cluster) Audit(t testing.TB) []AuditEvent {
	t.Helper()
	file, err := os.Open(c.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var events []AuditEvent
	index := map[string]int{} // a watch is logged when it starts and when it ends
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var logged auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &logged); err != nil {
			break // the last line, still being written
		}
		event := newAuditEvent(logged)
		if i, seen := index[event.ID]; seen {
			events[i] = event
			continue
		}
		index[event.ID] = len(events)
		events = append(events, event)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("read %s: %v", c.AuditLog(), err)
	}
	return events
}

func newAuditEvent(logged auditv1.Event) AuditEvent {
	event := AuditEvent{
		ID: string(logged.AuditID), User: logged.User.Username, Agent: logged.UserAgent, Verb: logged.Verb, URI: logged.RequestURI,
		Received: logged.RequestReceivedTimestamp.Time, Answered: logged.StageTimestamp.Time,
	}
	if logged.ObjectRef != nil {
		event.Group, event.Resource, event.Subresource = logged.ObjectRef.APIGroup, logged.ObjectRef.Resource, logged.ObjectRef.Subresource
		event.Namespace, event.Name = logged.ObjectRef.Namespace, logged.ObjectRef.Name
	}
	if logged.ResponseStatus != nil {
		event.Code = logged.ResponseStatus.Code
	}
	return event
}
