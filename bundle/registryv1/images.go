package registryv1

import (
	"regexp"
	"strings"

	"github.com/distribution/reference"
)

// imageVariable matches environment variables that hold images, by the two usual conventions.
var imageVariable = regexp.MustCompile(`(^RELATED_IMAGE_|_IMAGE$)`)

// NamesImage reports whether an environment variable of an operator's container names an image to the operator: its value has a
// path, a tag or a digest, and is not a setting such as PULL_IMAGE=true.
func NamesImage(variable, value string) bool {
	if !imageVariable.MatchString(variable) || !strings.ContainsAny(value, "/:@") {
		return false
	}
	_, err := reference.ParseNormalizedNamed(value)
	return err == nil
}
