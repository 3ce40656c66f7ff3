package openshift

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/blang/semver/v4"
)

// MaxProperty is the type of the property that names the newest OpenShift that an operator supports. It may be in a bundle's
// properties.yaml, in the annotation olm.properties of its ClusterServiceVersion, or in a catalog.
const MaxProperty = "olm.maxOpenShiftVersion"

var majorMinor = regexp.MustCompile(`^\d+\.\d+$`)

// CheckMax checks a value of MaxProperty, as JSON. written is the value's text in YAML, or "" if that is not known: in JSON, the number
// 4.20 is 4.2. readable says that OLM nevertheless reads the intended version: it reads a number as its text, and ignores a third part of
// 0.
func CheckMax(value, written string) (readable bool, err error) {
	text := strings.Trim(value, `"`)
	version, unread := semver.ParseTolerant(text)
	readable = text != "" && unread == nil && version.EQ(semver.Version{Major: version.Major, Minor: version.Minor}) && (written == "" || written == text)
	isText := strings.HasPrefix(value, `"`)
	if readable && isText && majorMinor.MatchString(text) {
		return true, nil
	}
	return readable, fmt.Errorf("%s is %s, want MAJOR.MINOR in quotes, such as \"5.0\"", MaxProperty, text)
}
