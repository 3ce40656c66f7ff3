// Package openshift knows the minor versions of OpenShift, the Kubernetes that they run, and the annotations by
// which bundles name them.
package openshift

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

// Version is a minor version of OpenShift, such as 4.16.
type Version struct{ Major, Minor int }

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Folder returns the folder of the version's catalogs, as operator repositories name it: v4.16.
func (v Version) Folder() string { return "v" + v.String() }

// Compare orders versions by their numbers: 4.23 is before 5.0.
func (v Version) Compare(other Version) int {
	return cmp.Or(cmp.Compare(v.Major, other.Major), cmp.Compare(v.Minor, other.Minor))
}

// versionText matches a version as people write it.
var versionText = regexp.MustCompile(`^v?(\d{1,4})\.(\d{1,4})$`)

// Parse parses a version: 4.16 or v4.16.
func Parse(text string) (Version, error) {
	found := versionText.FindStringSubmatch(text)
	if found == nil {
		return Version{}, fmt.Errorf("%q is not a version of OpenShift; expected one such as 4.16", text)
	}
	major, _ := strconv.Atoi(found[1]) // of at most four digits
	minor, _ := strconv.Atoi(found[2])
	return Version{major, minor}, nil
}
