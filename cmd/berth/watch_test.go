package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
)

// look is a command's view of a cluster at one time.
type look struct {
	says    string
	awaited bool
	err     error
}

// TestWatch: what changes is shown again, until nothing is awaited; a cluster that does not answer for a while is asked again.
func TestWatch(t *testing.T) {
	faulty, down := &exitError{code: exitFound}, errors.New("connection refused")
	for name, tc := range map[string]struct {
		on             bool
		looks          []look
		stdout, stderr string
		err            error
		takes          time.Duration
	}{
		"without the flag":      {false, []look{{"1\n", true, faulty}}, "1\n", "", faulty, 0},
		"until it is done":      {true, []look{{"1\n", true, faulty}, {"1\n", true, faulty}, {"2\n", false, nil}}, "1\n\n2\n", "", nil, 2 * watchEvery},
		"as JSON":               {true, []look{{"{1}\n", true, nil}, {"{2}\n", false, nil}}, "{1}\n{2}\n", "", nil, watchEvery},
		"nothing at first":      {true, []look{{"", false, down}}, "", "", down, 0},
		"nothing for a while":   {true, []look{{"1\n", true, nil}, {"", false, down}, {"2\n", false, nil}}, "1\n\n2\n", "warning: connection refused; looking again\n", nil, 2 * watchEvery},
		"what is incomplete":    {true, []look{{"1\n", true, down}, {"2\n", false, nil}}, "1\n\n2\n", "", nil, watchEvery},
		"nothing is waited for": {true, []look{{"1\n", false, nil}}, "1\n", "", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stdout, stderr bytes.Buffer
				cmd := &cobra.Command{}
				cmd.SetContext(t.Context())
				cmd.SetOut(&stdout)
				cmd.SetErr(&stderr)
				began, looks := time.Now(), tc.looks
				err := (&watchFlag{on: tc.on}).run(cmd, func(w io.Writer) (bool, error) {
					now := looks[0]
					looks = looks[1:]
					fmt.Fprint(w, now.says)
					return now.awaited, now.err
				})
				if err != tc.err || stdout.String() != tc.stdout || stderr.String() != tc.stderr || len(looks) > 0 {
					t.Errorf("got error %v, output %q, messages %q, and %d looks are left; want %v, %q, %q and none", err, stdout.String(), stderr.String(), len(looks), tc.err, tc.stdout, tc.stderr)
				}
				if took := time.Since(began); took != tc.takes {
					t.Errorf("it took %s, want %s", took, tc.takes)
				}
			})
		})
	}
}
