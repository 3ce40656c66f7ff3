package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// starterVariable makes the test binary a program that starts a cluster and ends in one of several ways.
const starterVariable = "BERTH_TEST_STARTER"

// starterMain plays a role, and never returns. It prints the cluster's folder.
func starterMain(role string) {
	if role != "forgets Init" {
		Init()
	}
	switch role {
	case "forgets Init":
		starterStarts(nil)
	case "panics":
		starterStarts(nil)
		panic("as told")
	case "exits":
		starterStarts(nil)
		os.Exit(3)
	case "waits":
		starterStarts(nil)
		<-make(chan struct{})
	case "waits with a real node":
		c, err := launch(context.Background(), "", Options{RealNodes: 1}, nil)
		if err != nil {
			fmt.Printf("error: %q\n", err) // on one line, with the ends of the logs
			os.Exit(1)
		}
		fmt.Println(c.Dir())
		<-make(chan struct{})
	case "waits while starting":
		starterStarts(func(p tools.Progress) {
			if p.Phase == "starting" { // and not waiting for other clusters: something runs, but there is no client yet
				fmt.Println(p.Detail)
				<-make(chan struct{})
			}
		})
	case "goes up":
		c, err := Up(context.Background(), os.Getenv("DIR"), Options{}, nil)
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		fmt.Println(c.Dir())
		os.Exit(0)
	}
}

func starterStarts(report func(tools.Progress)) {
	c, err := launch(context.Background(), "", Options{}, report)
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(c.Dir())
}

// starterProgram returns the command of such a program, without arguments.
const starterProgram = "/proc/self/exe"

// starter is such a program, running.
type starter struct {
	*exec.Cmd
	printed string // its first line
}

func startStarter(t *testing.T, role string, env ...string) *starter {
	t.Helper()
	cmd := exec.Command(starterProgram)
	cmd.Env = append(append(os.Environ(), starterVariable+"="+role), env...)
	cmd.Stderr = io.Discard
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	s := &starter{Cmd: cmd}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if role == "goes up" {
			return // the test must stop its cluster
		}
		Eventually(t, waitLimit, "the folder of the program's cluster to go", func(context.Context) error {
			if _, err := os.Stat(s.printed); err == nil {
				return fmt.Errorf("%s is still there", s.printed)
			}
			return nil
		})
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoErrorf(t, err, "the program that starts a cluster and %s printed nothing", role)
	s.printed = strings.TrimSpace(line)
	return s
}

// A program without Init gets an error, and does not start itself over and over.
func TestForgottenInit(t *testing.T) {
	assert.Contains(t, startStarter(t, "forgets Init").printed, "call cluster.Init first", "it says what to do")
}

// The error names a program of the cluster that does not start, with the end of its log, and nothing stays.
func TestStartSaysWhatFailed(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	job, err := newAssignment(t.Context(), "", Options{}, func(tools.Progress) {})
	require.NoError(t, err)
	broken := t.TempDir()
	for _, tool := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		require.NoError(t, os.Symlink(job.Tools.Path(tool), filepath.Join(broken, tool)))
	}
	script := "#!/bin/sh\necho no scheduling today >&2\nexit 7\n"
	require.NoError(t, os.WriteFile(filepath.Join(broken, "kube-scheduler"), []byte(script), 0o755))
	job.Tools = tools.Dir(broken)
	keeper, output, err := startKeeper(job)
	require.NoError(t, err)
	_, err = awaitReady(bufio.NewScanner(output), func(tools.Progress) {})
	if err == nil || !strings.Contains(err.Error(), "kube-scheduler") || !strings.Contains(err.Error(), "no scheduling today") {
		t.Errorf("got %v, want an error with the program's name and output", err)
	}
	assert.NoError(t, keeper.end())
	assert.Empty(t, processesOf(t, temp), "still running")
	left, _ := filepath.Glob(filepath.Join(temp, folderPrefix+"*"))
	assert.Empty(t, left)
}

// TestNothingIsLeft: however the program that started a cluster ends, nothing of the cluster stays.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	kill := func(signal syscall.Signal) func(*starter) {
		return func(s *starter) { s.Process.Signal(signal) }
	}
	for _, test := range []struct {
		name, role string
		then       func(*starter)
	}{
		{"panic", "panics", func(*starter) {}},
		{"exit", "exits", func(*starter) {}},
		{"interrupt", "waits", kill(syscall.SIGINT)},
		{"kill", "waits", kill(syscall.SIGKILL)},
		{"kill while it starts", "waits while starting", kill(syscall.SIGKILL)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			temp := t.TempDir() // the cluster's folder is the only thing in it
			s := startStarter(t, test.role, "TMPDIR="+temp)
			dirs, _ := filepath.Glob(filepath.Join(temp, folderPrefix+"*"))
			if test.role != "panics" && test.role != "exits" {
				if len(dirs) != 1 || len(processesOf(t, dirs[0])) == 0 {
					t.Fatalf("expected one cluster that runs in %s, found %q; the program printed %q", temp, dirs, s.printed)
				}
			}
			test.then(s)
			Eventually(t, waitLimit, "the processes to end and the folder to go", func(context.Context) error {
				dirs, err := filepath.Glob(filepath.Join(temp, folderPrefix+"*"))
				if err != nil || len(dirs) > 0 {
					return fmt.Errorf("still there: %q (%v)", dirs, err)
				}
				if left := processesOf(t, temp); len(left) > 0 {
					return fmt.Errorf("still running: %v", left)
				}
				return nil
			})
		})
	}
}

// The processes of a killed keeper are killed, too. The next keeper removes its folder.
func TestKilledKeeper(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	s := startStarter(t, "waits", "TMPDIR="+temp)
	left, err := readState(s.printed)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(left.Keeper.PID, syscall.SIGKILL))
	Eventually(t, waitLimit, "the processes to end", func(context.Context) error {
		if running := processesOf(t, temp); len(running) > 0 {
			return fmt.Errorf("still running: %v", running)
		}
		return nil
	})
	next := startStarter(t, "waits", "TMPDIR="+temp)
	_, err = os.Stat(s.printed)
	assert.ErrorIs(t, err, os.ErrNotExist, "the killed cluster's folder is still there")
	_, err = os.Stat(next.printed)
	assert.NoError(t, err, "the new cluster's folder")
}

// A program of a keeper is restarted when it ends.
func TestProgramsAreStartedAgain(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{})
	before := processesOf(t, c.Dir())
	for pid, name := range before {
		if name == "kube-scheduler" {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	Eventually(t, waitLimit, "another scheduler", func(context.Context) error {
		for pid, name := range processesOf(t, c.Dir()) {
			if name == "kube-scheduler" && before[pid] == "" {
				return nil
			}
		}
		return errors.New("there is none")
	})
}

// A cluster of Up outlives the program that called it, is found, and is stopped.
func TestUpFindStop(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	_, err := Find(dir)
	require.ErrorIs(t, err, ErrNotRunning, "find a cluster before there is one")
	up := startStarter(t, "goes up", "DIR="+dir)
	if err := up.Wait(); err != nil || up.printed != dir {
		t.Fatalf("the program that puts a cluster up in %s: %v; it printed %q", dir, err, up.printed)
	}
	t.Cleanup(func() { Stop(context.Background(), dir) })

	c, err := Find(dir)
	require.NoError(t, err)
	require.NoError(t, c.Client().List(t.Context(), &corev1.NamespaceList{}), "use the cluster after the program that put it up has ended")
	assert.Containsf(t, startStarter(t, "goes up", "DIR="+dir).printed, "is already running", "put up a second cluster in %s: it printed", dir)
	assert.NotContains(t, tailOfFile(filepath.Join(c.Logs(), "keeper.log"), 5), endingNote, "the cluster stops by itself")
	require.NoError(t, Stop(t.Context(), dir))
	assert.Empty(t, processesOf(t, dir), "processes left after the cluster was stopped")
	_, err = os.Stat(dir)
	assert.ErrorIs(t, err, os.ErrNotExist, "the folder is left after the cluster was stopped")
	assert.ErrorIs(t, Stop(t.Context(), dir), ErrNotRunning, "stop it once more")
}

// Only the keeper that created a folder is ever signalled, and no other folder is removed.
func TestOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	bystander := exec.Command("sleep", "1000")
	require.NoError(t, bystander.Start())
	t.Cleanup(func() { bystander.Process.Kill(); bystander.Wait() })
	dir := t.TempDir()
	self, err := selfIdentity()
	require.NoError(t, err)
	// The id of a dead keeper, which another process has now.
	dead := processIdentity{PID: bystander.Process.Pid, Started: self.Started - 1}
	fresh, err := writeTemporary(dir, state{Keeper: dead, Dir: dir, Ready: true})
	require.NoError(t, err)
	require.NoError(t, os.Rename(fresh, filepath.Join(dir, stateName)))
	_, err = Find(dir)
	assert.ErrorIs(t, err, ErrNotRunning, "find a dead cluster")
	assert.NoError(t, Stop(t.Context(), dir), "stop a dead cluster")
	_, err = startTime(bystander.Process.Pid)
	assert.NoError(t, err, "the other process is gone")

	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "thesis.txt"), nil, 0o644))
	assert.Contains(t, startStarter(t, "goes up", "DIR="+full).printed, "is not empty", "put up a cluster in a folder with a file: it printed")
	_, err = os.Stat(filepath.Join(full, "thesis.txt"))
	assert.NoError(t, err)
}

// processesOf returns the names, by id, of the processes with a folder in their arguments or environment, except this
// process and its starters.
func processesOf(t *testing.T, folder string) map[int]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	found := map[int]string{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		arguments, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		environment, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		isStarter := string(arguments) == starterProgram+"\x00"
		named := bytes.Contains(arguments, []byte(folder)) || bytes.Contains(environment, []byte(folder))
		if named && len(arguments) > 0 && !isStarter {
			program, _, _ := bytes.Cut(arguments, []byte{0})
			found[pid] = filepath.Base(string(program))
		}
	}
	return found
}
