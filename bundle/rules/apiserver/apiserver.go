// Package apiserver checks objects as the API server does when they are created, with the API server's own code.
package apiserver

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Fault is a reason why the API server refuses an object, or a warning from the API server.
type Fault struct {
	// Path leads to the field, by keys (string) and indices (int). A missing field has the path that it should have.
	Path    []any
	Message string
	// Warning says that the API server nevertheless accepts the object.
	Warning bool
}

// Below returns the fault for a larger object, which contains this object at a path.
func (f Fault) Below(path ...any) Fault {
	f.Path = append(append([]any{}, path...), f.Path...)
	return f
}

// longest is the maximum length of a message, in characters: values may be whole objects.
const longest = 400

var wrongType = regexp.MustCompile(`in body must be of type (\w+): "(\w+)"$`)

// faultOf converts an error of the API server about a field.
func faultOf(err *field.Error) Fault {
	message := err.Error()
	if types := wrongType.FindStringSubmatch(message); types != nil {
		message = fmt.Sprintf("%s is %s; expected %s%s", err.Field, named(types[2]), named(types[1]), inQuotes(types[1]))
	}
	if runes := []rune(message); len(runes) > longest {
		message = string(runes[:longest]) + "…"
	}
	return Fault{Path: parse(err.Field), Message: message}
}

// named returns the name of a type with its article.
func named(kind string) string {
	if strings.ContainsAny(kind[:1], "aio") {
		return "an " + kind
	}
	return "a " + kind
}

// inQuotes returns the advice to quote a value that YAML does not read as a string.
func inQuotes(wanted string) string {
	if wanted == "string" {
		return ": put the value in quotes"
	}
	return ""
}

// parse returns the keys and indices of a path such as spec.ports[0].name or metadata.annotations[example.com/a].
func parse(text string) (path []any) {
	for text != "" {
		switch {
		case text[0] == '.':
			text = text[1:]
		case text[0] == '[':
			inside, rest, closed := strings.Cut(text[1:], "]")
			if !closed {
				return path
			}
			if index, err := strconv.Atoi(inside); err == nil {
				path = append(path, index)
			} else {
				path = append(path, inside)
			}
			text = rest
		default:
			end := strings.IndexAny(text, ".[")
			if end < 0 {
				end = len(text)
			}
			path, text = append(path, text[:end]), text[end:]
		}
	}
	return path
}
