// Package matrix lists what drivers can do, and the test that shows each of it on a testbed. `make prove SUITE=drivers`
// runs them all and prints the matrix; docs/drivers.md has it.
package matrix

import (
	"fmt"
	"strings"
)

// Capability is something that a driver may be able to do.
type Capability string

// The capabilities, which are the columns of the matrix.
const (
	Provision       Capability = "provision"
	Attach          Capability = "attach"
	Publish         Capability = "publish"
	Expand          Capability = "expand"
	Snapshot        Capability = "snapshot"
	Delete          Capability = "delete"
	Tags            Capability = "tags"
	STS             Capability = "STS"
	PrivateEndpoint Capability = "private endpoint"
)

// Capabilities are all of them, in order, with what their tests show.
var Capabilities = []struct {
	Name  Capability
	Shows string
}{
	{Provision, "a claim gets a volume that the driver makes in the cloud"},
	{Attach, "the volume is attached to the node of the pod that uses it, and detached after that"},
	{Publish, "pods write and read files of the volume; if the driver can share it, from two nodes at the same time"},
	{Expand, "a claim that asks for more gets it, and its file system grows"},
	{Snapshot, "a snapshot of a claim is taken, and a new claim has what was in it"},
	{Delete, "with the claim, all that was made for it in the cloud goes"},
	{Tags, "what the driver makes has the tags that the Infrastructure wants"},
	{STS, "the driver works with short-lived tokens instead of a key pair, and behind the cluster's proxy"},
	{PrivateEndpoint, "the driver works in a region whose endpoints have a CA of their own"},
}

// Cell is a driver's capability.
type Cell struct {
	// Test shows it, such as "TestMatrix/efs/provision".
	Test string
	// Not is why the capability does not apply to the driver, if there is no test.
	Not string
}

// Row is a driver's.
type Row struct {
	// Driver is its name, with a version if there are several.
	Driver string
	Cells  map[Capability]Cell
	// StandIn says that package standin stands in for the driver. The sidecars are real.
	StandIn bool
}

// yes is what a cell shows whose test has passed.
func (r Row) yes() string {
	if r.StandIn {
		return "stand-in"
	}
	return "yes"
}

// Report returns the matrix with the outcome of each test, "pass", "fail" or "skip", by the test's name, and the names of
// the tests that have not passed.
func Report(outcomes map[string]string) (text string, open []string) {
	return render(func(row Row, cell Cell) string {
		switch outcome := outcomes[cell.Test]; {
		case cell.Test == "":
			return "–"
		case outcome == "pass":
			return row.yes()
		case outcome == "":
			open = append(open, cell.Test)
			return "not run"
		default:
			open = append(open, cell.Test)
			return strings.ToUpper(outcome)
		}
	}), open
}

// Markdown returns the matrix with the capabilities that have a test, and the reasons why others have none.
func Markdown() string {
	var text strings.Builder
	text.WriteString(render(func(row Row, cell Cell) string {
		if cell.Test == "" {
			return "–"
		}
		return row.yes()
	}))
	text.WriteString("\n| capability | what its test shows |\n| --- | --- |\n")
	for _, c := range Capabilities {
		fmt.Fprintf(&text, "| %s | %s |\n", c.Name, c.Shows)
	}
	text.WriteString("\n| driver | capability | why it does not apply |\n| --- | --- | --- |\n")
	for _, row := range Rows {
		for _, c := range Capabilities {
			if cell := row.Cells[c.Name]; cell.Test == "" {
				fmt.Fprintf(&text, "| %s | %s | %s |\n", row.Driver, c.Name, cell.Not)
			}
		}
	}
	return text.String()
}

func render(show func(Row, Cell) string) string {
	var text strings.Builder
	header, line := "| driver |", "| --- |"
	for _, c := range Capabilities {
		header += " " + string(c.Name) + " |"
		line += " --- |"
	}
	text.WriteString(header + "\n" + line + "\n")
	for _, row := range Rows {
		fmt.Fprintf(&text, "| %s |", row.Driver)
		for _, c := range Capabilities {
			fmt.Fprintf(&text, " %s |", show(row, row.Cells[c.Name]))
		}
		text.WriteString("\n")
	}
	return text.String()
}
