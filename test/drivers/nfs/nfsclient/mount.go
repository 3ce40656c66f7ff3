package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/test/drivers/nfs/wire"
)

// Exit codes of mount programs, of mount(8).
const (
	exitUsage   = 1
	exitFailure = 32
)

// failure is how mount.nfs ends without a mount.
type failure struct {
	message string
	code    int
}

// Times of connections.
const (
	dialLimit    = 10 * time.Second
	retryPause   = time.Second
	defaultRetry = 2 * time.Minute // mount.nfs retries in the foreground for so long
)

// mount is mount.nfs and mount.nfs4. The messages are those of nfs-utils 2.6.
func mount(program string, args []string) *failure {
	r, err := parse(program, args)
	if err != nil {
		return err
	}
	if info, err := os.Stat(r.target); err != nil {
		return &failure{fmt.Sprintf("mount point %s does not exist", r.target), exitFailure}
	} else if !info.IsDir() {
		return &failure{fmt.Sprintf("mount point %s is not a directory", r.target), exitFailure}
	}
	if r.fake {
		return nil
	}
	address, lookupErr := net.DefaultResolver.LookupHost(context.Background(), r.server)
	if lookupErr != nil {
		return &failure{fmt.Sprintf("Failed to resolve server %s: Name or service not known", r.server), exitFailure}
	}
	return r.describe(r.attach(address[0]))
}

// describe returns what mount.nfs prints for an error of the system call, and its exit code.
func (r request) describe(err error) *failure {
	if err == nil {
		return nil
	}
	errno := syscall.EIO
	errors.As(err, &errno)
	message := err.Error() // more than the real one says
	switch errno {
	case syscall.EACCES:
		message = "access denied by server while mounting " + r.spec
	case syscall.EINVAL:
		message = "an incorrect mount option was specified"
	case syscall.EPROTONOSUPPORT, syscall.EOPNOTSUPP:
		message = "requested NFS version or transport protocol is not supported"
	case syscall.ENOENT:
		message = fmt.Sprintf("mounting %s failed, reason given by server: No such file or directory", r.spec)
	case syscall.EBUSY:
		message = r.target + " is busy or already mounted"
	case syscall.ECONNREFUSED:
		message = "Connection refused"
	case syscall.ETIMEDOUT:
		message = "Connection timed out"
	case syscall.ECONNRESET:
		message = "Connection reset by peer"
	case syscall.EHOSTUNREACH:
		message = "No route to host"
	case syscall.ENETUNREACH:
		message = "Network is unreachable"
	case syscall.ESTALE:
		message = "Stale file handle"
	}
	return &failure{message, exitFailure}
}

// retried are the errors after which mount.nfs tries again in a while.
var retried = []error{syscall.ESTALE, syscall.ETIMEDOUT, syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.EAGAIN}

// attach mounts, and tries again until the time for that is over.
func (r request) attach(address string) error {
	for began := time.Now(); ; time.Sleep(retryPause) {
		err := r.try(address)
		if err == nil || time.Since(began) > r.retry {
			return err
		}
		again := false
		for _, e := range retried {
			again = again || errors.Is(err, e)
		}
		if !again {
			return err
		}
	}
}

func (r request) try(address string) error {
	ticket, err := r.ask(address)
	if err != nil {
		return err
	}
	tree, err := redeem(ticket)
	if err != nil {
		return fmt.Errorf("%w (no server of package nfs serves this node's network: %w)", syscall.EIO, err)
	}
	defer unix.Close(tree)
	if r.attributes != 0 {
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: r.attributes}); err != nil {
			return err
		}
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, r.target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// ask asks the server for a ticket.
func (r request) ask(address string) (wire.Ticket, error) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(address, strconv.Itoa(r.port)), dialLimit)
	if timeout := (net.Error)(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return "", syscall.ETIMEDOUT
	}
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(wire.Greeting{Mount: &wire.Mount{Path: r.path, Version: r.version}}); err != nil {
		return "", err
	}
	var answer wire.Answer
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		return "", fmt.Errorf("%w: %w", syscall.ECONNRESET, err)
	}
	if answer.Error != 0 {
		return "", answer.Error
	}
	return answer.Ticket, nil
}

// redeem returns the descriptor of a mount that is nowhere yet.
func redeem(ticket wire.Ticket) (int, error) {
	conn, err := net.Dial("unix", wire.Socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(ticket)); err != nil {
		return 0, err
	}
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("got %d control messages, want one: %w", len(messages), err)
	}
	descriptors, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(descriptors) != 1 {
		return 0, fmt.Errorf("got %d descriptors, want one: %w", len(descriptors), err)
	}
	return descriptors[0], nil
}

// usage is how mount.nfs explains its arguments.
const usage = "usage: %s remotetarget dir [-rvVwfnsh] [-o nfsoptions]"

// separate splits "server:/path". An IPv6 address is in brackets.
func separate(spec string) (server, path string, ok bool) {
	if rest, bracketed := strings.CutPrefix(spec, "["); bracketed {
		return strings.Cut(rest, "]:")
	}
	return strings.Cut(spec, ":")
}
