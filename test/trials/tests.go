package trials

import (
	"os"
	"path/filepath"
	"regexp"
)

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// TestsIn returns the names of the tests in a package's folder.
func TestsIn(folder string) (names []string, err error) {
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
