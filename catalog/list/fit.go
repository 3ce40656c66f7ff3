package list

import (
	"slices"
	"unicode/utf8"
)

const (
	// gap is the number of spaces between columns.
	gap = 3
	// Columns are cut in this order: other columns to narrow characters, names to wide, other columns to narrowest, names to narrowest.
	wide      = 24
	narrow    = 8
	narrowest = 3
)

// nameColumns are the titles of the columns whose values the next command needs.
var nameColumns = []string{"PACKAGE", "CHANNEL", "BUNDLE"}

// fit fits a table into a terminal of this width, if it can: it drops empty columns, and shortens cells of the widest columns, names
// last.
func fit(table [][]string, columns int) [][]string {
	if len(table) == 0 {
		return table
	}
	if sum(widthsOf(table)) > columns {
		table = withoutEmpty(table)
	}
	widths := widthsOf(table)
	for _, step := range []struct {
		ofNames bool
		least   int
	}{{false, narrow}, {true, wide}, {false, narrowest}, {true, narrowest}} {
		for sum(widths) > columns {
			widest := -1
			for at, title := range table[0] {
				if slices.Contains(nameColumns, title) == step.ofNames && (widest < 0 || widths[at] > widths[widest]) {
					widest = at
				}
			}
			if widest < 0 || widths[widest] <= step.least {
				break
			}
			widths[widest]--
		}
	}
	for _, line := range table {
		for at := range line {
			line[at] = cut(line[at], widths[at])
		}
	}
	return table
}

// widthsOf returns the width of each column.
func widthsOf(table [][]string) []int {
	widths := make([]int, len(table[0]))
	for at := range widths {
		for _, line := range table {
			widths[at] = max(widths[at], utf8.RuneCountInString(line[at]))
		}
	}
	return widths
}

// sum returns the width of a table whose columns have these widths.
func sum(widths []int) int {
	total := gap * (len(widths) - 1)
	for _, width := range widths {
		total += width
	}
	return total
}

// withoutEmpty returns a table without the columns that have a dash in every line.
func withoutEmpty(table [][]string) [][]string {
	full := make([][]string, len(table))
	for at := range table[0] {
		if len(table) > 1 && !slices.ContainsFunc(table[1:], func(line []string) bool { return line[at] != "-" }) {
			continue
		}
		for i, line := range table {
			full[i] = append(full[i], line[at])
		}
	}
	return full
}

// cut shortens a text to a number of characters, the last of which is an ellipsis.
func cut(text string, width int) string {
	if characters := []rune(text); len(characters) > width {
		return string(characters[:width-1]) + "…"
	}
	return text
}
