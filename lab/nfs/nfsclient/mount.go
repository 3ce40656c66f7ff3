package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/berth-csi/berth/lab/nfs/client"
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

// mount is mount.nfs and mount.nfs4. The messages are the same as in nfs-utils 2.6.
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
	r.mount.Address = address[0]
	if err := r.mount.Attach(r.target); err != nil {
		return &failure{client.Explain(err, r.spec, r.target), exitFailure}
	}
	return nil
}

// usage is how mount.nfs explains its arguments.
const usage = "usage: %s remotetarget dir [-rvVwfnsh] [-o nfsoptions]"

// request is a command line of mount.nfs.
type request struct {
	spec, server, target string
	fake                 bool
	mount                client.Mount
}

// parse reads a command line, as mount(8) or mount.efs gives it: remote target, folder, and options anywhere after it.
func parse(program string, args []string) (request, *failure) {
	r := request{mount: client.Mount{Options: client.Defaults()}}
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
	if r.server, r.mount.Path, ok = separate(r.spec); !ok || r.server == "" {
		return r, &failure{"remote share not in 'host:dir' format", exitUsage}
	}
	for option := range strings.SplitSeq(options, ",") {
		if option == "" {
			continue
		}
		if !r.mount.Apply(option) {
			return r, &failure{"an incorrect mount option was specified", exitFailure}
		}
	}
	return r, nil
}

// separate splits "server:/path". An IPv6 address is in brackets.
func separate(spec string) (server, path string, ok bool) {
	if rest, bracketed := strings.CutPrefix(spec, "["); bracketed {
		return strings.Cut(rest, "]:")
	}
	return strings.Cut(spec, ":")
}
