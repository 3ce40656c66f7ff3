// Package session runs test support in a program that is no test, such as a demonstration that simulates a cloud: a session
// takes the place of the test.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Run calls do with a session in the place of a test, and then the functions given to Cleanup, the last one first. It
// returns the failure that do reported with Error, Fatal or Skip. Its log goes to log.
func Run(ctx context.Context, name string, log io.Writer, do func(t testing.TB)) error {
	ctx, cancel := context.WithCancel(ctx)
	s := &session{name: name, log: log, ctx: ctx}
	s.call(func() { do(s) })
	cancel()
	for {
		cleanup := s.lastCleanup()
		if cleanup == nil {
			return errors.Join(s.errs...)
		}
		s.call(cleanup)
	}
}

// session has the methods of testing.TB that test support calls. The others are missing: they panic.
type session struct {
	testing.TB
	name string
	log  io.Writer
	ctx  context.Context

	mu       sync.Mutex
	cleanups []func()
	errs     []error
}

// call calls do in a goroutine, which Fatal and Skip end.
func (s *session) call(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
}

func (s *session) lastCleanup() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cleanups) == 0 {
		return nil
	}
	last := len(s.cleanups) - 1
	cleanup := s.cleanups[last]
	s.cleanups = slices.Delete(s.cleanups, last, last+1)
	return cleanup
}

func (s *session) report(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, errors.New(strings.TrimSuffix(text, "\n")))
}

func (s *session) Cleanup(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanups = append(s.cleanups, do)
}

func (s *session) Failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.errs) > 0
}

func (s *session) TempDir() string {
	folder, err := os.MkdirTemp("", "session-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			s.Error(err)
		}
	})
	return folder
}

func (s *session) Context() context.Context       { return s.ctx }
func (s *session) Name() string                   { return s.name }
func (s *session) Helper()                        {}
func (s *session) Log(args ...any)                { fmt.Fprintln(s.log, args...) }
func (s *session) Logf(format string, a ...any)   { fmt.Fprintf(s.log, format+"\n", a...) }
func (s *session) Error(args ...any)              { s.report(fmt.Sprintln(args...)) }
func (s *session) Errorf(format string, a ...any) { s.report(fmt.Sprintf(format, a...)) }
func (s *session) FailNow()                       { runtime.Goexit() }
func (s *session) Fatal(args ...any)              { s.Error(args...); s.FailNow() }
func (s *session) Fatalf(format string, a ...any) { s.Errorf(format, a...); s.FailNow() }
func (s *session) Skip(args ...any)               { s.Fatal(args...) }
func (s *session) Skipf(format string, a ...any)  { s.Fatalf(format, a...) }
