package cluster

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
)

// Compact makes etcd forget all revisions but the current one. Every five minutes, the API server triggers this for revisions that are
// older than five minutes; a list that began at such a revision then cannot be continued.
func (c *Cluster) Compact(t testing.TB) {
	t.Helper()
	var current struct{ Header struct{ Revision string } }
	c.callEtcd(t, "range", map[string]any{"key": []byte{0}}, &current)
	c.callEtcd(t, "compaction", map[string]any{"revision": current.Header.Revision, "physical": true}, &struct{}{})
}

// callEtcd calls a method of etcd's KV service, through its gateway for JSON.
func (c *Cluster) callEtcd(t testing.TB, method string, request map[string]any, response any) {
	t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post(c.state.Etcd+"/v3/kv/"+method, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("etcd answers %q with %s", method, answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(response); err != nil {
		t.Fatalf("etcd's answer to %q: %v", method, err)
	}
}
