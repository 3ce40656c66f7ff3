package provision

import (
	"strings"
	"testing"
)

func TestParseAccessPoint(t *testing.T) {
	for text, want := range map[string]AccessPoint{
		"/a":                           {"/a", 1000, 1000, "0755"},
		"/a/b/c/d":                     {"/a/b/c/d", 1000, 1000, "0755"},
		"/a:0:4294967295":              {"/a", 0, 4294967295, "0755"},
		"/a:1:2:700":                   {"/a", 1, 2, "700"},
		"/a:1:2:0750":                  {"/a", 1, 2, "0750"},
		"":                             {},
		"/":                            {},
		"a":                            {},
		"/a/":                          {},
		"/a/b/c/d/e":                   {},
		"/a:1":                         {},
		"/a:1:2:3:4":                   {},
		"/a:-1:2":                      {},
		"/a:1:4294967296":              {},
		"/a:1:2:888":                   {},
		"/a:1:2:1777":                  {},
		"/" + strings.Repeat("a", 100): {},
	} {
		got, err := ParseAccessPoint(text)
		if got != want || (err == nil) != (want != AccessPoint{}) {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
}
