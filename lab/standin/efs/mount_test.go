package efs

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/berth-csi/berth/lab/folders"
	"github.com/berth-csi/berth/lab/nfs"
)

// TestMountOptions: the options that mount.efs and mount.nfs4 refuse.
func TestMountOptions(t *testing.T) {
	for options, want := range map[string]string{
		"tls":                                "",
		"tls,iam":                            "",
		"tls,accesspoint=" + point:           "",
		"tls,hard,timeo=600,nfsvers=4.1":     "",
		"accesspoint=" + point:               `The "tls" option is required when mounting via "accesspoint"`,
		"tls,accesspoint=fsap-0123":          "Access Point ID fsap-0123 is malformed",
		"iam":                                `The "tls" option is required when mounting via "iam"`,
		"tls,port=2049":                      `The "port" and "tls" options are mutually exclusive`,
		"tls,notls":                          "mutually exclusive",
		"tls,awsprofile=a":                   `The "iam" option is required`,
		"tls,capath=/a":                      `Unsupported mount options detected: "capath"`,
		"tls,colour":                         "an incorrect mount option was specified",
		"tls,nfsvers=5":                      "an incorrect mount option was specified",
		"crossaccount,mounttargetip=1.2.3.4": "incompatible with crossaccount",
	} {
		_, settings, err := separate(strings.Split(options, ","))
		if err == nil {
			err = checkOptions(settings)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}

// TestHosts: the names of mount targets.
func TestHosts(t *testing.T) {
	for region, zones := range map[string]map[string]string{
		"sea-west-1": {"": "fs-1.efs.sea-west-1.amazonaws.com", "sea-west-1a": "sea-west-1a.fs-1.efs.sea-west-1.amazonaws.com"},
		"cn-north-1": {"": "fs-1.efs.cn-north-1.amazonaws.com.cn"},
	} {
		for zone, want := range zones {
			if got, err := (mounter{place{region: region}}).hostOf(t.Context(), "fs-1", map[string]string{"az": zone}); got != want || err != nil {
				t.Errorf("in zone %q of %s: %s, %v; want %s", zone, region, got, err, want)
			}
		}
	}
}

// alone gives the test its own thread with its own mount namespace and, with CLONE_NEWNET, network namespace.
func alone(t *testing.T, namespaces int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	runtime.LockOSThread() // and never unlock it
	require.NoError(t, unix.Unshare(namespaces))
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	if namespaces&unix.CLONE_NEWNET == 0 {
		return
	}
	loopback, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(loopback)
	}
	require.NoError(t, err)
}

// TestMount: the server of the file system sees the same certificate as from mount.efs, and its refusal becomes
// mount(8)'s output.
func TestMount(t *testing.T) {
	alone(t, unix.CLONE_NEWNS|unix.CLONE_NEWNET)
	files := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(files, "greeting"), []byte("ahoy"), 0o600))
	var asked []nfs.Request
	server := nfs.New(func(r nfs.Request) (string, error) {
		asked = append(asked, r)
		if r.AccessPoint != point {
			return "", syscall.EACCES
		}
		return files, nil
	})
	for _, at := range []struct{ network, address string }{{"tcp", "127.0.0.1:2049"}, {"unix", nfs.Socket}} {
		listener, err := net.Listen(at.network, at.address)
		require.NoError(t, err)
		defer listener.Close()
		if at.network == "tcp" {
			server.ServeClients(listener)
		} else {
			server.ServeNode(listener)
		}
	}
	m, target := mounter{place{region: "sea-west-1"}}, t.TempDir()
	require.NoError(t, m.mount(t.Context(), source{"fs-01234567", "/", []string{"mounttargetip=127.0.0.1", "accesspoint=" + point, "tls", "ro"}}, target))
	if mounted, err := folders.IsMounted(target); !mounted || err != nil {
		t.Errorf("%s counts as mounted: %v, %v", target, mounted, err)
	}
	if text, err := os.ReadFile(filepath.Join(target, "greeting")); string(text) != "ahoy" || err != nil {
		t.Errorf("it has %q, %v", text, err)
	}
	assert.Error(t, os.WriteFile(filepath.Join(target, "answer"), nil, 0o600), "it can be written, although it is read-only")
	require.NoError(t, folders.Unmount(target))
	want := nfs.Request{Path: "/", Version: "4.1", Host: "fs-01234567.efs.sea-west-1.amazonaws.com", FileSystem: "fs-01234567", AccessPoint: point}
	if len(asked) != 1 || asked[0] != want {
		t.Errorf("the server was asked for %+v, want %+v", asked, want)
	}
	err := m.mount(t.Context(), source{"fs-01234567", "/a", []string{"mounttargetip=127.0.0.1", "tls"}}, target)
	if want := "mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t efs -o mounttargetip=127.0.0.1,tls fs-01234567:/a " + target +
		"\nOutput: b'mount.nfs4: access denied by server while mounting 127.0.0.1:/a'\n"; err == nil || err.Error() != want {
		t.Errorf("without the access point:\n%v\nwant\n%s", err, want)
	}
}
