package nearest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOf(t *testing.T) {
	names := []string{"aws-efs-operator", "channel-path", "channel-path-by-range", "channel-head", "list", "tide", "tides"}
	for given, want := range map[string][]string{
		"chanel-path":            {"channel-path"},
		"channel-paht":           {"channel-path"}, // two exchanged
		"Channel-Path":           {"channel-path", "channel-path-by-range"},
		"tied":                   {"tide"},
		"tids":                   {"tide", "tides"},
		"lits":                   {"list"},
		"aws":                    {"aws-efs-operator"}, // the beginning
		"channel":                {"channel-head", "channel-path", "channel-path-by-range"},
		"aw":                     nil, // too short to be the beginning
		"flood":                  nil,
		"":                       nil,
		strings.Repeat("t", 100): nil,
	} {
		assert.Equal(t, want, Of(given, names), given)
	}
}

func TestHint(t *testing.T) {
	if got, want := Hint("tids", []string{"tides", "tide", "tide"}), "; did you mean tide or tides?"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	assert.EqualValues(t, "", Hint("moon", []string{"tide"}))
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "ab", 1}, {"abc", "xbc", 1}, {"abcd", "badc", 2}, {"潮汐", "汐潮", 1}} {
		assert.EqualValuesf(t, test.want, distance([]rune(test.a), []rune(test.b)), "%q, %q", test.a, test.b)
	}
}
