package list

import (
	"slices"
	"unicode/utf8"
)

const (
	// gap is the number of spaces between columns.
	gap = 3
	// narrow is the number of characters that a column keeps when it is cut.
	narrow = 8
	// longestName is the length of the longest name that Kubernetes allows. Catalogs may have longer ones.
	longestName = 253
)

// nameColumns are the titles of the columns whose values the next command needs. These are never cut.
var nameColumns = []string{"PACKAGE", "CHANNEL", "DEFAULT CHANNEL", "BUNDLE", "HEAD"}

// fit fits a table into a terminal of this width, if it can: it drops empty columns, and shortens cells of the widest columns. If names
// would have to be cut, it drops other columns instead, the last one first.
func fit(table [][]string, columns int) [][]string {
	if len(table) == 0 {
		return table
	}
	if sum(widthsOf(table)) > columns {
		table = withoutEmpty(table)
	}
	widths := shrunk(table, columns)
	for last := lastOther(table); sum(widths) > columns && last >= 0; last = lastOther(table) {
		table = without(table, func(at int) bool { return at == last })
		widths = shrunk(table, columns)
	}
	for _, line := range table {
		for at := range line {
			line[at] = cut(line[at], widths[at])
		}
	}
	return table
}

// shrunk returns widths with which the table fits into the terminal, or else the smallest allowed widths.
func shrunk(table [][]string, columns int) []int {
	widths, least := widthsOf(table), widthsOf(table[1:])
	for at, title := range table[0] {
		if isName := slices.Contains(nameColumns, title); isName {
			least[at] = min(least[at], longestName)
		} else {
			least[at] = narrow
		}
	}
	for sum(widths) > columns {
		widest := -1
		for at, width := range widths {
			if width > least[at] && (widest < 0 || width > widths[widest]) {
				widest = at
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

// lastOther returns the last column without names, or -1.
func lastOther(table [][]string) int {
	for at, title := range slices.Backward(table[0]) {
		if !slices.Contains(nameColumns, title) {
			return at
		}
	}
	return -1
}

// widthsOf returns the width of each column.
func widthsOf(table [][]string) []int {
	var widths []int
	for _, line := range table {
		for at, cell := range line {
			if at == len(widths) {
				widths = append(widths, 0)
			}
			widths[at] = max(widths[at], utf8.RuneCountInString(cell))
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
	return without(table, func(at int) bool {
		return len(table) > 1 && !slices.ContainsFunc(table[1:], func(line []string) bool { return line[at] != "-" })
	})
}

// without returns a table without some of the columns.
func without(table [][]string, dropped func(at int) bool) [][]string {
	left := make([][]string, len(table))
	for at := range table[0] {
		if dropped(at) {
			continue
		}
		for i, line := range table {
			left[i] = append(left[i], line[at])
		}
	}
	return left
}

// cut shortens a text to a number of characters, the last of which is an ellipsis.
func cut(text string, width int) string {
	if characters := []rune(text); len(characters) > width {
		return string(characters[:width-1]) + "…"
	}
	return text
}
