package openshift

import "slices"

// Release is what is known of a version.
type Release struct {
	Version
	// Kubernetes is the minor version of Kubernetes 1 that it runs: 33 for 1.33.
	Kubernetes int
}

// Releases are all versions from 4.1 to those that are prepared, in order. OpenShift 5.0 is the step after 4.22 as well as 4.23 is: OLM takes
// the two for the same release.
// Sources: https://access.redhat.com/solutions/4870701 for Kubernetes, and normalizeOCPVersion of OLM for 4.23.
var Releases = []Release{
	{Version{4, 1}, 13},
	{Version{4, 2}, 14},
	{Version{4, 3}, 16},
	{Version{4, 4}, 17},
	{Version{4, 5}, 18},
	{Version{4, 6}, 19},
	{Version{4, 7}, 20},
	{Version{4, 8}, 21},
	{Version{4, 9}, 22},
	{Version{4, 10}, 23},
	{Version{4, 11}, 24},
	{Version{4, 12}, 25},
	{Version{4, 13}, 26},
	{Version{4, 14}, 27},
	{Version{4, 15}, 28},
	{Version{4, 16}, 29},
	{Version{4, 17}, 30},
	{Version{4, 18}, 31},
	{Version{4, 19}, 32},
	{Version{4, 20}, 33},
	{Version{4, 21}, 34},
	{Version{4, 22}, 35},
	{Version{4, 23}, 36},
	{Version{5, 0}, 36},
}

// oldestCatalog is the oldest version whose catalogs are still built.
var oldestCatalog = Version{4, 12}

// Offering returns the versions whose catalogs are still built, in order, without 4.23, which has none of its own beside 5.0.
func Offering() (all []Version) {
	for _, r := range Releases {
		if r.Compare(oldestCatalog) >= 0 && r.Version != (Version{4, 23}) {
			all = append(all, r.Version)
		}
	}
	return all
}

// Find returns what is known of a version.
func Find(v Version) (Release, bool) {
	i := slices.IndexFunc(Releases, func(r Release) bool { return r.Version == v })
	if i < 0 {
		return Release{}, false
	}
	return Releases[i], true
}

// Normal returns the version that OLM compares: 5.0 for 4.23, which are the same release.
func (v Version) Normal() Version {
	if v == (Version{4, 23}) {
		return Version{5, 0}
	}
	return v
}

// described is the first version whose catalogs describe bundles.
var described = Version{4, 17}

// DescribesBundles reports whether the version's catalogs describe bundles, in a property of type olm.csv.metadata. Those of earlier
// versions have them carry their objects, in properties of type olm.bundle.object.
func (v Version) DescribesBundles() bool { return v.Compare(described) >= 0 }
