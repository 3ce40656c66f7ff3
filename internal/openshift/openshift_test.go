package openshift

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRange(t *testing.T) {
	for _, tc := range []struct {
		value   string
		in, out []string
	}{
		{"", []string{"4.1", "4.20", "5.0"}, nil},
		{"v4.12", []string{"4.12", "4.23", "5.0", "5.1"}, []string{"4.11"}},
		{"4.12", []string{"4.12", "4.13"}, []string{"4.11"}},
		{"=v4.12", []string{"4.12"}, []string{"4.11", "4.13"}},
		{"v4.9-v4.12", []string{"4.9", "4.10", "4.12"}, []string{"4.8", "4.13", "5.0"}},
		{"v4.22-v5.0", []string{"4.22", "4.23", "5.0"}, []string{"4.21", "5.1"}},
		{"v4.5,v4.6", []string{"4.5", "4.20"}, []string{"4.4"}},
		{"v4.6,v4.5", []string{"4.5"}, []string{"4.4"}},
	} {
		r, err := ParseRange(tc.value)
		if err != nil {
			t.Errorf("%q: %v", tc.value, err)
			continue
		}
		for included, versions := range map[bool][]string{true: tc.in, false: tc.out} {
			for _, text := range versions {
				v, err := Parse(text)
				require.NoError(t, err)
				assert.Equalf(t, included, r.Includes(v), "%q includes %s", tc.value, v)
			}
		}
	}
	for _, value := range []string{"4", "v4", "v4.12-", "-v4.12", "=v4.12-v4.14", "v4.7,v4.8", ">=4.12", "v4.14-v4.12", "v4.12.1", "v4.6 ", "latest", "v99999.1"} {
		if r, err := ParseRange(value); err == nil {
			t.Errorf("%q is read as %v", value, r)
		}
	}
}

// TestParse: a version of OpenShift has two numbers.
func TestParse(t *testing.T) {
	for text, want := range map[string]Version{"4.16": {4, 16}, "v4.9": {4, 9}} {
		if got, err := Parse(text); got != want || err != nil {
			t.Errorf("%s: got %v, error %v", text, got, err)
		}
	}
	for _, text := range []string{"", "4", "4.16.1", "v4.x", " 4.16", "-4.1"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestReleases(t *testing.T) {
	if !slices.IsSortedFunc(Releases, func(a, b Release) int { return a.Compare(b.Version) }) {
		t.Error("the releases are not in order")
	}
	for _, r := range Releases {
		if r.Minor >= 3 && r.Major == 4 && r.Kubernetes != r.Minor+13 {
			t.Errorf("%s runs Kubernetes 1.%d", r.Version, r.Kubernetes)
		}
	}
	for i, r := range Releases {
		for _, day := range []string{r.Maintained, r.Extended} {
			if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
				t.Errorf("%s is supported until %q", r.Version, day)
			}
		}
		if r.Extended != "" && r.Extended <= r.Maintained || i > 0 && r.Maintained != "" && r.Maintained <= Releases[i-1].Maintained {
			t.Errorf("%s is maintained until %s, and further until %s", r.Version, r.Maintained, r.Extended)
		}
	}
	old, ok := Find(Version{4, 23})
	now, too := Find(Version{5, 0})
	if !ok || !too || old.Kubernetes != now.Kubernetes || old.Normal() != now.Version || slices.Contains(Offering(), old.Version) || !slices.Contains(Offering(), now.Version) {
		t.Errorf("4.23 is %v, 5.0 is %v: want the same release, with catalogs for 5.0", old, now)
	}
	if _, known := Find(Version{3, 11}); known {
		t.Error("3.11 is known")
	}
}

func TestCheckMax(t *testing.T) {
	for _, tc := range []struct {
		value, written string
		readable, good bool
	}{
		{`"4.22"`, "4.22", true, true},
		{`"5.0"`, "", true, true},
		{`4.22`, "4.22", true, false},
		{`4.2`, "4.20", false, false},
		{`"4.22.0"`, "", true, false},
		{`"4.22.1"`, "", false, false},
		{`"new"`, "", false, false},
		{`""`, "", false, false},
		{`{}`, "", false, false},
	} {
		readable, err := CheckMax(tc.value, tc.written)
		if readable != tc.readable || (err == nil) != tc.good {
			t.Errorf("%s, written %q: readable %v, %v", tc.value, tc.written, readable, err)
		}
	}
}

func TestRemoved(t *testing.T) {
	for _, tc := range []struct {
		apiVersion, kind string
		kubernetes       int
	}{
		{"apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", 22},
		{"policy/v1beta1", "PodDisruptionBudget", 25},
		{"storage.k8s.io/v1beta1", "CSIStorageCapacity", 27},
		{"policy/v1", "PodDisruptionBudget", 0},
	} {
		if got, _, removed := Removed(tc.apiVersion, tc.kind); got != tc.kubernetes || removed != (tc.kubernetes > 0) {
			t.Errorf("%s %s: removed in 1.%d, want 1.%d", tc.apiVersion, tc.kind, got, tc.kubernetes)
		}
	}
}
