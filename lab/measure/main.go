// Command measure runs a command and prints the time and memory that it took, as JSON on standard output. The command's own
// standard output goes to a file, if one is named, or is dropped.
//
// It is a separate program because the peak memory that Linux reports for a process includes the memory of the process
// that started it. This one is very small.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

// Usage is the time and memory that a command took.
type Usage struct {
	Wall, CPU float64 // in seconds
	PeakRSS   int64   // in bytes
	// PeakAnonymous is the same without mapped files, such as the program itself, in bytes. It is the largest of samples.
	PeakAnonymous int64
	Exit          int
}

func main() {
	to := flag.String("stdout", os.DevNull, "the `file` for what the command prints")
	flag.Parse()
	usage, err := measure(*to, flag.Args())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(usage)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "measure: %v\n", err)
		os.Exit(1)
	}
}

func measure(to string, args []string) (Usage, error) {
	if len(args) == 0 {
		return Usage{}, errors.New("no command")
	}
	stdout, err := os.Create(to)
	if err != nil {
		return Usage{}, err
	}
	defer stdout.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return Usage{}, err
	}
	ended, sampled := make(chan struct{}), make(chan int64)
	go func() { sampled <- peakAnonymous(cmd.Process.Pid, ended) }()
	err = cmd.Wait()
	wall := time.Since(start)
	close(ended)
	anonymous := <-sampled
	if cmd.ProcessState == nil {
		return Usage{}, err // it did not start
	}
	taken := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	return Usage{
		Wall:    wall.Seconds(),
		CPU:     (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(),
		PeakRSS: taken.Maxrss << 10, PeakAnonymous: anonymous,
		Exit: cmd.ProcessState.ExitCode(),
	}, nil
}

// anonymous finds the anonymous memory of a process, in KiB.
var anonymous = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)

// peakAnonymous samples the anonymous memory of a process until it has ended, and returns the most, in bytes.
func peakAnonymous(pid int, ended <-chan struct{}) (most int64) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return most
		case <-tick.C:
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if found := anonymous.FindSubmatch(status); err == nil && found != nil {
				size, _ := strconv.ParseInt(string(found[1]), 10, 64)
				most = max(most, size<<10)
			}
		}
	}
}
