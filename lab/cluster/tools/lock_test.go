package tools

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSlot(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	take := func(ctx context.Context, waiting func()) func() {
		t.Helper()
		release, err := Slot(ctx, "test", 2, waiting)
		require.NoError(t, err)
		return release
	}
	mustNotWait := func() { t.Error("it waits, although a slot is free") }
	first, second := take(t.Context(), mustNotWait), take(t.Context(), mustNotWait)
	defer first()

	ended := errors.New("ended")
	ctx, end := context.WithCancelCause(t.Context())
	release, err := Slot(ctx, "test", 2, func() { end(ended) })
	if !errors.Is(err, ended) || release != nil {
		t.Fatalf("both slots are taken, and the context has ended: error %v; want %v", err, ended)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waited := false
	third := take(ctx, func() {
		waited = true
		second()
	})
	third()
	assert.True(t, waited, "a third slot was free; want that it waits for the second")
}
