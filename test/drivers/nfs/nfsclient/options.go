package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// request is a command line of mount.nfs.
type request struct {
	spec, server, path, target string
	fake                       bool

	port    int
	version string
	retry   time.Duration
	// attributes are those of the mount, such as unix.MOUNT_ATTR_RDONLY.
	attributes uint64
}

// attributes are the options that the kernel applies to a mount of any file system.
var attributes = map[string]uint64{
	"ro": unix.MOUNT_ATTR_RDONLY, "nosuid": unix.MOUNT_ATTR_NOSUID, "nodev": unix.MOUNT_ATTR_NODEV, "noexec": unix.MOUNT_ATTR_NOEXEC,
	"noatime": unix.MOUNT_ATTR_NOATIME, "nodiratime": unix.MOUNT_ATTR_NODIRATIME,
}

// flags and values are the options of nfs(5) that change nothing here. Values is of those that have one.
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

// versions are those of the NFS protocol that the kernel has.
var versions = []string{"3", "4", "4.0", "4.1", "4.2"}

// parse reads a command line, as mount(8) or mount.efs gives it: remote target, folder, and options anywhere after it.
func parse(program string, args []string) (request, *failure) {
	r := request{port: 2049, version: "4.2", retry: defaultRetry}
	var positional []string
	options := ""
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; arg {
		case "-o", "-t", "-N":
			i++
			if i == len(args) {
				return r, &failure{fmt.Sprintf("option requires an argument -- '%s'\n"+usage, arg[1:], program), exitUsage}
			}
			if arg == "-o" {
				options += "," + args[i]
			}
		case "-r":
			options += ",ro"
		case "-f":
			r.fake = true
		case "-w", "-v", "-n", "-s":
		default:
			if strings.HasPrefix(arg, "-") {
				return r, &failure{fmt.Sprintf("invalid option -- '%s'\n"+usage, arg[1:], program), exitUsage}
			}
			positional = append(positional, arg)
		}
	}
	if len(positional) != 2 {
		return r, &failure{fmt.Sprintf("no mount point provided\n"+usage, program), exitUsage}
	}
	r.spec, r.target = positional[0], positional[1]
	var ok bool
	if r.server, r.path, ok = separate(r.spec); !ok || r.server == "" {
		return r, &failure{"remote share not in 'host:dir' format", exitUsage}
	}
	for option := range strings.SplitSeq(options, ",") {
		if option == "" {
			continue
		}
		if !r.apply(option) {
			return r, &failure{"an incorrect mount option was specified", exitFailure}
		}
	}
	return r, nil
}

// apply applies an option, and returns whether the kernel knows it.
func (r *request) apply(option string) bool {
	name, value, hasValue := strings.Cut(option, "=")
	number, notNumber := strconv.Atoi(value)
	switch {
	case !hasValue:
		r.attributes |= attributes[name]
		return attributes[name] != 0 || slices.Contains(flags, name)
	case name == "port":
		r.port = number
		return notNumber == nil && number > 0 && number < 1<<16
	case name == "vers" || name == "nfsvers":
		r.version = value
		return slices.Contains(versions, value)
	case name == "minorversion":
		r.version = "4." + value
		return slices.Contains(versions, r.version)
	case name == "retry":
		r.retry = time.Duration(number) * time.Minute
		return notNumber == nil && number >= 0
	}
	return value != "" && slices.Contains(values, name)
}
