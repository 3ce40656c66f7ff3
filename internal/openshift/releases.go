package openshift

import "slices"

// Release holds the facts about a version.
type Release struct {
	Version
	// Kubernetes is the minor version of Kubernetes 1 that it runs: 33 for 1.33.
	Kubernetes int
	// Maintained is the last day of maintenance support, and Extended the last day of the last term of extended update support, as
	// YYYY-MM-DD. They are empty if there is no such support, or if the day is not known yet.
	Maintained, Extended string
}

// Releases are all versions from 4.1 to the ones in preparation, in order. Both 4.23 and 5.0 follow 4.22: OLM treats the two as the same
// release.
// Sources: https://access.redhat.com/solutions/4870701 for Kubernetes, normalizeOCPVersion of OLM for 4.23, and for support Red Hat's
// product life cycle data of 13 May 2026 (https://access.redhat.com/product-life-cycles, as pkg/fbc/testdata/plcc.json of
// https://github.com/release-engineering/fbc-update-planner has it). https://endoflife.date/red-hat-openshift says the same about
// maintenance up to 4.18, but counts the extended support of 4.6 as maintenance.
var Releases = []Release{
	{Version{4, 1}, 13, "2020-05-05", ""},
	{Version{4, 2}, 14, "2020-07-13", ""},
	{Version{4, 3}, 16, "2020-10-27", ""},
	{Version{4, 4}, 17, "2021-02-24", ""},
	{Version{4, 5}, 18, "2021-07-27", ""},
	{Version{4, 6}, 19, "2021-10-18", "2022-10-27"},
	{Version{4, 7}, 20, "2022-08-24", ""},
	{Version{4, 8}, 21, "2023-01-27", ""},
	{Version{4, 9}, 22, "2023-04-18", ""},
	{Version{4, 10}, 23, "2023-09-10", ""},
	{Version{4, 11}, 24, "2024-02-10", ""},
	{Version{4, 12}, 25, "2024-07-17", "2027-01-17"},
	{Version{4, 13}, 26, "2024-11-17", ""},
	{Version{4, 14}, 27, "2025-05-01", "2026-10-31"},
	{Version{4, 15}, 28, "2025-08-27", ""},
	{Version{4, 16}, 29, "2025-12-27", "2027-06-27"},
	{Version{4, 17}, 30, "2026-04-01", ""},
	{Version{4, 18}, 31, "2026-08-25", "2028-02-25"},
	{Version{4, 19}, 32, "2026-12-17", ""},
	{Version{4, 20}, 33, "2027-04-21", "2028-10-21"},
	{Version{4, 21}, 34, "2027-08-03", ""},
	{Version{4, 22}, 35, "", ""},
	{Version{4, 23}, 36, "", ""},
	{Version{5, 0}, 36, "", ""},
}

// oldestCatalog is the oldest version whose catalogs are still built.
var oldestCatalog = Version{4, 12}

// Offering returns the versions whose catalogs are still built, in order, without 4.23, which shares the catalogs of 5.0.
func Offering() (all []Version) {
	for _, r := range Releases {
		if r.Compare(oldestCatalog) >= 0 && r.Version != (Version{4, 23}) {
			all = append(all, r.Version)
		}
	}
	return all
}

// Find returns the facts about a version.
func Find(v Version) (Release, bool) {
	i := slices.IndexFunc(Releases, func(r Release) bool { return r.Version == v })
	if i < 0 {
		return Release{}, false
	}
	return Releases[i], true
}

// Normal returns the version that OLM compares: 5.0 for 4.23, which is the same release.
func (v Version) Normal() Version {
	if v == (Version{4, 23}) {
		return Version{5, 0}
	}
	return v
}

// described is the first version whose catalogs describe bundles.
var described = Version{4, 17}

// DescribesBundles reports whether the version's catalogs describe bundles, in a property of type olm.csv.metadata. In catalogs of
// earlier versions, bundles carry their objects, in properties of type olm.bundle.object.
func (v Version) DescribesBundles() bool { return v.Compare(described) >= 0 }
