package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/berth-csi/berth/findings/escape"
)

// Work that takes longer than this is worth a word.
const progressDelay = time.Second

// startProgress shows on a terminal that the command is still working, and for how long, once it has taken a second. It
// returns the function that ends that and clears the line. Where w is not a terminal it says nothing.
func startProgress(w io.Writer, what string) (stop func()) {
	if !isTerminal(w) {
		return func() {}
	}
	file := fileOf(w)
	what = escape.Line(what)
	if columns := columnsOf(w); columns > 0 {
		what = cut(what, columns)
	}
	ended, cleared := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(cleared)
		showProgress(file, what, time.Now(), ended)
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-cleared
	})
}

// cut shortens what is said so that a line of a terminal holds it, and the time: a line that goes on in the
// next one could not be cleared.
func cut(what string, columns int) string {
	const time = len("… 9999s") // of which the ellipsis is three bytes, and one column
	if said := []rune(what); columns > time && len(said) > columns-time {
		return string(said[:columns-time])
	}
	return what
}

// showProgress shows how long work has taken since it began, until it has ended.
func showProgress(w io.Writer, what string, begin time.Time, ended <-chan struct{}) {
	tick := time.NewTicker(progressDelay)
	defer tick.Stop()
	for shown := false; ; shown = true {
		select {
		case <-ended:
			if shown {
				fmt.Fprint(w, "\r\x1b[K")
			}
			return
		case now := <-tick.C:
			fmt.Fprintf(w, "\r\x1b[K%s … %ds", what, int(now.Sub(begin).Seconds()))
		}
	}
}
