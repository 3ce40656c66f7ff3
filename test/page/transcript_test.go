package page

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestShows(t *testing.T) {
	for _, tc := range []struct {
		shown, printed string
		want           bool
	}{
		{"a\nb", "a\nb", true}, {"a\nb", "a\nb\nc", false}, {"a\n…\nc", "a\nb\nb\nc", true}, {"a\n  …\nc", "a\nb\nc", true}, {"a\n…\nc", "a\nc", true}, {"…\nc", "a\nb\nc", true}, {"…\nc", "c", true}, {"…\nc", "a\nb", false}, {"a\n…\nc", "a\nb", false},
		{"a.", "ab", false}, {"sha256:4d…", "sha256:4dff", true}, {"sha256:4d…", "sha256:5", false}, {"", "", true}, {"", "a", false},
	} {
		assert.Equalf(t, tc.want, Shows(tc.shown, tc.printed), "%q shows %q", tc.shown, tc.printed)
	}
}
