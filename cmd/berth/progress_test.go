package main

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// noticed is a writer that tells when something has been written.
type noticed struct {
	bytes.Buffer
	written chan struct{}
}

func (s *noticed) Write(data []byte) (int, error) {
	defer func() { s.written <- struct{}{} }()
	return s.Buffer.Write(data)
}

// TestProgress waits for the first word about work that takes long, and ends the work then.
func TestProgress(t *testing.T) {
	w := &noticed{written: make(chan struct{}, 10)}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		showProgress(w, func(taken time.Duration) string { return fmt.Sprintf("reading … %ds", int(taken.Seconds())) }, time.Now().Add(-time.Minute), ended)
	}()
	<-w.written
	close(ended)
	<-done
	assert.Regexp(t, `^(\r\x1b\[Kreading … 6\ds)+\r\x1b\[K$`, w.String())
}

// TestNoProgress makes sure that short work, and work without a terminal, is silent.
func TestNoProgress(t *testing.T) {
	w := &noticed{written: make(chan struct{}, 10)}
	ended := make(chan struct{})
	close(ended)
	showProgress(w, func(time.Duration) string { return "reading" }, time.Now(), ended)
	startProgress(w, "reading")()
	assert.Zerof(t, w.Len(), "it says %q", w.String())
}

// TestProgressFits makes sure that a line is never longer than the terminal is wide.
func TestProgressFits(t *testing.T) {
	for _, test := range []struct {
		what    string
		columns int
		want    string
	}{
		{"reading", 80, "reading"},
		{"waiting for a Deployment", 21, "waiting for "},
		{"für immer", 13, "für "},
		{"reading", 3, "reading"}, // no terminal is that narrow
	} {
		if got := cut(test.what, test.columns); got != test.want {
			t.Errorf("cut(%q, %d) is %q, want %q", test.what, test.columns, got, test.want)
		}
	}
}
