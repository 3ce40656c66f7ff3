package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestInherited: a cluster's programs do not get the user's variables about CI systems and proxies.
func TestInherited(t *testing.T) {
	got := inherited([]string{"HOME=/home/me", "CI=true", "HTTP_PROXY=http://p:1", "https_proxy=http://p:1", "No_Proxy=*", "all_proxy=socks5://p:1", "CIRCUS=1", "EMPTY="})
	assert.Equal(t, []string{"HOME=/home/me", "CIRCUS=1", "EMPTY="}, got)
}

// TestProcessesYield: control planes give way to others, unless they are measured.
func TestProcessesYield(t *testing.T) {
	for name, tc := range map[string]struct {
		yields, limited bool
		policy          uint32
	}{
		"beside others": {true, true, unix.SCHED_BATCH},
		"measured":      {false, false, unix.SCHED_NORMAL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOMAXPROCS", "") // or the test inherits it
			require.NoError(t, os.Unsetenv("GOMAXPROCS"))
			cmd, err := newProcesses(t.TempDir(), tc.yields).start(program{name: "sleep", path: "/bin/sleep", args: []string{"1h"}})
			require.NoError(t, err)
			t.Cleanup(func() {
				assert.NoError(t, cmd.Process.Kill())
				_ = cmd.Wait() // it was killed
			})
			got, err := unix.SchedGetAttr(cmd.Process.Pid, 0)
			require.NoError(t, err)
			assert.EqualValues(t, tc.policy, got.Policy, "the program has scheduling policy")
			var environment []byte
			Eventually(t, waitLimit, "the kernel to have set up the program", func(context.Context) error {
				// The program counts as started a moment before it has an environment.
				if environment, err = os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid)); err == nil && len(environment) == 0 {
					err = errors.New("it has no environment yet")
				}
				return err
			})
			assert.Equal(t, tc.limited, bytes.Contains(environment, []byte("GOMAXPROCS=1\x00")), "the program may use one processor only")
		})
	}
}
