package openshift

import (
	"fmt"
	"regexp"
)

// VersionsAnnotation is the annotation of a bundle with the versions of OpenShift whose catalogs offer it.
const VersionsAnnotation = "com.redhat.openshift.versions"

// Range is the range of versions that a bundle is for.
type Range struct {
	first Version
	last  *Version // nil for no upper limit
}

// All is the range of all versions.
var All = Range{}

// versionRange matches the value of the annotation: from a version on, only one version, or from one version to another.
var versionRange = regexp.MustCompile(`^(=?)(v?\d+\.\d+)(?:-(v?\d+\.\d+))?$`)

// ParseRange parses a value of VersionsAnnotation: v4.12 means this and all later versions, =v4.12 this version alone, v4.12-v4.15
// these and the versions between, and an empty value all versions.
// Source:
// https://redhat-connect.gitbook.io/certified-operator-guide/ocp-deployment/operator-metadata/bundle-directory/managing-openshift-versions
func ParseRange(value string) (Range, error) {
	switch value {
	case "":
		return All, nil
	case "v4.5,v4.6", "v4.6,v4.5": // allowed for historical reasons
		value = "v4.5"
	}
	found := versionRange.FindStringSubmatch(value)
	if found == nil || found[1] != "" && found[3] != "" {
		return Range{}, fmt.Errorf("is %q, so no version of OpenShift offers it; expected v4.12 (that and later versions), =v4.12 or v4.12-v4.15", value)
	}
	var r Range
	var err error
	if r.first, err = Parse(found[2]); err != nil {
		return Range{}, fmt.Errorf("is %q: %w", value, err)
	}
	switch {
	case found[1] != "":
		r.last = &r.first
	case found[3] != "":
		last, err := Parse(found[3])
		if err != nil {
			return Range{}, fmt.Errorf("is %q: %w", value, err)
		}
		if last.Compare(r.first) < 0 {
			return Range{}, fmt.Errorf("is %q, whose last version is before the first", value)
		}
		r.last = &last
	}
	return r, nil
}

// Includes reports whether a version is in the range.
func (r Range) Includes(v Version) bool {
	return r.first.Compare(v) <= 0 && (r.last == nil || v.Compare(*r.last) <= 0)
}

// Of returns the versions that are in the range.
func (r Range) Of(versions []Version) (in []Version) {
	for _, v := range versions {
		if r.Includes(v) {
			in = append(in, v)
		}
	}
	return in
}
