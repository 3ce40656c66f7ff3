// Package matrix lists the capabilities of drivers, and the tests that show them on a testbed. `make prove
// SUITE=drivers` runs them all and prints the matrix; docs/reference/drivers.md has it.
package matrix

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-csi/berth/lab/programs"
	"github.com/berth-csi/berth/test/drivers/images"
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

// Capabilities are all capabilities, in order, with the claims that their tests show.
var Capabilities = []struct {
	Name  Capability
	Shows string
}{
	{Provision, "a claim gets a volume that the driver makes in the cloud"},
	{Attach, "the volume is attached to the node of the pod that uses it, and detached after that"},
	{Publish, "pods write and read files of the volume; if the driver can share it, from two nodes at the same time"},
	{Expand, "a claim that asks for more gets it, and its file system grows"},
	{Snapshot, "a snapshot of a claim is taken, and a new claim has its content"},
	{Delete, "when a claim is deleted, so is everything in the cloud that was made for it"},
	{Tags, "the driver's resources have the tags that the Infrastructure wants"},
	{STS, "the driver works with short-lived tokens instead of a key pair, and behind the cluster's proxy"},
	{PrivateEndpoint, "the driver works in a region whose endpoints have a private CA"},
}

// Cell is a driver's capability.
type Cell struct {
	// Test is the test that shows the capability, such as "TestMatrix/efs/provision".
	Test string
	// Not is the reason why the capability does not apply to the driver; "" if it has a test.
	Not string
}

// Row is the row of a driver in the matrix.
type Row struct {
	// Driver is the driver's name, with a version if the matrix has several versions of the driver.
	Driver string
	Cells  map[Capability]Cell
	// Image is the repository of the image with the driver.
	Image string
	// More are images with further programs of the driver, by the programs' names in the table.
	More map[string]string
}

// programLookup returns the program that runs in an image of a repository.
type programLookup func(repository string) (programs.Ran, error)

// programs returns which programs run as a row's driver, and whether the driver itself is the real one.
func (r Row) programs(in programLookup) (text string, real bool, err error) {
	driver, err := in(r.Image)
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", r.Driver, err)
	}
	text = driver.String()
	for _, name := range slices.Sorted(maps.Keys(r.More)) {
		ran, err := in(r.More[name])
		if err != nil {
			return "", false, fmt.Errorf("%s, %s: %w", r.Driver, name, err)
		}
		text += fmt.Sprintf("; %s: %s", name, ran)
	}
	return text, driver.Real, nil
}

// sidecars are the sidecars that run beside drivers, by the repositories of their images.
var sidecars = []struct{ name, image string }{
	{"external-provisioner", "quay.io/openshift/origin-csi-external-provisioner"},
	{"external-attacher", "quay.io/openshift/origin-csi-external-attacher"},
	{"external-resizer", "quay.io/openshift/origin-csi-external-resizer"},
	{"external-snapshotter", "quay.io/openshift/origin-csi-external-snapshotter"},
	{"snapshot-controller", "quay.io/openshift/origin-csi-snapshot-controller"},
	{"node-driver-registrar", "quay.io/openshift/origin-csi-node-driver-registrar"},
	{"livenessprobe", "quay.io/openshift/origin-csi-livenessprobe"},
	{"kube-rbac-proxy", "quay.io/openshift/origin-kube-rbac-proxy"},
}

// passes returns the text of a cell whose test has passed.
func passes(real bool) string {
	if real {
		return "yes"
	}
	return "stand-in"
}

// Report returns the matrix with the outcome of each test, and the names of the tests that have not passed. outcomes has
// "pass", "fail" or "skip" by the test's name. The matrix names the programs that run in this environment.
func Report(outcomes map[string]string) (text string, open []string) {
	text, err := render(images.WhichRuns, func(real bool, cell Cell) string {
		switch outcome := outcomes[cell.Test]; {
		case cell.Test == "":
			return "–"
		case outcome == "pass":
			return passes(real)
		case outcome == "":
			open = append(open, cell.Test)
			return "not run"
		default:
			open = append(open, cell.Test)
			return strings.ToUpper(outcome)
		}
	})
	if err != nil {
		open = append(open, err.Error())
	}
	return text, open
}

// Markdown returns the matrix with the capabilities that have a test, and the reasons why others have no test. The
// matrix names the programs that run in a clone without further settings.
func Markdown() (string, error) {
	table, err := render(images.WhichIsPacked, func(real bool, cell Cell) string {
		if cell.Test == "" {
			return "–"
		}
		return passes(real)
	})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString(table)
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
	return text.String(), nil
}

func render(in programLookup, show func(real bool, cell Cell) string) (string, error) {
	var text strings.Builder
	header, line := "| driver | program |", "| --- | --- |"
	for _, c := range Capabilities {
		header += " " + string(c.Name) + " |"
		line += " --- |"
	}
	text.WriteString(header + "\n" + line + "\n")
	for _, row := range Rows {
		ran, real, err := row.programs(in)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "| %s | %s |", row.Driver, ran)
		for _, c := range Capabilities {
			fmt.Fprintf(&text, " %s |", show(real, row.Cells[c.Name]))
		}
		text.WriteString("\n")
	}
	text.WriteString("\n| sidecar | program |\n| --- | --- |\n")
	for _, s := range sidecars {
		ran, err := in(s.image)
		if err != nil {
			return "", fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(&text, "| %s | %s |\n", s.name, ran)
	}
	return text.String(), nil
}
