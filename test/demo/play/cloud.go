package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/lab/aws/ec2"
	"github.com/berth-csi/berth/lab/aws/metadata"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/realnode/machine"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/nfs"
	"github.com/berth-csi/berth/test/community"
	"github.com/berth-csi/berth/test/drivers/testbed"
)

// buildDriver prepares running the driver: nodes with containers, and the images of the driver and its sidecars. aliases maps the
// repositories of other operators' images to the driver's. Where the driver cannot run, the result of the stage says why, and the
// driver's pods are only reported as running.
func (s *demo) buildDriver(ctx context.Context, aliases map[string]string) error {
	return s.printer.Stage("driver, sidecars, nodes", func() (string, error) {
		if err := machine.Missing(); err != nil {
			return "only reported as running, not run: " + err.Error(), nil
		}
		var archives map[string]string
		building, ctx := errgroup.WithContext(ctx) // an image waits for packages of Debian, and the nodes for the compiler
		building.Go(func() (err error) {
			archives, err = testbed.Archives(ctx, s.printer.Progress, s.driver, nil)
			return err
		})
		building.Go(func() error {
			if _, err := tools.Kubelet(ctx, s.printer.Progress); err != nil {
				return err
			}
			_, err := tools.Containerd(ctx, s.printer.Progress)
			return err
		})
		err := building.Wait()
		if err != nil {
			return "", err
		}
		for alias, of := range aliases {
			archives[alias] = archives[of]
		}
		s.archives = archives
		return "built", nil
	})
}

// place is where the cluster is, as its Infrastructure says.
var place = metadata.Place{Partition: "aws", Region: "us-east-1", ZoneID: "use1-az1", Account: "111122223333"}

// mountTargets are the addresses of the demonstrations' file systems.
var mountTargets = map[string]string{access.FileSystemID: "10.0.80.1", community.FileSystem: "10.0.80.2"}

const (
	// metadataAddress is the only address that programs on AWS's instances know without being told.
	metadataAddress = "169.254.169.254:80"
	// ready is printed by a cloud when it serves its cluster.
	ready = "ready"
	// cloudOf is the prefix of the argument that starts a demonstration's cloud.
	cloudOf = "cloud-of-"
)

// startCloud starts a process that is the cloud of the nodes, and ends with the cluster. It does nothing if one runs.
func (s *demo) startCloud(ctx context.Context) (string, error) {
	return "serves file systems and metadata to the nodes, in place of AWS", s.startCloudProcess(ctx)
}

// startCloudProcess starts a process that is the cloud of the nodes, and waits until the process is ready or has ended.
func (s *demo) startCloudProcess(ctx context.Context) error {
	log, err := os.Create(s.path("cloud.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.program("play"), cloudOf+s.name, time.Now().Format(time.RFC3339Nano))
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt from the keyboard is not for it
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	lines := bufio.NewScanner(output)
	if !lines.Scan() || lines.Text() != ready {
		_ = cmd.Wait()
		said, _ := os.ReadFile(log.Name())
		return errors.Join(ctx.Err(), fmt.Errorf("it has not started: %s", said))
	}
	return nil
}

// runCloud runs the cloud of a demonstration's cluster until the cluster ends.
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
	names := map[string]string{}
	for fileSystem, address := range mountTargets {
		names[fileSystem+".efs."+place.Region+".amazonaws.com"] = address
	}
	surroundings, err := testbed.Surround(ctx, s.cluster, testbed.Cloud{NFS: files, Names: names},
		func(err error) { fmt.Fprintln(os.Stderr, err) })
	if err != nil {
		return err
	}
	defer surroundings.Close()
	for i, node := range testbed.Nodes {
		for _, address := range mountTargets {
			listener, err := s.cluster.ListenOn(node, "tcp", address+":2049")
			if err != nil {
				return err
			}
			defer listener.Close()
			files.ServeClients(listener)
		}
		listener, err := s.cluster.ListenOn(node, "tcp", metadataAddress)
		if err != nil {
			return err
		}
		defer listener.Close()
		go func() { _ = http.Serve(listener, metadata.New(instance(i), place)) }() // until the listener is closed
	}
	fmt.Println(ready)
	return s.awaitEnd(ctx)
}

// instance returns the virtual machine of a node.
func instance(node int) ec2.Instance {
	return ec2.Instance{
		ID: fmt.Sprintf("i-0123456789abcdef%d", node), Type: "m5.large", Zone: place.Region + "a", MAC: fmt.Sprintf("0e:00:00:00:00:0%d", node),
	}
}

// export returns the folder with the files of an access point.
func (s *demo) export(r nfs.Request) (string, error) {
	if mountTargets[r.FileSystem] == "" || !accessPoint.MatchString(r.AccessPoint) || r.Path != "/" {
		return "", syscall.EACCES
	}
	folder := s.path("files", r.FileSystem, r.AccessPoint)
	return folder, os.MkdirAll(folder, 0o755)
}

// accessPoint matches IDs of access points.
var accessPoint = regexp.MustCompile(`^fsap-[0-9a-f]{17}$`)

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
