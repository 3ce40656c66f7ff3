package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// claim is a statement of a page that a reader has to believe, and its proof.
type claim struct {
	// id names it for make proof.
	id string
	// page is a file of the project, and sentence what it says, with spaces for line breaks.
	page, sentence string
	// suite is the name of the suite that proves it. Without a suite, tests prove it.
	suite string
	tests suite
	// real are the names, as in pinned, of real programs that ran where a stand-in would do. played says what stood in for other programs.
	real   []string
	played string
	// figures are the numbers in the sentence.
	figures []figure
}

// figure is a number that the tests print.
type figure struct {
	name string
	// in matches it in a log: the figure is the sum of the groups of a match. Of several matches, the worst counts.
	in *regexp.Regexp
	// atLeast and atMost bound it. One of them is 0, for none.
	atLeast, atMost float64
}

func (f figure) bound() string {
	if f.atLeast != 0 {
		return fmt.Sprintf("at least %g", f.atLeast)
	}
	return fmt.Sprintf("at most %g", f.atMost)
}

func (f figure) isWithin(value float64) bool {
	return (f.atLeast == 0 || value >= f.atLeast) && (f.atMost == 0 || value <= f.atMost)
}

// read returns the figure that a log has.
func (f figure) read(log string) (float64, error) {
	var all []float64
	for _, match := range f.in.FindAllStringSubmatch(log, -1) {
		sum := 0.0
		for _, text := range match[1:] {
			number, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %q is no number", f.name, text)
			}
			sum += number
		}
		all = append(all, math.Round(sum*1000)/1000)
	}
	switch {
	case len(all) == 0:
		return 0, fmt.Errorf("the log does not say %s: nothing in it matches %s", f.name, f.in)
	case f.atLeast != 0:
		return slices.Min(all), nil
	}
	return slices.Max(all), nil
}

// by returns the suite that proves the claim.
func (c claim) by() suite {
	if at := slices.IndexFunc(suites, func(s suite) bool { return s.name == c.suite }); at >= 0 {
		return suites[at]
	}
	s := c.tests
	s.name, s.about, s.run = c.id, c.page+" says: "+c.sentence, cmp.Or(s.run, "^$")
	return s
}

// command returns the command line that runs the same tests without the claim.
func (c claim) command() string {
	if c.suite != "" {
		return "make prove SUITE=" + c.suite
	}
	if c.tests.bench != "" {
		return "go test " + c.tests.pkg + " -run '^$' -bench " + c.tests.bench
	}
	return "go test " + c.tests.pkg + " -run '" + c.tests.run + "'"
}

// proveClaim runs a claim's tests, and prints its figures beside their bounds and the record. It fails if the claim does not hold. With
// write, it writes the record.
func proveClaim(ctx context.Context, id string, write bool, out io.Writer) error {
	root, err := tools.Root()
	if err != nil {
		return err
	}
	records, err := readRecords(filepath.Join(root, recordsFolder))
	if err != nil {
		return err
	}
	if id == "" && !write {
		_, err := fmt.Fprintln(out, listClaims(records))
		return err
	}
	at := slices.IndexFunc(claims, func(c claim) bool { return c.id == id })
	if at < 0 {
		return fmt.Errorf("want the name of a claim, for example make proof CLAIM=%s:\n%s", claims[0].id, listClaims(records))
	}
	c := claims[at]
	if write {
		if err := mayRecord(ctx, root); err != nil {
			return err
		}
	}
	began := time.Now()
	log, passed, err := c.run(ctx, root, out)
	if err != nil {
		return err
	}
	now := record{Claim: id, Sentence: c.sentence, Tests: c.by().arguments(), Passed: passed, Seconds: math.Round(time.Since(began).Seconds()), Log: fmt.Sprintf("sha256:%x", sha256.Sum256(log))}
	if now.Figures, err = c.measure(string(log)); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s", c.compare(now, records))
	if err := c.broken(now.Figures); err != nil || !write {
		return err
	}
	if err := now.describe(ctx, root, c); err != nil {
		return err
	}
	return now.write(filepath.Join(root, recordsFolder))
}

// run runs the claim's tests, and leaves their log in bin/proofs.
func (c claim) run(ctx context.Context, root string, out io.Writer) (log []byte, passed int, err error) {
	var text bytes.Buffer
	passed, err = c.by().proveWithLog(ctx, out, &text)
	folder := filepath.Join(root, "bin", "proofs")
	writeErr := os.MkdirAll(folder, 0o755)
	if writeErr == nil {
		writeErr = os.WriteFile(filepath.Join(folder, c.id+".log"), text.Bytes(), 0o644)
	}
	return text.Bytes(), passed, errors.Join(err, writeErr)
}

func (c claim) measure(log string) (map[string]float64, error) {
	figures := map[string]float64{}
	for _, f := range c.figures {
		value, err := f.read(log)
		if err != nil {
			return nil, err
		}
		figures[f.name] = value
	}
	return figures, nil
}

// broken returns an error that names the figures outside of their bounds, or nil.
func (c claim) broken(figures map[string]float64) error {
	var all []error
	for _, f := range c.figures {
		if value := figures[f.name]; !f.isWithin(value) {
			all = append(all, fmt.Errorf("%s does not hold: %s is %g, want %s", c.id, f.name, value, f.bound()))
		}
	}
	return errors.Join(all...)
}

// compare returns a table of the present results and the record.
func (c claim) compare(now record, records map[string]record) string {
	before, is := records[c.id]
	recorded, of := func(any) string { return "none" }, "record"
	if is {
		recorded, of = func(value any) string { return fmt.Sprint(value) }, "record of "+before.Date
	}
	var text strings.Builder
	fmt.Fprintf(&text, "| %s | now | bound | %s |\n| --- | --- | --- | --- |\n", c.id, of)
	fmt.Fprintf(&text, "| tests that passed | %d | | %s |\n| seconds | %g | | %s |\n", now.Passed, recorded(before.Passed), now.Seconds, recorded(before.Seconds))
	for _, f := range c.figures {
		fmt.Fprintf(&text, "| %s | %g | %s | %s |\n", f.name, now.Figures[f.name], f.bound(), recorded(before.Figures[f.name]))
	}
	return text.String()
}

// listClaims returns a line for each claim.
func listClaims(records map[string]record) string {
	var text strings.Builder
	for _, c := range claims {
		proved := unproved
		if r, is := records[c.id]; is {
			proved = "proved on " + r.Date
		}
		fmt.Fprintf(&text, "  %-22s %s; %s\n", c.id, c.page, proved)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// pinned are programs that tests run as they are, and where their versions are.
var pinned = map[string]struct{ folder, module string }{
	"Kubernetes": {"lab/modules/tools", "k8s.io/kubernetes"},
	"etcd":       {"lab/modules/tools", "go.etcd.io/etcd/server/v3"},
	"OLM":        {"lab/modules/tools", "github.com/operator-framework/operator-lifecycle-manager"},
	"opm":        {"lab/modules/tools", "github.com/operator-framework/operator-registry"},
	"containerd": {"lab/modules/node", "github.com/containerd/containerd/v2"},
	"promtool":   {"lab/modules/promtool", "github.com/prometheus/prometheus"},
}

// versions returns the versions of the claim's real programs.
func (c claim) versions() (map[string]string, error) {
	all := map[string]string{}
	other := c.by().kubernetes
	for _, name := range c.real {
		if name == "Kubernetes" && other != "" {
			all[name] = "v" + other
			continue
		}
		pins, err := tools.PinsOf(pinned[name].folder)
		if err != nil {
			return nil, err
		}
		if all[name], err = pins.Version(pinned[name].module); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// inWords returns a map in one line, in the order of its keys.
func inWords[V any](of map[string]V, format string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf(format, key, of[key]))
	}
	return strings.Join(all, ", ")
}
