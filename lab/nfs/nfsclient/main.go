// Command nfsclient is the programs mount.nfs, mount.nfs4 and efs-proxy, for images of drivers. The name it is started
// with selects the program.
//
// Test machines have no NFS client in their kernels, and efs-proxy is written in Rust and cannot be built there. Ours take the same
// command lines, fail with the same messages and exit codes, and mount as package client does.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	name := filepath.Base(os.Args[0])
	if name == "efs-proxy" {
		fmt.Fprintln(os.Stderr, "Error:", proxy(os.Args[1:]))
		os.Exit(1)
	}
	if err := mount(name, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, name+": "+strings.TrimSpace(err.message))
		os.Exit(err.code)
	}
}
