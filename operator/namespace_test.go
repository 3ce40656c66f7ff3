package operator

import "testing"

func TestChooseNamespace(t *testing.T) {
	for _, tc := range []struct {
		name  string
		found []namesake
		want  string
	}{
		{"none", nil, "own"},
		{"an earlier operator's", []namesake{{"old", false}}, "old"},
		{"this operator's, from another namespace", []namesake{{"before", true}}, "before"},
		{"the own one before all", []namesake{{"a", true}, {"own", false}, {"b", true}}, "own"},
		{"where this operator was before where an earlier one was", []namesake{{"a", false}, {"b", true}, {"c", true}}, "b"},
		{"the same in any order", []namesake{{"c", false}, {"b", false}, {"d", false}}, "b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := chooseNamespace("own", tc.found); got != tc.want {
				t.Errorf("the driver is in %q, want %q", got, tc.want)
			}
		})
	}
}
