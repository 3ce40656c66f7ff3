package machine

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLackingCapabilities: root in a container without privileges is told what it lacks.
func TestLackingCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has capabilities to lose: run this as root")
	}
	if lacking := lackingCapabilities(); len(lacking) > 0 {
		t.Skipf("this container lacks them already: %q", lacking)
	}
	lacking := make(chan []string)
	go func() {
		runtime.LockOSThread() // without an unlock: the thread ends with the goroutine, and nothing else runs on it
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			t.Error(err)
		}
		lacking <- lackingCapabilities()
	}()
	if got, want := <-lacking, []string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_MKNOD", "CAP_SYS_CHROOT"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMissingSaysWhatToInstall: the reason for a skipped test names the package.
func TestMissingSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := Missing(); err == nil || !strings.Contains(err.Error(), "apt-get install runc") {
		t.Errorf("without runc: got %v, want what to install", err)
	}
}
