package client

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options are the options of a mount that make a difference here.
type Options struct {
	Port    int
	Version string
	// Retry is how long a mount that fails is tried again.
	Retry time.Duration
	// Attributes are the attributes of the mount, such as unix.MOUNT_ATTR_RDONLY.
	Attributes uint64
}

// Defaults returns the options of a mount that names none. It is tried for two minutes, as mount.nfs tries in the foreground.
func Defaults() Options { return Options{Port: 2049, Version: "4.2", Retry: 2 * time.Minute} }

// attributes are the options that the kernel applies to a mount of any file system.
var attributes = map[string]uint64{
	"ro": unix.MOUNT_ATTR_RDONLY, "nosuid": unix.MOUNT_ATTR_NOSUID, "nodev": unix.MOUNT_ATTR_NODEV, "noexec": unix.MOUNT_ATTR_NOEXEC,
	"noatime": unix.MOUNT_ATTR_NOATIME, "nodiratime": unix.MOUNT_ATTR_NODIRATIME,
}

// flags and values are the options of nfs(5) that have no effect here, without and with a value.
var (
	flags = []string{
		"rw", "suid", "dev", "exec", "atime", "diratime", "relatime", "strictatime", "sync", "async", "_netdev", "defaults", "auto", "noauto",
		"soft", "softerr", "hard", "softreval", "nosoftreval", "intr", "nointr", "bg", "fg", "tcp", "udp", "rdma", "ac", "noac", "cto", "nocto", "acl", "noacl",
		"lock", "nolock", "sharecache", "nosharecache", "resvport", "noresvport", "rdirplus", "nordirplus", "fsc", "nofsc", "migration", "nomigration", "posix",
	}
	values = []string{
		"timeo", "retrans", "rsize", "wsize", "bsize", "acregmin", "acregmax", "acdirmin", "acdirmax", "actimeo", "proto", "sec", "lookupcache", "nconnect", "max_connect",
		"clientaddr", "local_lock", "namlen", "mountport", "mountproto", "mounthost", "mountvers", "xprtsec", "write", "rdirplus", "context",
	}
)

// versions are the versions of the NFS protocol that the kernel has.
var versions = []string{"3", "4", "4.0", "4.1", "4.2"}

// Apply applies an option, such as "nfsvers=4.1", and reports whether the kernel knows it.
func (o *Options) Apply(option string) bool {
	name, value, hasValue := strings.Cut(option, "=")
	number, notNumber := strconv.Atoi(value)
	switch {
	case !hasValue:
		o.Attributes |= attributes[name]
		return attributes[name] != 0 || slices.Contains(flags, name)
	case name == "port":
		o.Port = number
		return notNumber == nil && number > 0 && number < 1<<16
	case name == "vers" || name == "nfsvers":
		o.Version = value
		return slices.Contains(versions, value)
	case name == "minorversion":
		o.Version = "4." + value
		return slices.Contains(versions, o.Version)
	case name == "retry":
		o.Retry = time.Duration(number) * time.Minute
		return notNumber == nil && number >= 0
	}
	return value != "" && slices.Contains(values, name)
}
