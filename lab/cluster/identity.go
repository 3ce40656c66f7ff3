package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// processIdentity identifies a process, even if its id is reused.
type processIdentity struct {
	PID int `json:"pid"`
	// Started is its start time in clock ticks since boot.
	Started uint64 `json:"started"`
}

func selfIdentity() (processIdentity, error) {
	started, err := startTime(os.Getpid())
	return processIdentity{PID: os.Getpid(), Started: started}, err
}

// alive reports whether the process still runs.
func (p processIdentity) alive() bool {
	started, err := startTime(p.PID)
	return err == nil && started == p.Started
}

// terminate sends SIGTERM to a process and waits until it has ended. It may have ended before.
func (p processIdentity) terminate(ctx context.Context) error {
	// The descriptor keeps referring to this process, even if its id is reused.
	descriptor, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", p.PID, err)
	}
	defer unix.Close(descriptor)
	if !p.alive() {
		return nil // the id has been reused
	}
	if err := unix.PidfdSendSignal(descriptor, unix.SIGTERM, nil, 0); err != nil {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return Until(ctx, fmt.Sprintf("process %d to end", p.PID), func(context.Context) error {
		poll := []unix.PollFd{{Fd: int32(descriptor), Events: unix.POLLIN}}
		if n, err := unix.Poll(poll, 0); n == 0 || err != nil {
			return errors.Join(err, errors.New("it still runs"))
		}
		return nil
	})
}

// startTime returns the start time of a process in clock ticks since boot: field 22 of its stat. It fails if the
// process does not exist or is a zombie.
func startTime(pid int) (uint64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the program's name in parentheses, which may contain any character.
	text := string(content)
	fromThird := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fromThird) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat: expected at least 22 fields, found %q", pid, text)
	}
	if state := fromThird[0]; state == "Z" {
		return 0, fmt.Errorf("process %d ended: %w", pid, os.ErrNotExist)
	}
	return strconv.ParseUint(fromThird[22-3], 10, 64)
}
