// Package loop attaches files as block devices, as root.
package loop

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Attach returns an open loop device that has the content of a file. Flags are those of the kernel, such as
// unix.LO_FLAGS_AUTOCLEAR for a device that detaches itself when nobody has it open.
func Attach(content *os.File, flags uint32) (*os.File, error) {
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
		config := &unix.LoopConfig{Fd: uint32(content.Fd()), Info: unix.LoopInfo64{Flags: flags}}
		if err = unix.IoctlLoopConfigure(int(device.Fd()), config); err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) { // somebody else was quicker
			return nil, fmt.Errorf("configure %s: %w", device.Name(), err)
		}
	}
}
