package writer

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// run runs a writer for some seconds and calls meanwhile after the first one.
func run(t *testing.T, meanwhile func(path string)) (Report, time.Duration) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "records")
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- Run(ctx, path, &out) }()
		time.Sleep(time.Second + Interval/2)
		meanwhile(path)
		time.Sleep(2 * time.Second)
		end()
		assert.NoError(t, <-done)
	})
	reports, err := Read(out.Bytes())
	require.NoError(t, err)
	if len(reports) != 4 || !reports.Last().Final {
		t.Errorf("the reports are %+v, want one each second and a final one", reports)
	}
	return reports.Last(), reports.LongestPause(time.Time{})
}

func TestUndisturbed(t *testing.T) {
	report, pause := run(t, func(string) {})
	if want := int(3 * time.Second / Interval); report.Records < want-1 || report.Records > want+1 || pause != Interval || report.Err() != nil {
		t.Errorf("found %+v, want about %d records %v apart, and nothing refused or lost", report, want, Interval)
	}
}

// TestVolumeGoesAway: the file cannot be found for some time, as when a mount is gone, and then is back.
func TestVolumeGoesAway(t *testing.T) {
	report, pause := run(t, func(path string) {
		assert.NoError(t, os.Rename(path, path+".away"))
		time.Sleep(5 * Interval)
		assert.NoError(t, os.Rename(path+".away", path))
	})
	if report.Refused != 5 || pause != 6*Interval || report.Lost != 0 || !strings.Contains(report.LastError, "no such file") {
		t.Errorf("found %+v and a pause of %v, want 5 attempts refused in a pause of %v", report, pause, 6*Interval)
	}
	assert.Error(t, report.Err(), "want an error, as records were refused")
}

// TestVolumeForgets: old records are gone, though new ones are accepted.
func TestVolumeForgets(t *testing.T) {
	report, _ := run(t, func(path string) {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		_, err = file.WriteAt(make([]byte, 3*recordSize), 7*recordSize)
		assert.NoError(t, err)
	})
	if report.Lost != 3 || report.Refused != 0 || report.Err() == nil {
		t.Errorf("found %+v, want 3 records lost", report)
	}
}

// TestStartedAgain: a writer does not continue a file of another one.
func TestStartedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	err := Run(t.Context(), path, &bytes.Buffer{})
	assert.Truef(t, os.IsExist(err), "found %v, want an error as the file exists", err)
}
