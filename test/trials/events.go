package trials

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

const module = "github.com/berth-csi/berth/"

// longestLine is the limit for one event, in bytes. An event has one line of a test's output.
const longestLine = 16 << 20

// An Event is one line of the output of `go test -json`: an action of a test or a package.
type Event struct {
	// Action is "run", "pass", "fail", "skip" or "output", among others.
	Action string
	// Package is its path in the project, such as "test/e2e".
	Package string
	// Test is "" for events of the package.
	Test string
	// Elapsed is the time that the test or package took, in seconds, when it has ended.
	Elapsed float64
	// Output is a line that the test printed, with its line break.
	Output string
}

// Each calls a function with each event, until the input ends.
func Each(from io.Reader, do func(Event)) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var event Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return fmt.Errorf("want an event of go test -json in each line, found %.80q: %w", lines.Text(), err)
		}
		event.Package = strings.TrimPrefix(event.Package, module)
		do(event)
	}
	return lines.Err()
}
