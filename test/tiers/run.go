package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berth-csi/berth/test/trials"
)

// lanes is how many jobs run at a time: a long one, whose clusters leave a processor idle for a fifth of the time, and batches, which compile
// and run. With more clusters at once, two processors are busy with switching between control planes: three jobs at a time took tests of
// operator twice the processor time.
const lanes = 2

// limit is the time limit of a job.
const limit = 75 * time.Minute

// flags returns the flags for compiling the tests of a tier. make lint vets, and nobody needs symbols.
func flags(tier string) []string {
	if tier == race {
		return []string{"-race", "-vet=off"}
	}
	return []string{"-vet=off", "-ldflags=-s"}
}

// report holds the tests' outcomes.
type report struct {
	mu                      sync.Mutex
	began                   time.Time
	passed, failed, skipped int
	broken                  []string // packages that failed without a test that did
	failures                []string
	reasons                 map[string]string // of failures
	packages                []timed
	outputs                 map[string][]string
	slowestTests            map[string]timed
	failedIn                map[string]int
	counted                 map[string]int
	ran                     map[string]bool // tests, by package and name
	weight, done            float64
	// processor is how many seconds of processor time each job has taken, with linking and all that its tests have started.
	processor []timed
}

// timed is a package or a test, and how long it took, in seconds.
type timed struct {
	name    string
	seconds float64
}

func newReport(jobs []job) *report {
	r := &report{began: time.Now(), outputs: map[string][]string{}, reasons: map[string]string{}, slowestTests: map[string]timed{}, failedIn: map[string]int{}, counted: map[string]int{}, ran: map[string]bool{}}
	for _, j := range jobs {
		r.weight += j.weight
	}
	return r
}

// runAll runs jobs, prints a line for each package that has ended, and writes the events to a file.
func runAll(ctx context.Context, tier string, jobs []job, file string) (*report, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	events, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	defer events.Close()
	r := newReport(jobs)
	long, short := queue(jobs, job.isSinglePackage), queue(jobs, job.isBatch)
	var workers sync.WaitGroup
	work := func(queues ...<-chan job) {
		workers.Go(func() {
			for _, q := range queues {
				for j := range q {
					r.run(ctx, tier, j, events)
				}
			}
		})
	}
	work(long, short)
	work(short, long)
	workers.Wait()
	return r, events.Close()
}

// queue returns the jobs of a kind, in their order.
func queue(jobs []job, kind func(job) bool) <-chan job {
	q := make(chan job, len(jobs))
	for _, j := range jobs {
		if kind(j) {
			q <- j
		}
	}
	close(q)
	return q
}

// run runs one job.
func (r *report) run(ctx context.Context, tier string, j job, events io.Writer) {
	if ctx.Err() != nil {
		return
	}
	args := slices.Concat([]string{"test", "-json", "-p", "1", "-timeout", limit.String()}, flags(tier))
	if j.run != "" {
		args = append(args, "-run", j.run)
	}
	if j.skip != "" {
		args = append(args, "-skip", j.skip)
	}
	args = slices.Concat(args, j.paths(), j.options)
	command := exec.CommandContext(ctx, "go", args...)
	// go test waits for the tests' programs, which a signal to it alone does not reach.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGINT) }
	command.Stderr = os.Stderr
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if tier == race { // the detector is written in C
		command.Env = append(command.Env, "CGO_ENABLED=1")
	}
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err == nil {
		err = trials.Each(io.TeeReader(out, &locked{r: r, to: events}), func(event trials.Event) { r.add(event, j) })
		_, _ = io.Copy(io.Discard, out)
		waited := command.Wait()
		r.took(j, command.ProcessState.UserTime()+command.ProcessState.SystemTime())
		if err == nil && waited != nil && !r.failedAny(j) {
			err = waited
		}
		r.misses(j)
	}
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.broken = append(r.broken, fmt.Sprintf("go %s: %v", strings.Join(args, " "), err))
	}
}

// misses notes the tests that a job names and has not run.
func (r *report) misses(j job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range j.named {
		if key := j.packages[0] + " " + name; !r.ran[key] && r.failedIn[j.packages[0]] == 0 {
			r.broken = append(r.broken, key+" is not there: see splits.go")
		}
	}
}

// took notes the processor time of a job.
func (r *report) took(j job, processor time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := j.packages[0]
	if more := len(j.packages) - 1; more > 0 {
		name += fmt.Sprintf(" and %d more", more)
	}
	r.processor = append(r.processor, timed{name, processor.Seconds()})
}

// locked writes the lines of several jobs to one file. It writes only whole lines at a time.
type locked struct {
	r    *report
	to   io.Writer
	rest []byte
}

func (l *locked) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	end := strings.LastIndexByte(string(l.rest), '\n') + 1
	if end == 0 {
		return len(p), nil
	}
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	_, err := l.to.Write(l.rest[:end])
	l.rest = slices.Clone(l.rest[end:])
	return len(p), err
}

func (r *report) failedAny(j job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(j.packages, func(p string) bool { return r.failedIn[p] > 0 })
}

// add takes an event of go test.
func (r *report) add(event trials.Event, j job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := event.Package + " " + event.Test
	switch event.Action {
	case "output":
		r.outputs[key] = append(r.outputs[key], event.Output)
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	if event.Test == "" {
		r.ended(event, j)
		delete(r.outputs, key)
		return
	}
	r.counted[event.Package]++
	// A part of a test's name may have slashes: TestAdoption/ebs names TestAdoption/ebs/ours, too.
	for name := key; ; {
		r.ran[name] = true
		end := strings.LastIndexByte(name, '/')
		if end < len(event.Package) {
			break
		}
		name = name[:end]
	}
	switch event.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
	case "fail":
		r.failed++
		r.failedIn[event.Package]++
		r.failures = append(r.failures, key)
		r.reasons[key] = reasons(r.outputs[key])
		fmt.Printf("\n✗ %s\n%s\n", key, strings.Join(r.outputs[key], ""))
	}
	delete(r.outputs, key)
	if longest := r.slowestTests[event.Package]; !strings.Contains(event.Test, "/") && event.Elapsed > longest.seconds {
		r.slowestTests[event.Package] = timed{event.Test, event.Elapsed}
	}
}

// ended prints the line of a package.
func (r *report) ended(event trials.Event, j job) {
	if event.Action == "skip" && r.counted[event.Package] == 0 {
		return
	}
	mark := "✔"
	if event.Action == "fail" {
		mark = "✗"
		if r.failedIn[event.Package] == 0 { // it did not compile, or a program ended
			fmt.Print(strings.Join(r.outputs[event.Package+" "], ""))
			r.broken = append(r.broken, event.Package)
			r.failedIn[event.Package]++
		}
	}
	r.packages = append(r.packages, timed{event.Package, event.Elapsed})
	r.done += j.weight / float64(len(j.packages))
	since := time.Since(r.began)
	fmt.Printf("%7s %3.0f%% %s %-34s %5d tests %7.1f s%s\n", since.Round(time.Second), 100*r.done/r.weight, mark, event.Package, r.counted[event.Package], event.Elapsed, r.left(since))
}

// left says about how long the rest takes, once a tenth is done.
func (r *report) left(since time.Duration) string {
	part := r.done / r.weight
	if part < 0.1 || part > 0.98 {
		return ""
	}
	rest := time.Duration(float64(since) * (1 - part) / part)
	return fmt.Sprintf("   about %s left", rest.Round(10*time.Second))
}

// listed is how many packages slowest names.
const listed = 12

// slowest names the packages that took longest with their slowest test, and the jobs that took most processor time.
func (r *report) slowest() string {
	longestFirst := func(a, b timed) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), strings.Compare(a.name, b.name))
	}
	slices.SortFunc(r.packages, longestFirst)
	slices.SortFunc(r.processor, longestFirst)
	var text strings.Builder
	text.WriteString("\nThe slowest packages:\n")
	for _, p := range r.packages[:min(listed, len(r.packages))] {
		test := r.slowestTests[p.name]
		fmt.Fprintf(&text, "  %6.1f s  %-28s of which %.1f s %s\n", p.seconds, p.name, test.seconds, test.name)
	}
	all := 0.0
	for _, j := range r.processor {
		all += j.seconds
	}
	fmt.Fprintf(&text, "\nProcessor time, %.0f minutes in all:\n", all/60)
	for _, j := range r.processor[:min(listed, len(r.processor))] {
		fmt.Fprintf(&text, "  %6.1f s  %s\n", j.seconds, j.name)
	}
	return text.String()
}

// Lines that a test has printed itself, by testing.T, and lines that anything has.
var (
	ofTest = regexp.MustCompile(`^ +[\w-]+_test\.go:\d+: `)
	ofAny  = regexp.MustCompile(`^ *([\w-]+\.go:\d+: |---|===)`)
)

// mostReasons is how many lines of a failed test are repeated at the end.
const mostReasons = 20

// reasons returns the last lines that a test itself printed. The logs of its clusters follow them, and may be long.
func reasons(output []string) string {
	var lines []string
	own := false
	for _, line := range output {
		if ofAny.MatchString(line) {
			own = ofTest.MatchString(line)
		}
		if own {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-mostReasons):], "")
}

// complaint lists the failures, with their reasons.
func (r *report) complaint() string {
	slices.Sort(r.failures)
	var text strings.Builder
	fmt.Fprintf(&text, "%d tests failed:", r.failed)
	for _, name := range slices.Concat(r.failures, r.broken) {
		fmt.Fprintf(&text, "\n  %s", name)
		if reason := strings.TrimRight(r.reasons[name], "\n"); reason != "" {
			fmt.Fprintf(&text, "\n%s", reason)
		}
	}
	return text.String()
}
