package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// The tiers.
const (
	first  = "first"
	second = "second"
	third  = "third"
	race   = "race"
	ofLab  = "lab"
)

var tiers = []string{first, second, third, race, ofLab}

func isTier(name string) bool { return slices.Contains(tiers, name) }

// module is the prefix of the project's import paths.
const module = "github.com/berth-csi/berth/"

// clusterPackage starts clusters: a package whose tests import it needs one.
const clusterPackage = module + "lab/cluster"

// testedPackage is a package of the project, as go list describes it.
type testedPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func (p testedPackage) hasTests() bool { return len(p.TestImports)+len(p.XTestImports) > 0 }

// name returns the package's folder.
func (p testedPackage) name() string { return strings.TrimPrefix(p.ImportPath, module) }

// listPackages returns the packages of the project.
func listPackages(ctx context.Context) (packages []testedPackage, err error) {
	list := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list ./...: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p testedPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read what go list prints: %w", err)
		}
		packages = append(packages, p)
	}
}

// A job is one run of go test.
type job struct {
	packages []string // folders
	// run and skip are go test's flags, or "".
	run, skip string
	// named are the tests that it must run, perhaps with subtests: go test does not say that a pattern matches none.
	named   []string
	options []string
	// weight is about how many seconds it takes on two processors that do nothing else.
	weight float64
}

// batch is how many packages that take little time are one job: go test takes a second to start.
const batch = 12

// plan returns the jobs of a tier, the long ones first. While nobody changes the lab, its own tests are in the second tier as a whole.
func plan(tier string, packages []testedPackage, labChanged bool) ([]job, error) {
	if tier == race {
		return planRace(packages), nil
	}
	var jobs []job
	var short []string
	for _, p := range packages {
		inLab := strings.HasPrefix(p.name(), labFolder)
		whole := inLab && (tier == ofLab || tier == second && !labChanged)
		if !p.hasTests() || !inLab && tier == ofLab || inLab && tier == first && !labChanged {
			continue
		}
		s, isSplit := splitOf(p.name())
		switch {
		case isSplit && whole:
			jobs = append(jobs, job{packages: []string{s.pkg}, skip: pattern(s.third), options: s.options, weight: weightOf(s.pkg) + s.rest})
		case isSplit:
			if j, ok := s.job(tier); ok {
				jobs = append(jobs, j)
			}
		case tier != first && !whole:
		case weights[p.name()] >= longJob:
			jobs = append(jobs, job{packages: []string{p.name()}, weight: weights[p.name()]})
		default:
			short = append(short, p.name())
		}
	}
	for _, s := range splits {
		if !slices.ContainsFunc(packages, func(p testedPackage) bool { return p.name() == s.pkg }) {
			return nil, fmt.Errorf("splits.go names the package %s, which is not there", s.pkg)
		}
	}
	return sorted(append(jobs, batches(short)...)), nil
}

// labFolder could be a repository of its own.
const labFolder = "lab/"

// labHasChanged reports whether the clone has changed the lab, or the modules that the lab is built with, since it left origin/main. If Git
// cannot say, the lab counts as changed.
func labHasChanged(ctx context.Context) bool {
	base, err := exec.CommandContext(ctx, "git", "merge-base", "HEAD", "origin/main").Output()
	if err != nil {
		return true
	}
	paths := []string{"--", labFolder, "go.mod", "go.sum"}
	differs := exec.CommandContext(ctx, "git", append([]string{"diff", "--quiet", strings.TrimSpace(string(base))}, paths...)...).Run()
	added, err := exec.CommandContext(ctx, "git", append([]string{"ls-files", "--others", "--exclude-standard"}, paths...)...).Output()
	return differs != nil || err != nil || len(added) > 0
}

// sorted returns jobs by weight, the longest first.
func sorted(jobs []job) []job {
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(b.weight, a.weight) })
	return jobs
}

// batches makes jobs from packages that take little time each.
func batches(packages []string) (jobs []job) {
	for chunk := range slices.Chunk(packages, batch) {
		j := job{packages: chunk}
		for _, p := range chunk {
			j.weight += weightOf(p)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

func (j job) isBatch() bool         { return len(j.packages) > 1 }
func (j job) isSinglePackage() bool { return !j.isBatch() }

// planRace returns the first tier's tests of the packages that need no cluster, and the journeys.
func planRace(packages []testedPackage) []job {
	var jobs []job
	var alone []string
	reaches := needCluster(packages)
	for _, p := range packages {
		switch run := raceJourneys[p.name()]; {
		case run != "":
			jobs = append(jobs, job{packages: []string{p.name()}, run: run, weight: 30})
		case !p.hasTests() || reaches(p):
		default:
			s, isSplit := splitOf(p.name())
			if j, ok := s.job(first); isSplit && ok {
				jobs = append(jobs, j)
			} else if !isSplit && weights[p.name()] >= longJob {
				jobs = append(jobs, job{packages: []string{p.name()}, skip: notWithRaces, weight: weights[p.name()]})
			} else if !isSplit {
				alone = append(alone, p.name())
			}
		}
	}
	for _, j := range batches(alone) {
		j.skip = notWithRaces
		jobs = append(jobs, j)
	}
	return sorted(jobs)
}

// needCluster returns a function that reports whether the tests of a package can start a cluster.
func needCluster(packages []testedPackage) func(testedPackage) bool {
	imports := map[string][]string{}
	for _, p := range packages {
		imports[p.ImportPath] = p.Imports
	}
	known := map[string]bool{clusterPackage: true}
	var reaches func(path string) bool
	reaches = func(path string) bool {
		found, ok := known[path]
		if !ok {
			known[path] = false // Go has no import cycles
			found = slices.ContainsFunc(imports[path], reaches)
			known[path] = found
		}
		return found
	}
	return func(p testedPackage) bool {
		return p.ImportPath == clusterPackage || slices.ContainsFunc(slices.Concat(p.TestImports, p.XTestImports), reaches)
	}
}

// job returns a tier's job for the package, and false if the tier runs none of the package's tests.
func (s split) job(tier string) (job, bool) {
	if tier == first && s.isLate() {
		return job{}, false
	}
	j := job{packages: []string{s.pkg}, options: s.options, weight: s.rest}
	here, there := s.second, s.first
	switch tier {
	case first:
		here, there = s.first, s.second
		j.weight = weightOf(s.pkg)
	case third:
		j.named, j.run, j.options = s.third, pattern(s.third), nil
		return j, len(s.third) > 0
	}
	if len(here) > 0 {
		j.named, j.run = here, pattern(here)
	} else {
		j.skip = pattern(slices.Concat(there, s.third))
	}
	return j, true
}

// isLate reports whether all of the package's tests are in the second tier.
func (s split) isLate() bool { return len(s.first)+len(s.second) == 0 }

// pattern returns a regular expression, as go test -run takes it, for tests by name. A name may have elements of subtests.
func pattern(names []string) string {
	var all []string
	for _, name := range names {
		var parts []string
		for _, part := range strings.Split(name, "/") {
			parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
		}
		all = append(all, strings.Join(parts, "/"))
	}
	return strings.Join(all, "|")
}

func splitOf(pkg string) (split, bool) {
	i := slices.IndexFunc(splits, func(s split) bool { return s.pkg == pkg })
	if i < 0 {
		return split{}, false
	}
	return splits[i], true
}

// jobPackages returns the packages of jobs, as go test takes them.
func jobPackages(jobs []job) (paths []string) {
	for _, j := range jobs {
		paths = append(paths, j.paths()...)
	}
	return paths
}

func (j job) paths() (paths []string) {
	for _, p := range j.packages {
		paths = append(paths, "./"+p)
	}
	return paths
}
