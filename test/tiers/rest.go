package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-csi/berth/test/trials"
)

// tierOf returns the tier of a test without subtests.
func (s split) tierOf(test string) string {
	switch {
	case slices.Contains(s.third, test):
		return third
	case s.isLate(), slices.Contains(s.second, test), len(s.first) > 0 && !slices.Contains(s.first, test):
		return second
	}
	return first
}

// restOf describes how many tests the other tiers add to the first, and how long they take.
func restOf(root string, labChanged bool) (string, error) {
	count, seconds := map[string]int{}, 0.0
	var parts []string
	for _, s := range splits {
		tests, err := trials.TestsIn(filepath.Join(root, s.pkg))
		if err != nil {
			return "", err
		}
		here := 0
		if strings.HasPrefix(s.pkg, labFolder) && !labChanged {
			continue
		}
		for _, test := range tests {
			tier := s.tierOf(test)
			count[tier]++
			if tier == second {
				here++
			}
		}
		seconds += s.rest
		parts = append(parts, fmt.Sprintf("%s %d", s.pkg, here))
	}
	if !labChanged {
		parts = append(parts, "and all of the lab's own tests")
	}
	return fmt.Sprintf("make test-all adds %d tests that take about %.0f minutes together: %s\nmake test-long adds %d more", count[second], seconds/lanes/60+1, strings.Join(parts, ", "), count[third]), nil
}
