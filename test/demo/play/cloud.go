package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/test/cluster"
	"github.com/berth-csi/berth/test/cluster/realnode"
	"github.com/berth-csi/berth/test/cluster/tools"
	"github.com/berth-csi/berth/test/drivers/nfs"
	"github.com/berth-csi/berth/test/drivers/programs"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// buildDriver builds what it takes to run the driver: nodes with containers, and the images of the driver and its
// sidecars. Where that is impossible, the result of the stage says why, and the driver's pods are only reported as running.
func (s *demo) buildDriver(ctx context.Context) error {
	return s.printer.Stage("driver, sidecars, nodes", func() (string, error) {
		if err := realnode.Missing(); err != nil {
			return "only reported as running, not run: " + err.Error(), nil
		}
		archives, err := testbed.Archives(ctx, s.printer.Progress, s.driver, nil)
		if errors.Is(err, programs.ErrNoSource) {
			return "only reported as running, not run: " + err.Error(), nil
		}
		if err != nil {
			return "", err
		}
		for _, build := range []func() error{
			func() error { _, err := tools.Kubelet(ctx, s.printer.Progress); return err },
			func() error { _, err := tools.Containerd(ctx, s.printer.Progress); return err },
		} {
			if err := build(); err != nil {
				return "", err
			}
		}
		s.archives = archives
		return "built", nil
	})
}

const (
	region = "us-east-1" // as the Infrastructure says
	zone   = region + "a"
	// mountTarget is the address of the file system, and mountTargetName its name.
	mountTarget     = "10.0.80.1"
	mountTargetName = ".efs." + region + ".amazonaws.com"
)

// ready is what a cloud prints when it serves its cluster.
const ready = "ready"

// startCloud starts a process that is the cloud of the nodes, and ends with the cluster. It does nothing if there is one.
func (s *demo) startCloud(ctx context.Context) (string, error) {
	log, err := os.Create(s.path("cloud.log"))
	if err != nil {
		return "", err
	}
	defer log.Close()
	cmd := exec.Command(s.program("play"), "cloud", time.Now().Format(time.RFC3339Nano))
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt from the keyboard is not for it
	output, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { output.Close() })
	lines := bufio.NewScanner(output)
	if !lines.Scan() || lines.Text() != ready {
		said, _ := os.ReadFile(log.Name())
		return "", errors.Join(ctx.Err(), fmt.Errorf("it has not started: %s", said))
	}
	return "serves the files of " + access.FileSystemID + " to the nodes, in place of AWS", nil
}

// runCloud is the cloud of the main job's cluster, until that ends.
func runCloud(ctx context.Context, s *demo) error {
	lock, err := os.Create(s.path("cloud.lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		fmt.Println(ready) // another process is the cloud
		return nil
	} else if err != nil {
		return err
	}
	if s.cluster, err = cluster.Find(clusterFolder(s.folder)); err != nil {
		return err
	}
	files := nfs.New(s.export)
	surroundings, err := testbed.Surround(ctx, s.cluster, testbed.Cloud{
		NFS: files, Names: map[string]string{access.FileSystemID + mountTargetName: mountTarget},
	}, func(err error) { fmt.Fprintln(os.Stderr, err) })
	if err != nil {
		return err
	}
	defer surroundings.Close()
	for _, node := range testbed.Nodes {
		if err := s.describeNode(ctx, node); err != nil {
			return err
		}
		listener, err := s.cluster.ListenOn(node, "tcp", mountTarget+":2049")
		if err != nil {
			return err
		}
		defer listener.Close()
		files.ServeClients(listener)
	}
	fmt.Println(ready)
	return s.awaitEnd(ctx)
}

// export returns the folder with the files of the access point.
func (s *demo) export(r nfs.Request) (string, error) {
	if r.FileSystem != access.FileSystemID || r.AccessPoint != access.AccessPointID || r.Path != "/" {
		return "", syscall.EACCES
	}
	folder := s.path("files", r.AccessPoint)
	return folder, os.MkdirAll(folder, 0o755)
}

// describeNode says of a node what AWS's cloud controller would: the driver needs it where no instance says it.
func (s *demo) describeNode(ctx context.Context, name string) error {
	node := &corev1.Node{}
	if err := s.cluster.Client().Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return err
	}
	before := node.DeepCopy()
	node.Spec.ProviderID = "aws:///" + zone + "/i-0123456789abcdef0"
	node.Labels[corev1.LabelTopologyRegion], node.Labels[corev1.LabelTopologyZone] = region, zone
	node.Labels[corev1.LabelInstanceTypeStable] = "m5.large"
	return s.cluster.Client().Patch(ctx, node, client.MergeFrom(before))
}

// awaitEnd waits until the cluster is gone.
func (s *demo) awaitEnd(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
		if _, err := cluster.Find(clusterFolder(s.folder)); errors.Is(err, cluster.ErrNotRunning) {
			return nil
		}
	}
}
