package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// testsOf returns the names of the tests in a package's folder.
func testsOf(folder string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, match := range testFunction.FindAllSubmatch(source, -1) {
			names = append(names, string(match[1]))
		}
	}
	return names, nil
}

// leaves returns those of a package's tests that the first tier leaves to the second.
func (s split) leaves(tests []string) []string {
	whole := func(names []string) (top []string) {
		for _, name := range names {
			if !strings.Contains(name, "/") {
				top = append(top, name)
			}
		}
		return top
	}
	return slices.DeleteFunc(slices.Clone(tests), func(test string) bool {
		if len(s.second) > 0 {
			return !slices.Contains(whole(s.second), test)
		}
		return slices.Contains(whole(s.first), test)
	})
}

// restOf says what the second tier adds to the first.
func restOf(root string) (string, error) {
	count, seconds := 0, 0.0
	var parts []string
	for _, s := range splits {
		tests, err := testsOf(filepath.Join(root, s.pkg))
		if err != nil {
			return "", err
		}
		left := s.leaves(tests)
		count += len(left)
		seconds += s.rest
		parts = append(parts, fmt.Sprintf("%s %d", s.pkg, len(left)))
	}
	return fmt.Sprintf("make test-all adds %d tests that take about %.0f minutes together: %s", count, seconds/lanes/60+1, strings.Join(parts, ", ")), nil
}
