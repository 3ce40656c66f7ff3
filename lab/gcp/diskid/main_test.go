package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/lab/loop"
)

func TestIdentify(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make loop devices")
	}
	const name = "pvc-0fc2f3d0-9d3a-4f53-b6a9-5f9c4a6b1f35"
	named, unnamed := attach(t, name), attach(t, "")
	for _, test := range []struct {
		program, argument, want, problem string
	}{
		{program: "scsi_id", argument: "--device=" + named, want: "0Google  PersistentDisk  " + name},
		{program: "scsi_id", argument: "--device=" + unnamed, problem: "is no disk of the cloud"},
		{program: "scsi_id", argument: "--device=/dev/null", problem: "identify /dev/null"},
		{program: "google_nvme_id", argument: "-d" + named, problem: "is no NVMe disk"},
	} {
		got, err := identify(test.program, []string{"--page=0x83", "--whitelisted", test.argument})
		if test.problem != "" {
			assert.ErrorContainsf(t, err, test.problem, "%s %s: error", test.program, test.argument)
		} else if err != nil || got != test.want {
			t.Errorf("%s %s: got %q, error %v; want %q", test.program, test.argument, got, err, test.want)
		}
	}
}

// attach returns the path of a loop device until the test ends.
func attach(t *testing.T, name string) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "disk")
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Truncate(1<<20))
	device, err := loop.Attach(file, name, unix.LO_FLAGS_AUTOCLEAR)
	require.NoError(t, err)
	t.Cleanup(func() { device.Close() })
	return device.Name()
}
