package bundles_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-csi/berth/bundle/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/catalogs"
)

// sampleSize is how many bundles with errors are tried.
const sampleSize = 100

// faulty is a bundle with errors.
type faulty struct {
	repository, path string // of its folder, such as operators/tide/1.0.0
	errors           []*findings.Finding
}

// checks counts the findings of bundle validate.
type checks struct {
	sync.Mutex
	bundles       int
	warned        int
	took, longest time.Duration
	slowest       string
	faulty        []faulty
}

// TestPublishedErrors: each error of bundle validate is one that opm, OLM or the API server raises, too. It tries a sample of all bundles
// with errors, with each rule and reason that occurs.
func TestPublishedErrors(t *testing.T) {
	var all []faulty
	for _, folder := range repositoriesOf(t) {
		c := &checks{}
		eachPackage(t, folder, func(ctx context.Context, dir string, bundles []string) error {
			for _, at := range bundles {
				if err := c.check(folder, dir, at); err != nil {
					return err
				}
			}
			return nil
		})
		t.Logf("%s, part %s: bundle validate of %d bundles took %v; the longest, %s, %v; %d bundles have errors, %d others warnings", describe(t, folder), *part, c.bundles,
			c.took.Round(time.Second), c.slowest, c.longest.Round(time.Millisecond), len(c.faulty), c.warned)
		all = append(all, c.faulty...)
	}
	if len(all) == 0 && *part == "1/1" {
		t.Fatal("no bundle has errors, and thousands of public ones do: nothing was checked")
	}
	if len(all) == 0 {
		t.Skipf("no bundle of part %s has errors; try another part", *part)
	}
	slices.SortFunc(all, func(a, b faulty) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.repository, b.repository))
	})
	lab := &laboratory{opm: catalogs.OPM(t), cluster: cluster.Shared(t, cluster.Options{}), supported: supportedKinds(t)}
	lab.prepare(t)
	sample := sampleOf(all)
	rows := map[string]*row{}
	for _, f := range all {
		for rule := range rulesOf(f) {
			if rows[rule] == nil {
				rows[rule] = &row{}
			}
			rows[rule].bundles++
		}
	}
	for _, f := range sample {
		tried := lab.try(t, f)
		for _, e := range f.errors {
			r := rows[e.Rule]
			r.tried++
			if by := tried.refusal(e); by != "" {
				r.refused++
				continue
			}
			t.Errorf("%s: nobody else refuses it: %s\n\twhat was refused: %s", f.path, e, tried)
		}
	}
	t.Logf("tried %d of %d bundles with errors:\n%s", len(sample), len(all), table(rows))
}

// check keeps the errors of a bundle.
func (c *checks) check(repository, dir, at string) error {
	started := time.Now()
	found, err := rules.Check(at, rules.Options{})
	took := time.Since(started)
	if err != nil {
		return err
	}
	f := faulty{repository: repository, path: strings.TrimPrefix(at, dir+"/")}
	for _, finding := range found {
		if finding.Severity == findings.Error {
			finding.File = strings.TrimPrefix(finding.File, at+"/")
			f.errors = append(f.errors, finding)
		}
	}
	c.Lock()
	defer c.Unlock()
	if c.bundles, c.took = c.bundles+1, c.took+took; took > c.longest {
		c.longest, c.slowest = took, f.path
	}
	switch {
	case len(f.errors) > 0:
		c.faulty = append(c.faulty, f)
	case len(found) > 0:
		c.warned++
	}
	return nil
}

func rulesOf(f faulty) map[string]bool {
	all := map[string]bool{}
	for _, e := range f.errors {
		all[e.Rule] = true
	}
	return all
}

// details are the parts of messages that differ between findings for the same reason.
var details = regexp.MustCompile(`"[^"]*"|[^\s:]*[0-9./_\[][^\s:]*`)

// reason is a rule, and the reason for which a finding breaks it.
func reason(f *findings.Finding) string {
	return f.Rule + ": " + details.ReplaceAllString(f.Message, "…")
}

// sampleOf chooses bundles: the first with each rule and reason, and then others, evenly from all rules.
func sampleOf(all []faulty) (sample []faulty) {
	chosen, reasons := map[int]bool{}, map[string]bool{}
	byRule := map[string][]int{}
	for i, f := range all {
		isNew := false
		for _, e := range f.errors {
			isNew = isNew || !reasons[reason(e)]
			reasons[reason(e)] = true
		}
		if isNew {
			chosen[i] = true
		}
		for rule := range rulesOf(f) {
			byRule[rule] = append(byRule[rule], i)
		}
	}
	for step := 1; len(chosen) < min(sampleSize, len(all)); step++ {
		for _, rule := range slices.Sorted(maps.Keys(byRule)) {
			of := byRule[rule]
			if at := (step * 7919) % len(of); len(chosen) < sampleSize { // a prime number spreads them
				chosen[of[at]] = true
			}
		}
		if step > len(all) {
			break
		}
	}
	for i, f := range all {
		if chosen[i] {
			sample = append(sample, f)
		}
	}
	return sample
}

// row counts the errors of a rule.
type row struct{ bundles, tried, refused int }

func table(rows map[string]*row) string {
	text := "| rule | bundles with it | errors tried | refused by opm, OLM or the API server | not refused |\n| --- | --- | --- | --- | --- |\n"
	for _, rule := range slices.Sorted(maps.Keys(rows)) {
		r := rows[rule]
		text += fmt.Sprintf("| %s | %d | %d | %d | %d |\n", rule, r.bundles, r.tried, r.refused, r.tried-r.refused)
	}
	return text
}
