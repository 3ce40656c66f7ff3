package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/cmd/internal/logging"
)

// TestVerbose: requests to the cluster are logged by the levels of kubectl, without credentials and without what they contain.
func TestVerbose(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Tide", "in")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401,"message":"sunken treasure"}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	t.Setenv("HOME", t.TempDir())
	t.Cleanup(func() { logging.Level(0) })
	ctx := context.Background() // run ends the program soon after its context, so it may not be the test's
	requests, headers := `"Response" verb="GET" url="`+server.URL, "Tide: in"
	for _, tc := range []struct {
		flags     []string
		has, lack []string
	}{
		{nil, nil, []string{"because: ", requests, headers}},
		{[]string{"-v=0"}, nil, []string{"because: ", requests, headers}},
		{[]string{"-v"}, []string{"because: "}, []string{requests, headers}},
		{[]string{"--verbose"}, []string{"because: "}, []string{requests, headers}},
		{[]string{"--verbose=true"}, []string{"because: "}, []string{requests, headers}},
		{[]string{"-v=6"}, []string{requests, `status="401 Unauthorized" milliseconds=`}, []string{headers}},
		{[]string{"--v=6"}, []string{requests}, []string{headers}},
		{[]string{"-v6"}, []string{requests}, []string{headers}},
		{[]string{"-v", "6"}, []string{requests}, []string{headers}},
		{[]string{"-v=8"}, []string{`verb="GET" url="` + server.URL, headers, "Bearer <masked>", "characters, left out"}, []string{"sunken"}},
		{[]string{"-v=10"}, []string{"curl -v", "characters, left out"}, []string{"sunken"}},
	} {
		t.Run(strings.Join(tc.flags, " "), func(t *testing.T) {
			log := standardError(t, func() {
				run(ctx, append([]string{"move", "status", "--server", server.URL, "--token", "opensesame", "--insecure-skip-tls-verify"}, tc.flags...))
			})
			for _, want := range tc.has {
				assert.Contains(t, log, want, "it")
			}
			for _, no := range append(tc.lack, "opensesame") {
				assert.NotContainsf(t, log, no, "it has %q", no)
			}
		})
	}
	for _, wrong := range []string{"11", "-1", "loud"} {
		log := standardError(t, func() { run(ctx, []string{"move", "status", "-v=" + wrong}) })
		assert.Containsf(t, log, "want a level from 0 to 10", "with -v=%s", wrong)
	}
}

// standardError returns what is written there meanwhile.
func standardError(t *testing.T, do func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	var log bytes.Buffer
	read := make(chan error, 1)
	go func() { _, err := io.Copy(&log, r); read <- err }()
	before := os.Stderr
	os.Stderr = w
	do()
	os.Stderr = before
	w.Close()
	require.NoError(t, <-read)
	return log.String()
}
