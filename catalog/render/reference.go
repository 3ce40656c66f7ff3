package render

import (
	"fmt"
	"regexp"
	"strings"
)

// ImageTemplate makes the pull spec of the image of a bundle in a folder, as opm's --image-ref-template does.
type ImageTemplate struct{ text string }

// placeholders are the fields of a bundle in an ImageTemplate.
var placeholders = regexp.MustCompile(`\{\{-? *\.(Package|Name|Version) *-?\}\}`)

// ParseImageTemplate parses a text with {{.Package}}, {{.Name}} and {{.Version}}. It accepts nothing else from Go's templates.
func ParseImageTemplate(text string) (*ImageTemplate, error) {
	if rest := placeholders.ReplaceAllString(text, ""); text == "" || strings.Contains(rest, "{{") {
		return nil, fmt.Errorf("%q is not a pull spec with placeholders; expected one such as quay.io/example/{{.Package}}-bundle:v{{.Version}}, with {{.Package}}, {{.Name}} and {{.Version}}", text)
	}
	return &ImageTemplate{text}, nil
}

// image returns the pull spec of a bundle, or "" without a template.
func (t *ImageTemplate) image(pkg, name, version string) string {
	if t == nil {
		return ""
	}
	return placeholders.ReplaceAllStringFunc(t.text, func(placeholder string) string {
		switch placeholders.FindStringSubmatch(placeholder)[1] {
		case "Package":
			return pkg
		case "Name":
			return name
		}
		return version
	})
}
