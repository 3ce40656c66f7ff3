package node

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "1", "EMPTY": "", "NESTED": "$(A)"}
	tests := map[string]string{
		"":              "",
		"plain":         "plain",
		"$(A)":          "1",
		"x$(A)y$(A)z":   "x1y1z",
		"$(EMPTY)":      "",
		"$(UNKNOWN)":    "$(UNKNOWN)",
		"$$(A)":         "$(A)",
		"$$$(A)":        "$1",
		"$A ${A} $":     "$A ${A} $",
		"$(A":           "$(A",
		"$(NESTED)":     "$(A)",
		"$(UNKNOWN)$()": "$(UNKNOWN)$()",
		"a$b(A)$(A)":    "a$b(A)1",
		"$($(A))":       "$(1)",
	}
	for input, want := range tests {
		assert.Equalf(t, want, expand(input, vars), "expand(%q)", input)
	}
}

func TestImageRepository(t *testing.T) {
	tests := map[string]string{
		"program":                                 "program",
		"program:v1":                              "program",
		"quay.io/a/program":                       "quay.io/a/program",
		"quay.io/a/program:v1":                    "quay.io/a/program",
		"localhost:5000/program":                  "localhost:5000/program",
		"localhost:5000/program:v1@sha256:abc":    "localhost:5000/program",
		"quay.io/a/program@sha256:0123456789abcd": "quay.io/a/program",
	}
	for image, want := range tests {
		assert.Equalf(t, want, ImageRepository(image), "ImageRepository(%q)", image)
	}
}
