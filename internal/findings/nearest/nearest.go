// Package nearest finds the names that a user may have meant by a mistyped one.
package nearest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
)

const (
	// lengthLimit is the maximum length of names that are compared. It bounds the cost for names that others have chosen.
	lengthLimit = 64
	// nameLimit is the number of names in a hint.
	nameLimit = 3
)

// Hint returns "; did you mean NAME?" for names that differ from the given one in a few characters or begin with it. It returns
// "" if there are none.
func Hint(given string, names []string) string {
	near := Of(given, names)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

// Version returns "; did you mean 1.2.3?" for a version that was given as v1.2.3, as Git's tags have it, and otherwise "".
func Version(given string) string {
	number, is := strings.CutPrefix(given, "v")
	if _, err := semver.Parse(number); !is || err != nil {
		return ""
	}
	return "; did you mean " + number + "?"
}

// Of returns the names that are nearest to the given one, the nearest first, and three at most. A version after an @ is not a part of the
// name.
func Of(given string, names []string) []string {
	given, _, _ = strings.Cut(given, "@")
	type candidate struct {
		name     string
		distance int
	}
	typed := []rune(strings.ToLower(given))
	if len(typed) == 0 || len(typed) > lengthLimit {
		return nil
	}
	limit := min(max(len(typed)/3, 1), 3)
	var near []candidate
	for _, name := range names {
		if len(name) > lengthLimit {
			continue
		}
		other := []rune(strings.ToLower(name))
		switch {
		case len(typed) >= 3 && strings.HasPrefix(string(other), string(typed)):
			near = append(near, candidate{name, limit})
		case max(len(typed)-len(other), len(other)-len(typed)) > limit:
		default:
			if d := distance(typed, other); d <= limit {
				near = append(near, candidate{name, d})
			}
		}
	}
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	near = slices.Compact(near)
	var found []string
	for _, c := range near[:min(len(near), nameLimit)] {
		found = append(found, c.name)
	}
	return found
}

// distance returns the number of characters to add, remove, replace or exchange with the next one to turn one text into the
// other.
func distance(a, b []rune) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		row, above, twoAbove := rows[i%3], rows[(i+2)%3], rows[(i+1)%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			changed := 1
			if a[i-1] == b[j-1] {
				changed = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+changed)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], twoAbove[j-2]+1)
			}
		}
	}
	return rows[len(a)%3][len(b)]
}
