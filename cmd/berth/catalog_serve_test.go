package main

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCatalogServe runs the command until it is interrupted, and meanwhile once more on the same port.
func TestCatalogServe(t *testing.T) {
	const dir = "../../catalog/testdata/catalog"
	temp := t.TempDir()
	serve := func(address string) *exec.Cmd {
		cmd := exec.Command("berth", "catalog", "serve", dir, "--address", address)
		cmd.Env = append(os.Environ(), "TMPDIR="+temp)
		return cmd
	}
	server := serve("127.0.0.1:0")
	stderr, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill() }) // for when the test ends early
	lines := bufio.NewScanner(stderr)
	lines.Scan()
	ready := regexp.MustCompile(`^serving ` + dir + ` on (127\.0\.0\.1:\d+)$`).FindStringSubmatch(lines.Text())
	require.NotNilf(t, ready, "it says %q", lines.Text())
	conn, err := net.Dial("tcp", ready[1]) // a client that never says a word must not hold it up
	require.NoError(t, err)
	defer conn.Close()

	second := serve(ready[1])
	var said bytes.Buffer
	second.Stderr = &said
	if err := second.Run(); second.ProcessState.ExitCode() != exitFailed {
		t.Errorf("on a port in use it ends with %v, want exit code %d", err, exitFailed)
	}
	if want := "berth: address " + ready[1] + " is in use by another process; "; !strings.HasPrefix(said.String(), want) {
		t.Errorf("on a port in use it says %q, want %q", said.String(), want)
	}

	require.NoError(t, server.Process.Signal(os.Interrupt))
	for lines.Scan() {
		t.Errorf("it says, too: %s", lines.Text())
	}
	assert.NoError(t, server.Wait(), "interrupted, it ends")
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left, "in the temporary folder")
}
