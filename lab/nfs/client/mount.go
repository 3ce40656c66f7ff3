// Package client mounts exports of the server of package nfs. In images of drivers it replaces the kernel's NFS client,
// which test machines lack. A mount becomes a bind mount of a folder that the server chooses. So writers are not mapped
// to the user of an access point, and a mount keeps working if its server or its tunnel ends.
package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/lab/nfs/wire"
)

// Mount is a mount of an export.
type Mount struct {
	// Address is the address of the server, without its port.
	Address, Path string
	// Tunnel is sent to the server of an EFS file system. It is nil if the connection already leads through a tunnel, or
	// if there is no tunnel.
	Tunnel *wire.Tunnel
	Options
}

// Times of connections.
const (
	dialLimit  = 10 * time.Second
	retryPause = time.Second
)

// retried are the errors after which mount.nfs tries again in a while.
var retried = []error{syscall.ESTALE, syscall.ETIMEDOUT, syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.EAGAIN}

// Attach mounts the export at a folder, and retries until a time limit. The error is the syscall.Errno that the kernel's client would fail
// with.
func (m Mount) Attach(target string) error {
	for began := time.Now(); ; time.Sleep(retryPause) {
		err := m.try(target)
		if err == nil || time.Since(began) > m.Retry {
			return err
		}
		if !slices.ContainsFunc(retried, func(e error) bool { return errors.Is(err, e) }) {
			return err
		}
	}
}

func (m Mount) try(target string) error {
	ticket, err := m.ask()
	if err != nil {
		return err
	}
	tree, err := redeem(ticket)
	if err != nil {
		return fmt.Errorf("%w (no server of package nfs serves this node's network: %w)", syscall.EIO, err)
	}
	defer unix.Close(tree)
	if m.Attributes != 0 {
		if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: m.Attributes}); err != nil {
			return err
		}
	}
	return unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// ask asks the server for a ticket.
func (m Mount) ask() (wire.Ticket, error) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(m.Address, strconv.Itoa(m.Port)), dialLimit)
	if timeout := (net.Error)(nil); errors.As(err, &timeout) && timeout.Timeout() {
		return "", syscall.ETIMEDOUT
	}
	if err != nil {
		return "", err
	}
	defer conn.Close()
	objects := json.NewEncoder(conn)
	if m.Tunnel != nil {
		if err := objects.Encode(wire.Greeting{Tunnel: m.Tunnel}); err != nil {
			return "", err
		}
	}
	if err := objects.Encode(wire.Greeting{Mount: &wire.Mount{Path: m.Path, Version: m.Version}}); err != nil {
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

// redeem returns the descriptor of a mount that is not attached to a folder yet.
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
	// Until the server has closed its own descriptor of the mount and then the connection, the mount is busy: nobody could
	// unmount it.
	if _, err := io.Copy(io.Discard, conn); err != nil {
		unix.Close(descriptors[0])
		return 0, err
	}
	return descriptors[0], nil
}

// Explain returns the message of mount.nfs of nfs-utils 2.6 for an error of Attach. spec is the mount source, such as
// "server:/path".
func Explain(err error, spec, target string) string {
	errno := syscall.EIO
	errors.As(err, &errno)
	switch errno {
	case syscall.EACCES:
		return "access denied by server while mounting " + spec
	case syscall.EINVAL:
		return "an incorrect mount option was specified"
	case syscall.EPROTONOSUPPORT, syscall.EOPNOTSUPP:
		return "requested NFS version or transport protocol is not supported"
	case syscall.ENOENT:
		return fmt.Sprintf("mounting %s failed, reason given by server: No such file or directory", spec)
	case syscall.EBUSY:
		return target + " is busy or already mounted"
	case syscall.ECONNREFUSED:
		return "Connection refused"
	case syscall.ETIMEDOUT:
		return "Connection timed out"
	case syscall.ECONNRESET:
		return "Connection reset by peer"
	case syscall.EHOSTUNREACH:
		return "No route to host"
	case syscall.ENETUNREACH:
		return "Network is unreachable"
	case syscall.ESTALE:
		return "Stale file handle"
	}
	return err.Error() // more than the real one says
}
