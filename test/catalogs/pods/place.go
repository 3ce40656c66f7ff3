package pods

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// port is where servers of catalogs listen.
const port = "50051"

// place is where the container of a catalog runs: its network, and its control group.
type place struct {
	network  *os.File
	group    string
	second   bool // control groups of the second version
	answered time.Duration
}

// enter finds where a process runs, by its folder in /proc, and waits until it answers.
func enter(ctx context.Context, process string) (_ *place, err error) {
	p := &place{}
	if p.group, p.second, err = groupOf(process); err != nil {
		return nil, err
	}
	began, err := startOf(process)
	if err != nil {
		return nil, err
	}
	if p.network, err = os.Open(filepath.Join(process, "ns", "net")); err != nil {
		return nil, err
	}
	for {
		connection, err := p.dial(ctx, 0)
		if err == nil {
			p.answered = time.Since(began)
			return p, connection.Close()
		}
		if _, gone := os.Stat(process); gone != nil || ctx.Err() != nil {
			return nil, errors.Join(err, gone, ctx.Err(), p.network.Close())
		}
		time.Sleep(5 * time.Millisecond) // nothing reports that another process listens
	}
}

func (p *place) close() { _ = p.network.Close() }

// groupOf returns the folder of the control group that counts the memory of a process.
func groupOf(process string) (folder string, second bool, err error) {
	text, err := os.ReadFile(filepath.Join(process, "cgroup"))
	if err != nil {
		return "", false, err
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && strings.Contains(","+parts[1]+",", ",memory,") {
			return "/sys/fs/cgroup/memory" + parts[2], false, nil
		}
		if len(parts) == 3 && parts[1] == "" {
			folder = "/sys/fs/cgroup" + parts[2]
		}
	}
	return folder, true, nil
}

// startOf returns when a process started.
func startOf(process string) (time.Time, error) {
	text, err := os.ReadFile(filepath.Join(process, "stat"))
	if err != nil {
		return time.Time{}, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	const startTime, ticksPerSecond = 19, 100 // proc_pid_stat(5), without the first two fields
	if len(fields) <= startTime {
		return time.Time{}, fmt.Errorf("%s/stat is %q", process, text)
	}
	ticks, err := strconv.ParseInt(fields[startTime], 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(time.Duration(ticks)*time.Second/ticksPerSecond - time.Duration(now.Nano())), nil
}

// dial connects to the server from inside its network, from another address for each client.
func (p *place) dial(ctx context.Context, client int) (connection net.Conn, err error) {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer own.Close()
	if err := unix.Setns(int(p.network.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+client))}, Timeout: 10 * time.Second}
	connection, err = dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		return nil, errors.Join(err, back) // the thread stays locked, and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return connection, err
}

// memory is a control group's unreclaimable memory, in bytes.
type memory struct{ anonymous, kernel int64 }

func (m memory) mebibytes() float64 { return float64(m.anonymous+m.kernel) / (1 << 20) }

func (m memory) String() string {
	return fmt.Sprintf("%.1f+%.1f", float64(m.anonymous)/(1<<20), float64(m.kernel)/(1<<20))
}

var (
	anonymousIn = map[bool]*regexp.Regexp{true: regexp.MustCompile(`(?m)^anon (\d+)$`), false: regexp.MustCompile(`(?m)^total_rss (\d+)$`)}
	kernelIn    = regexp.MustCompile(`(?m)^kernel (\d+)$`)
)

// now returns the control group's current memory.
func (p *place) now() (m memory) {
	stat, _ := os.ReadFile(filepath.Join(p.group, "memory.stat"))
	number := func(pattern *regexp.Regexp, text []byte) (n int64) {
		if found := pattern.FindSubmatch(text); found != nil {
			n, _ = strconv.ParseInt(string(found[1]), 10, 64)
		}
		return n
	}
	m.anonymous = number(anonymousIn[p.second], stat)
	if p.second {
		m.kernel = number(kernelIn, stat)
		return m
	}
	text, _ := os.ReadFile(filepath.Join(p.group, "memory.kmem.usage_in_bytes"))
	m.kernel, _ = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return m
}

// watch samples the memory until the returned function is called. That function returns the highest sample.
func (p *place) watch() (stop func() memory) {
	var most memory
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			if now := p.now(); now.mebibytes() > most.mebibytes() {
				most = now
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() memory {
		close(done)
		group.Wait()
		return most
	}
}
