// Package realnode runs real Kubernetes nodes on this machine: a kubelet, containerd and runc, in namespaces of the
// node's own.
//
// A node sees the machine's files below a layer of its own, so that nothing it writes stays, and has its own /dev,
// /proc, /run, /sys, /tmp, /var/lib/kubelet, /var/lib/containerd and /var/log. Its mounts are shared, as on a machine
// with systemd, so that containers can propagate theirs. Its network has no way out: it leads to the other nodes of the
// cluster and their pods, and to the servers that the cluster's options name. See Network.
//
// A process of the machine, the supervisor, is the parent of the node's first process. It ends the node when the
// process that started it ends, even if that is killed, and then removes what the kernel does not: control groups, loop
// devices and files. All else goes with the node's first process, because that is the first one of a PID namespace.
//
// It needs root, control groups of version 1, and the programs of some Debian packages: see machine.Missing.
package realnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Programs are paths of the programs of every node, which package tools builds.
type Programs struct {
	Kubelet string `json:"kubelet"`
	// Containerd is the folder with containerd and its shim.
	Containerd string `json:"containerd"`
	// Pause is the program of the containers that hold pods' namespaces.
	Pause string `json:"pause"`
}

// Options describe a node.
type Options struct {
	// Name is the name of the Node object.
	Name string
	// Dir is the node's folder. It must not exist, and is removed when the node ends.
	Dir string
	// Logs is the folder for the logs of the node's programs.
	Logs     string
	Programs Programs
	// Place is the node's place in the network.
	Place *Place
	// Kubeconfig is the kubelet's. Its server is APIServer.
	Kubeconfig []byte
	// ClientCA is the certificate authority of the kubelet API's clients, as PEM.
	ClientCA []byte
}

// Node is a node that was started.
type Node struct {
	dir        string
	supervisor *exec.Cmd
	life       io.Closer     // the supervisor ends the node when it is closed
	ended      chan struct{} // closed when the supervisor has ended
	err        error         // then set
}

const (
	// inotifyLimit is the kernel's limit of inotify instances of each user.
	inotifyLimit = "/proc/sys/fs/inotify/max_user_instances"
	// inotifyInstances is the limit on OpenShift's nodes. With the kernel's own, 128 for all processes of root together, a
	// kubelet may get none when several clusters run. It continues without, and never sees that a driver wants to register.
	inotifyInstances = 8192
)

// raiseInotifyLimit allows as many inotify instances as OpenShift's nodes do.
func raiseInotifyLimit() error {
	content, err := os.ReadFile(inotifyLimit)
	if err != nil {
		return err
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return fmt.Errorf("%s: %w", inotifyLimit, err)
	}
	if limit >= inotifyInstances {
		return nil
	}
	return os.WriteFile(inotifyLimit, []byte(strconv.Itoa(inotifyInstances)), 0o644)
}

// Start starts a node. It is up when its Node object is Ready.
func Start(options Options) (*Node, error) {
	if err := raiseInotifyLimit(); err != nil {
		return nil, fmt.Errorf("raise the limit of inotify instances: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(options.Dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(options.Dir, 0o755); err != nil {
		return nil, err
	}
	order, err := json.Marshal(system{
		Name: options.Name, Address: options.Place.Address.String(), Dir: options.Dir, Logs: options.Logs, Programs: options.Programs,
		Files: options.files(),
	})
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(options.Logs, options.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{os.Args[0], "(supervisor of node " + options.Name + ")"}
	cmd.Env = append(os.Environ(), supervisorVariable+"="+string(order))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{options.Place.namespace} // networkDescriptor
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor of node %s: %w", options.Name, err)
	}
	n := &Node{dir: options.Dir, supervisor: cmd, life: life, ended: make(chan struct{})}
	go func() {
		if n.err = cmd.Wait(); n.err == nil {
			n.err = errors.New("its supervisor ended")
		}
		Sweep(options.Dir) // if the supervisor was killed
		close(n.ended)
	}()
	return n, nil
}

// Ended is closed when the node is cleaned up. Err then says why it ended.
func (n *Node) Ended() <-chan struct{} { return n.ended }

// Err says why a node has ended by itself.
func (n *Node) Err() error { return n.err }

// Stop ends the node like a machine that loses its power, and waits until it is cleaned up.
func (n *Node) Stop() {
	n.life.Close()
	<-n.ended
}

// Root returns the path of a node's root folder, as the machine sees it. dir is the node's folder.
func Root(dir string) (string, error) {
	first, err := firstProcess(dir)
	return fmt.Sprintf("/proc/%d/root", first), err
}

// firstProcess returns the id of a node's first process.
func firstProcess(dir string) (int, error) {
	content, err := os.ReadFile(filepath.Join(dir, firstProcessFile))
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(string(content))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Join(dir, firstProcessFile), err)
	}
	return pid, nil
}
