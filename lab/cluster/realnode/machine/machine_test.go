package machine

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
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
		assert.NoError(t, unix.Capset(&header, &none[0]))
		lacking <- lackingCapabilities()
	}()
	assert.Equal(t, []string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_MKNOD", "CAP_SYS_CHROOT"}, <-lacking)
}

// TestMissingSaysWhatToInstall: the reason for a skipped test names the package.
func TestMissingSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	assert.ErrorContains(t, Missing(), "apt-get install runc", "without runc")
}
