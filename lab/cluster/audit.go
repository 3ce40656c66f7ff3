package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
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

// Requests select requests of the audit log. The zero value selects all.
type Requests struct {
	// User sent the requests; "" for anybody.
	User string
	// Agent is the beginning of the client's user agent, such as "catalog/"; "" for any.
	Agent string
}

func (r Requests) match(event AuditEvent) bool {
	return (r.User == "" || event.User == r.User) && strings.HasPrefix(event.Agent, r.Agent)
}

// mayMatch is match for a line of the log. It can be wrong only by returning true, and it saves decoding most lines.
func (r Requests) mayMatch(line []byte) bool {
	return bytes.Contains(line, encoded(r.User)) && bytes.Contains(line, encoded(r.Agent))
}

// encoded returns a text as it is in a JSON string.
func encoded(text string) []byte {
	quoted, _ := json.Marshal(text) // a string can always be encoded
	return quoted[1 : len(quoted)-1]
}

// Audit returns all requests so far that were received since the test took the cluster, by Start or Shared, in the order
// of their responses. It includes watches that are still running. AuditOf needs less time and memory.
func (c *Cluster) Audit(t testing.TB) []AuditEvent {
	t.Helper()
	return c.AuditOf(t, Requests{})
}

// AuditOf is Audit for some of the requests.
func (c *Cluster) AuditOf(t testing.TB, requests Requests) []AuditEvent {
	t.Helper()
	events, err := c.audit.read(requests)
	if err != nil {
		t.Fatalf("read %s: %v", c.AuditLog(), err)
	}
	return events
}

// An auditTrail is the part of the audit log since a time, for one test. It reads each line once for each selection, and
// keeps the selected events: a log that the tests of a package share has hundreds of MB in the end.
type auditTrail struct {
	path   string
	since  time.Time
	offset int64 // of the log at that time

	mu      sync.Mutex
	readers map[Requests]*auditReader
}

// newAuditTrail returns the log from its beginning.
func newAuditTrail(path string) *auditTrail {
	return &auditTrail{path: path, readers: map[Requests]*auditReader{}}
}

// fromNow returns the log from now on.
func (a *auditTrail) fromNow() (*auditTrail, error) {
	now := time.Now().Truncate(time.Microsecond) // as in the log
	info, err := os.Stat(a.path)
	if err != nil {
		return nil, err
	}
	from := newAuditTrail(a.path)
	from.since, from.offset = now, info.Size()
	return from, nil
}

func (a *auditTrail) read(requests Requests) ([]AuditEvent, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reader := a.readers[requests]
	if reader == nil {
		reader = &auditReader{requests: requests, since: a.since, offset: a.offset, running: map[string]int{}}
		if a.offset > 0 {
			// The line at that offset may have begun before. Its rest, or the end of the line before it, is skipped.
			reader.offset, reader.skip = a.offset-1, true
		}
		a.readers[requests] = reader
	}
	if err := reader.advance(a.path); err != nil {
		return nil, err
	}
	return slices.Clone(reader.events), nil // a watch that ends changes its event
}

type auditReader struct {
	requests Requests
	since    time.Time
	offset   int64 // of the first byte that was not read
	skip     bool  // the first line, which is not a whole one
	events   []AuditEvent
	running  map[string]int // events of watches, by ID: they are logged when they start and when they end
}

// advance reads the lines that are new. The last one may still be written; it is read when it is complete.
func (r *auditReader) advance(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(r.offset, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	lines.Split(func(data []byte, _ bool) (int, []byte, error) {
		if end := bytes.IndexByte(data, '\n') + 1; end > 0 {
			return end, data[:end], nil
		}
		return 0, nil, nil // more is needed
	})
	for lines.Scan() {
		line := lines.Bytes()
		if err := r.add(line); err != nil {
			return fmt.Errorf("at byte %d: %w", r.offset, err)
		}
		r.offset += int64(len(line))
	}
	return lines.Err()
}

func (r *auditReader) add(line []byte) error {
	if r.skip {
		r.skip = false
		return nil
	}
	if !r.requests.mayMatch(line) {
		return nil
	}
	var logged auditv1.Event
	if err := json.Unmarshal(line, &logged); err != nil {
		return err
	}
	event := newAuditEvent(logged)
	if !r.requests.match(event) || event.Received.Before(r.since) {
		return nil
	}
	if i, runs := r.running[event.ID]; runs {
		r.events[i] = event
		delete(r.running, event.ID)
		return nil
	}
	if logged.Stage == auditv1.StageResponseStarted {
		r.running[event.ID] = len(r.events)
	}
	r.events = append(r.events, event)
	return nil
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
