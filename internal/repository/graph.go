package repository

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-csi/berth/catalog/fbc"
)

// The update modes of bundles in ci.yaml.
const (
	replacesMode = "replaces-mode"
	semverMode   = "semver-mode"
)

var updateModes = []string{replacesMode, semverMode}

// inChannel are the bundles of a channel, by version, and which of them update which.
type inChannel struct {
	bundles []*bundle
	edges   map[*bundle][]*bundle
	// dangling are the names of bundles that nothing updates, except the last.
	dangling []string
	err      error // why the updates are not known
}

// comparisons is the maximum number of versions that are compared for the updates of an operator's channels: each skipRange of a channel is
// compared with all of its versions. The largest operators need some hundred thousand comparisons.
const comparisons = 5_000_000

// channels returns the channels of an operator's bundles. They are computed once.
func (o *operator) channels() map[string]*inChannel {
	if o.byChannel != nil {
		return o.byChannel
	}
	o.byChannel = map[string]*inChannel{}
	sorted := slices.Clone(o.bundles)
	slices.SortStableFunc(sorted, func(a, b *bundle) int {
		return cmp.Or(strings.Compare(a.csvOperator(), b.csvOperator()), a.compare(b))
	})
	for _, b := range sorted {
		if b.err != nil {
			continue
		}
		names := slices.Clone(b.Channels)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			in := o.byChannel[name]
			if in == nil {
				in = &inChannel{}
				o.byChannel[name] = in
			}
			in.bundles = append(in.bundles, b)
		}
	}
	left := comparisons
	for _, name := range slices.Sorted(maps.Keys(o.byChannel)) {
		in := o.byChannel[name]
		in.edges, in.err = updates(in.bundles, o.mode(), &left)
		for i, b := range in.bundles {
			if len(in.edges[b]) == 0 && i < len(in.bundles)-1 {
				in.dangling = append(in.dangling, b.Name)
			}
		}
	}
	return o.byChannel
}

// updates returns which bundles of a channel update which, as pipelines see it before there is a catalog. in is sorted by version.
func updates(in []*bundle, mode string, left *int) (map[*bundle][]*bundle, error) {
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
		*left -= len(b.Skips)
		if b.SkipRange != "" {
			*left -= len(in) * (1 + len(b.SkipRange)/perComparison)
		}
		if *left < 0 {
			return nil, fmt.Errorf("the operator has so many versions, channels, skips and skipRanges that updates between them take more than %d comparisons; they are not checked", comparisons)
		}
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
		if b.SkipRange == "" {
			continue
		}
		skipped, err := fbc.ParseRange(b.SkipRange)
		if err != nil {
			continue // the bundle's own rules report it
		}
		for _, before := range in {
			if v := before.number; v != nil && before != b && skipped(*v) {
				edges[before] = append(edges[before], b)
			}
		}
	}
	return edges, nil
}

// perComparison is the length of a range with two limits, in bytes. A longer one takes more comparisons.
const perComparison = 40

// loop returns an edge that closes a loop, or nils.
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
