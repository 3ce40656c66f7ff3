// Package progress prints the progress of a program for a user at a terminal: one line for each stage, with the time
// since the start.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// quietInterval is the interval between lines about a running stage where lines cannot be overwritten.
const quietInterval = 15 * time.Second

// Printer prints one line for each stage. On a terminal it keeps updating the line of the running stage; elsewhere it
// prints further lines now and then.
type Printer struct {
	out  io.Writer
	live bool
	tick time.Duration

	mu     sync.Mutex
	began  time.Time
	what   string
	detail string
}

// New returns a progress printer for a program that was started at a time.
func New(out *os.File, began time.Time) *Printer {
	p := &Printer{out: out, live: term.IsTerminal(int(out.Fd())), tick: quietInterval, began: began}
	if p.live {
		p.tick = 200 * time.Millisecond
	}
	return p
}

// Stage runs a stage and prints its line: the title and the result.
func (p *Printer) Stage(what string, do func() (string, error)) error {
	p.set(what, "")
	done := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() { p.show(done) })
	result, err := do()
	close(done)
	shown.Wait()
	if err != nil {
		p.line("✗", what, "failed")
		return err
	}
	p.line("✔", what, result)
	return nil
}

// Progress sets the progress of the running stage.
func (p *Printer) Progress(of tools.Progress) {
	detail := of.Phase
	switch {
	case of.Total > 0:
		detail += fmt.Sprintf(" %d of at most %d", of.Done, of.Total) // packages in the cache are not built
	case of.Done > 0:
		detail += fmt.Sprintf(" %d", of.Done)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.detail = detail
}

func (p *Printer) set(what, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what, p.detail = what, detail
}

// show keeps printing the running stage until it is done.
func (p *Printer) show(done <-chan struct{}) {
	ticker := time.NewTicker(p.tick)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			if p.live {
				fmt.Fprint(p.out, "\r\033[K")
			}
			return
		case <-ticker.C:
			p.mu.Lock()
			what, detail := p.what, p.detail
			p.mu.Unlock()
			if p.live {
				fmt.Fprint(p.out, "\r\033[K")
				fmt.Fprint(p.out, p.text("◎", what, detail))
			} else {
				p.line("◎", what, detail)
			}
		}
	}
}

func (p *Printer) line(mark, what, detail string) { fmt.Fprintln(p.out, p.text(mark, what, detail)) }

func (p *Printer) text(mark, what, detail string) string {
	return fmt.Sprintf("%7.1fs %s %-38s %s", time.Since(p.began).Seconds(), mark, what, detail)
}
