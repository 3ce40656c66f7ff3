// Package writer writes records to a volume and reads them back, fifty times a second, and reports the longest pause,
// and the records that the volume refused or lost. Tests run it in pods while drivers are switched, updated and killed.
package writer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

const (
	// Interval is the time between two records.
	Interval = 20 * time.Millisecond
	// reportInterval is the time between two reports.
	reportInterval = time.Second
	// recordSize is the size of a record, in bytes.
	recordSize = 32
)

// Report counts what has happened since the writer started.
type Report struct {
	At time.Time `json:"at"`
	// Records is the number of records that were written, synced and read back.
	Records int `json:"records"`
	// Pause is the longest time between two records that ended since the last report.
	Pause time.Duration `json:"pause"`
	// Refused is the number of attempts that ended with an error, and LastError is the last of these errors.
	Refused   int    `json:"refused"`
	LastError string `json:"lastError,omitempty"`
	// Lost is the number of records that were once read back and are no longer in the file, or have changed.
	Lost int `json:"lost"`
	// Final is set in the last report, when the writer was told to end.
	Final bool `json:"final,omitempty"`
}

// Run writes records to a new file until ctx ends, and a report to out every second and at the end, each a line of
// JSON. A record that is refused is tried again. Run returns an error only if the file exists or cannot be created, or if out fails.
// Later faults of the volume are in the reports.
func Run(ctx context.Context, path string, out io.Writer) error {
	// A writer that was started again must not hide what the first one saw.
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	var report Report
	reports := json.NewEncoder(out)
	next, last := time.NewTicker(Interval), time.Now()
	defer next.Stop()
	report.At = last
	for {
		select {
		case <-ctx.Done():
			report.At, report.Final = time.Now(), true
			report.Pause = max(report.Pause, report.At.Sub(last)) // a pause that has not ended counts, too
			report.Lost = lost(path, report.Records)
			return reports.Encode(report)
		case <-next.C:
		}
		if err := add(file, path, report.Records); err != nil {
			report.Refused++
			report.LastError = err.Error()
		} else {
			report.Records++
			now := time.Now()
			if report.Records > 1 {
				report.Pause = max(report.Pause, now.Sub(last))
			}
			last = now
		}
		if time.Since(report.At) >= reportInterval {
			report.At, report.Lost = time.Now(), lost(path, report.Records)
			if err := reports.Encode(report); err != nil {
				return err
			}
			report.Pause = 0
		}
	}
}

// add writes a record, and reads it back from the file that has the path now.
func add(file *os.File, path string, number int) error {
	written := record(number)
	if _, err := file.WriteAt(written, int64(number)*recordSize); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	found, err := os.Open(path)
	if err != nil {
		return err
	}
	defer found.Close()
	read := make([]byte, recordSize)
	if _, err := found.ReadAt(read, int64(number)*recordSize); err != nil {
		return fmt.Errorf("read record %d: %w", number, err)
	}
	if !bytes.Equal(read, written) {
		return fmt.Errorf("record %d of %s: found %q, want %q", number, path, read, written)
	}
	return nil
}

// lost returns how many of the first records are not in the file as they were written.
func lost(path string, records int) int {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return records
	}
	lost := 0
	for number := range records {
		from := number * recordSize
		if to := from + recordSize; to > len(content) || !bytes.Equal(content[from:to], record(number)) {
			lost++
		}
	}
	return lost
}

// record returns the record with a number.
func record(number int) []byte {
	return fmt.Appendf(nil, "record %*d\n", recordSize-len("record \n"), number)
}

// Reports are the reports of one writer, the oldest first.
type Reports []Report

// Read reads the reports in a writer's output. The last line may be incomplete.
func Read(output []byte) (Reports, error) {
	var all Reports
	for line := range bytes.Lines(output) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var report Report
		if err := json.Unmarshal(line, &report); err != nil {
			return nil, fmt.Errorf("a line of a writer's output is %q, want a report: %w", line, err)
		}
		all = append(all, report)
	}
	return all, nil
}

// Last returns the last report. There must be one.
func (r Reports) Last() Report { return r[len(r)-1] }

// LongestPause returns the longest pause between two records that ended after a time. It is exact to a second.
func (r Reports) LongestPause(after time.Time) (longest time.Duration) {
	for _, report := range r {
		if report.At.After(after) {
			longest = max(longest, report.Pause)
		}
	}
	return longest
}

// Err returns an error if the volume refused or lost anything.
func (r Report) Err() error {
	if r.Refused == 0 && r.Lost == 0 {
		return nil
	}
	return fmt.Errorf("of %d records, %d were lost; %d attempts were refused, the last with %q", r.Records, r.Lost, r.Refused, r.LastError)
}
