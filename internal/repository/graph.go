package repository

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

// The update modes of bundles in ci.yaml.
const (
	replacesMode = "replaces-mode"
	semverMode   = "semver-mode"
)

var updateModes = []string{replacesMode, semverMode}

// channel returns the bundles of an operator that belong to a channel, by version.
func channel(all []*bundle, name string) (in []*bundle) {
	for _, b := range all {
		if b.err == nil && slices.Contains(b.Channels, name) {
			in = append(in, b)
		}
	}
	slices.SortStableFunc(in, func(a, b *bundle) int {
		return cmp.Or(strings.Compare(a.csvOperator(), b.csvOperator()), a.compare(b))
	})
	return in
}

// updates returns the update edges between bundles of a channel, as pipelines compute them without a catalog. The bundles are sorted
// by version.
func updates(in []*bundle, mode string) (map[*bundle][]*bundle, error) {
	edges := map[*bundle][]*bundle{}
	if mode == semverMode {
		for i := 1; i < len(in); i++ {
			edges[in[i-1]] = []*bundle{in[i]}
		}
		return edges, nil
	}
	byVersion := map[string]*bundle{}
	for _, b := range in {
		byVersion[b.csvVersion()] = b
	}
	for _, b := range in {
		for _, name := range append(slices.Clone(b.Skips), b.Replaces) {
			if name == "" {
				continue
			}
			if !strings.Contains(name, ".") {
				return nil, fmt.Errorf("%s replaces or skips %q, which is not a name with a version", b.Name, name)
			}
			_, version := split(name)
			if before := byVersion[version]; before != nil {
				edges[before] = append(edges[before], b)
			}
		}
		skipped, err := semver.ParseRange(b.SkipRange)
		if b.SkipRange == "" || err != nil {
			continue // the bundle's own rules report it
		}
		for _, before := range in {
			if v := before.number(); v != nil && before != b && skipped(*v) {
				edges[before] = append(edges[before], b)
			}
		}
	}
	return edges, nil
}

// loop returns an edge that closes a loop, or nil values.
func loop(in []*bundle, edges map[*bundle][]*bundle) (from, to *bundle) {
	const visiting, done = 1, 2
	state := map[*bundle]int{}
	var visit func(*bundle) bool
	visit = func(b *bundle) bool {
		state[b] = visiting
		for _, next := range edges[b] {
			if state[next] == visiting {
				from, to = b, next
				return true
			}
			if state[next] == 0 && visit(next) {
				return true
			}
		}
		state[b] = done
		return false
	}
	for _, b := range in {
		if state[b] == 0 && visit(b) {
			break
		}
	}
	return from, to
}
