// Package progress tells a person at a terminal what a program does while it does it: one line for
// each step, with the time since the beginning.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/berth-csi/berth/test/cluster/tools"
)

// quietInterval is how often a running step is heard of where lines cannot be overwritten.
const quietInterval = 15 * time.Second

// Printer prints one line a step. On a terminal the line of the running step is live; elsewhere the
// step is heard of now and then.
type Printer struct {
	out  io.Writer
	live bool
	tick time.Duration

	mu     sync.Mutex
	began  time.Time
	what   string
	detail string
}

// New returns a progress printer of something that began at a time.
func New(out *os.File, began time.Time) *Printer {
	n := &Printer{out: out, live: term.IsTerminal(int(out.Fd())), tick: quietInterval, began: began}
	if n.live {
		n.tick = 200 * time.Millisecond
	}
	return n
}

// Step runs one step and prints its line: what it is about, and how it ended.
func (n *Printer) Step(what string, do func() (string, error)) error {
	n.set(what, "")
	done := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() { n.show(done) })
	result, err := do()
	close(done)
	shown.Wait()
	if err != nil {
		n.line("✗", what, "failed")
		return err
	}
	n.line("✔", what, result)
	return nil
}

// Progress says what the running step is at.
func (n *Printer) Progress(p tools.Progress) {
	detail := p.Phase
	switch {
	case p.Total > 0:
		detail += fmt.Sprintf(" %d/%d", p.Done, p.Total)
	case p.Done > 0:
		detail += fmt.Sprintf(" %d", p.Done)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.detail = detail
}

func (n *Printer) set(what, detail string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.what, n.detail = what, detail
}

// show prints the running step again and again until done.
func (n *Printer) show(done <-chan struct{}) {
	ticker := time.NewTicker(n.tick)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			if n.live {
				fmt.Fprint(n.out, "\r\033[K")
			}
			return
		case <-ticker.C:
			n.mu.Lock()
			what, detail := n.what, n.detail
			n.mu.Unlock()
			if n.live {
				fmt.Fprint(n.out, "\r\033[K")
				fmt.Fprint(n.out, n.text("◎", what, detail))
			} else {
				n.line("◎", what, detail)
			}
		}
	}
}

func (n *Printer) line(mark, what, detail string) { fmt.Fprintln(n.out, n.text(mark, what, detail)) }

func (n *Printer) text(mark, what, detail string) string {
	return fmt.Sprintf("%7.1fs %s %-38s %s", time.Since(n.began).Seconds(), mark, what, detail)
}
