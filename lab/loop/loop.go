// Package loop attaches files as block devices, as root.
package loop

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Attach returns an open loop device that has the content of a file. The device reports name as the name of its file; name may be empty,
// and has fewer than 64 bytes. Flags are the kernel's, such as unix.LO_FLAGS_AUTOCLEAR for a device that detaches itself when nobody has
// it open.
func Attach(content *os.File, name string, flags uint32) (*os.File, error) {
	info := unix.LoopInfo64{Flags: flags}
	if len(name) >= len(info.File_name) {
		return nil, fmt.Errorf("the name %q has %d bytes, want less than %d", name, len(name), len(info.File_name))
	}
	copy(info.File_name[:], name)
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := &unix.LoopConfig{Fd: uint32(content.Fd()), Info: info}
		if err = unix.IoctlLoopConfigure(int(device.Fd()), config); err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) { // somebody else was quicker
			return nil, fmt.Errorf("configure %s: %w", device.Name(), err)
		}
	}
}
