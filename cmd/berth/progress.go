package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// Work that takes longer than this is worth a word.
const progressDelay = time.Second

// startProgress shows on a terminal that the command is still working, and for how long, once it has taken a second. It
// returns the function that ends that and clears the line. Where w is not a terminal it says nothing.
func startProgress(w io.Writer, what string) (stop func()) {
	return startLive(w, func(taken time.Duration) string {
		return fmt.Sprintf("%s … %ds", cut(escape.Line(what), columnsOf(w)), int(taken.Seconds()))
	})
}

// startLive is like startProgress, for a line that says more than that.
func startLive(w io.Writer, say func(taken time.Duration) string) (stop func()) {
	if !isTerminal(w) {
		return func() {}
	}
	file := fileOf(w)
	ended, cleared := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(cleared)
		showProgress(file, say, time.Now(), ended)
	}()
	return sync.OnceFunc(func() {
		close(ended)
		<-cleared
	})
}

// cut shortens a text so that it fits into a line of the terminal with the time: a wrapped line could not be cleared.
func cut(what string, columns int) string {
	const time = len("… 9999s") // of which the ellipsis is three bytes, and one column
	if said := []rune(what); columns > time && len(said) > columns-time {
		return string(said[:columns-time])
	}
	return what
}

// showProgress says each second how far work is that has begun, until it has ended.
func showProgress(w io.Writer, say func(taken time.Duration) string, begin time.Time, ended <-chan struct{}) {
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
			fmt.Fprintf(w, "\r\x1b[K%s", say(now.Sub(begin)))
		}
	}
}
