// Package process finds running programs, and reads the kernel's counters for them.
package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNone is returned if no process runs a program.
var ErrNone = errors.New("there is no such process")

// A Process is a running program.
type Process struct{ folder string }

// Of returns the process with an ID.
func Of(id int) Process { return Process{fmt.Sprintf("/proc/%d", id)} }

// In returns the process with a folder in some /proc, such as the /proc of a node that has its own PID namespace.
func In(folder string) Process { return Process{folder} }

// Find returns a process that runs the program at a path, with argument among its arguments unless argument is "". It returns ErrNone if
// there is none.
func Find(program, argument string) (Process, error) {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return Process{}, err
	}
	for _, link := range links {
		if path, err := os.Readlink(link); err != nil || path != program {
			continue // it runs another program, belongs to another user, or has ended
		}
		p := Process{filepath.Dir(link)}
		arguments, err := os.ReadFile(filepath.Join(p.folder, "cmdline"))
		if err != nil {
			continue // gone
		}
		if argument == "" || slices.Contains(strings.Split(string(arguments), "\x00"), argument) {
			return p, nil
		}
	}
	return Process{}, fmt.Errorf("%s %s: %w", program, argument, ErrNone)
}

// Memory returns the resident memory of the process and its maximum so far, in MiB.
func (p Process) Memory() (now, peak float64, err error) {
	in, err := p.status()
	return in["VmRSS:"], in["VmHWM:"], err
}

// Anonymous returns the process's memory that is not backed by a file, in MiB. It leaves out the program and its
// libraries: how much of them is resident does not depend on what the process does.
func (p Process) Anonymous() (now float64, err error) {
	in, err := p.status()
	return in["RssAnon:"], err
}

// status returns the kernel's counters of the process's memory, in MiB.
func (p Process) status() (in map[string]float64, err error) {
	status, err := os.ReadFile(filepath.Join(p.folder, "status"))
	if err != nil {
		return nil, err
	}
	in = map[string]float64{}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "kB" {
			kibibytes, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				return nil, err
			}
			in[fields[0]] = kibibytes / 1024
		}
	}
	if in["VmRSS:"] == 0 || in["VmHWM:"] == 0 {
		return nil, fmt.Errorf("%s/status has no VmRSS or VmHWM", p.folder) // it has just ended
	}
	return in, nil
}

// Worked returns the CPU time of the process, in ticks of 10 ms.
func (p Process) Worked() (ticks int, err error) {
	stat, err := os.ReadFile(filepath.Join(p.folder, "stat"))
	if err != nil {
		return 0, err
	}
	// The third field follows the program's name, which may contain anything. The CPU times are fields 14 and 15.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, field := range fields[14-3 : 16-3] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return ticks, nil
}
