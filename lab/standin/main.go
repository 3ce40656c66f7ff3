// Command standin stands in for programs whose modules cannot be built here: it serves the CSI in their place. The name it is started
// with selects the program.
//
// It takes the command line of the real program and nothing else, reads the same variables and files, refuses the same
// mistakes in them, and serves the CSI in the same way: the same name, capabilities, modes and parameters. It makes the
// real one's requests to the API server. Volumes are folders, see packages folders and backend: nothing is formatted,
// and no cloud is called.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/berth-csi/berth/lab/standin/efs"
)

// program is a real program.
type program struct {
	// flags are the flags of its command line, with their defaults. klog adds klog's flags, and logging the flags of
	// Kubernetes' logging.
	flags         map[string]any
	klog, logging bool
	// saysVersion says that the program itself answers --version.
	saysVersion bool
	// run runs the program with the values of its flags.
	run func(context.Context, *flag.FlagSet) error
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	name := ownName()
	err := start(ctx, name, os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		log.Fatalf("%s (a stand-in): %v", name, err)
	}
}

// ownName returns the name of the program to stand in for: the first known one among the name it was started with, the
// target of that link, and its file's name, which only /proc knows.
func ownName() string {
	started := os.Args[0]
	linked, _ := filepath.EvalSymlinks(started) // fails where PATH has led here
	file, _ := os.Executable()                  // fails without /proc
	for _, path := range []string{started, linked, file} {
		if _, known := programs[filepath.Base(path)]; known {
			return filepath.Base(path)
		}
	}
	return filepath.Base(started)
}

// start runs the program of a name.
func start(ctx context.Context, name string, args []string) error {
	p, ok := programs[name]
	if !ok {
		var names []string
		for name := range programs {
			names = append(names, name)
		}
		slices.Sort(names)
		return fmt.Errorf("this stands in for no such program, only for %s", strings.Join(names, ", "))
	}
	flags, err := p.parse(name, args)
	if err != nil {
		return err
	}
	if flags.Lookup("version") != nil && valueOf[bool](flags, "version") && !p.saysVersion {
		fmt.Println("Driver Version: stand-in")
		return nil
	}
	return p.run(ctx, flags)
}

// programs are the programs that this stands in for, by the names of their files.
var programs = map[string]program{
	"aws-efs-csi-driver-" + efs.V2.Number: {flags: efsFlags, klog: true, saysVersion: true, run: efsDriver(efs.V2)},
	"aws-efs-csi-driver-" + efs.V3.Number: {flags: laterEFSFlags, klog: true, saysVersion: true, run: efsDriver(efs.V3)},
	"csi-node-driver-registrar":           {flags: registrarFlags, logging: true, run: registrar},
	"livenessprobe":                       {flags: livenessProbeFlags, logging: true, run: livenessProbe},
	"nfsplugin":                           {flags: nfsFlags, klog: true, run: nfsPlugin},
	"azurediskplugin":                     {flags: azureDiskFlags, klog: true, run: azureDisk},
	"azurefileplugin":                     {flags: azureFileFlags, klog: true, run: azureFile},
	"azure-config-credentials-injector":   {flags: injectorFlags, klog: true, run: injectAzureCredentials},
	"vsphere-csi":                         {flags: vSphereFlags, run: vSphere},
	"vsphere-syncer":                      {flags: vSphereSyncerFlags, run: vSphereSyncer},
}
