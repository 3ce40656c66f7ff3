// Command diskid is the programs scsi_id and google_nvme_id, for images of the GCP PD driver. The name it is started
// with selects the program. The driver asks them for the name of a device's disk.
//
// The disks of test machines are loop devices, which answer no SCSI commands. Package disks gives each of them the name
// of the disk as the name of its file. Machines have no NVMe disks.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func main() {
	name := filepath.Base(os.Args[0])
	answer, err := identify(name, os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	fmt.Println(answer)
}

func identify(name string, args []string) (string, error) {
	if name != "scsi_id" {
		return "", fmt.Errorf("%q is no NVMe disk", args)
	}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.String("page", "", "the page of the vital product data")
	flags.Bool("whitelisted", false, "ask devices that no configuration lists")
	device := flags.String("device", "", "the device")
	if err := flags.Parse(args); err != nil {
		return "", err
	}
	disk, err := nameOf(*device)
	return "0Google  PersistentDisk  " + disk, err
}

// nameOf returns the name of the disk that a loop device is.
func nameOf(device string) (string, error) {
	file, err := os.Open(device)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := unix.IoctlLoopGetStatus64(int(file.Fd()))
	if err != nil {
		return "", fmt.Errorf("identify %s: %w", device, err)
	}
	name, _, _ := bytes.Cut(info.File_name[:], []byte{0})
	if len(name) == 0 {
		return "", errors.New(device + " is no disk of the cloud")
	}
	return string(name), nil
}
