package session_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/berth-csi/berth/lab/session"
)

func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(testing.TB)
		want  string
		steps []string
	}{
		"nothing":               {func(testing.TB) {}, "", []string{"second", "first"}},
		"errors":                {func(tb testing.TB) { tb.Errorf("no %s", "wind"); tb.Error("no", "crew") }, "no wind\nno crew", []string{"second", "first"}},
		"a fatal error":         {func(tb testing.TB) { tb.Fatal("sunk"); tb.Error("afloat") }, "sunk", []string{"second", "first"}},
		"a skipped check":       {func(tb testing.TB) { tb.Skipf("no %s", "port"); tb.Error("afloat") }, "no port", []string{"second", "first"}},
		"an error of a cleanup": {func(tb testing.TB) { tb.Cleanup(func() { tb.Fatal("leak") }) }, "leak", []string{"second", "first"}},
	} {
		t.Run(name, func(t *testing.T) {
			var steps []string
			err := session.Run(t.Context(), "voyage", t.Output(), func(tb testing.TB) {
				tb.Cleanup(func() { steps = append(steps, "first") })
				tb.Cleanup(func() { steps = append(steps, "second") })
				c.do(tb)
			})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.want || !slices.Equal(steps, c.steps) {
				t.Errorf("got the error %q and the cleanups %q, want %q and %q", got, steps, c.want, c.steps)
			}
		})
	}
}

// TestSessionEnds: a session's context ends with the program's, and before its cleanups; its temporary folder is
// removed.
func TestSessionEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var log strings.Builder
	folder := ""
	err := session.Run(ctx, "voyage", &log, func(tb testing.TB) {
		folder = tb.TempDir()
		tb.Cleanup(func() {
			if _, err := os.Stat(folder); err != nil || tb.Context().Err() == nil {
				tb.Errorf("in a cleanup, the folder is there: %v, and the context has ended: %v", err, tb.Context().Err())
			}
		})
		tb.Logf("%s begins", tb.Name())
		cancel()
		<-tb.Context().Done()
	})
	if _, missing := os.Stat(folder); err != nil || !errors.Is(missing, os.ErrNotExist) || log.String() != "voyage begins\n" {
		t.Errorf("got the error %v, the folder afterwards: %v, and the log %q", err, missing, log.String())
	}
}
