package list

import "unicode/utf8"

const (
	// gap is the number of spaces between columns.
	gap = 3
	// narrowest is the number of characters that a cell keeps, at least.
	narrowest = 8
)

// fit shortens the cells of the widest columns of a table until it is not wider than a number of columns of a terminal, or all cells
// are as narrow as can be.
func fit(table [][]string, columns int) {
	if len(table) == 0 {
		return
	}
	widths := make([]int, len(table[0]))
	total := gap * (len(widths) - 1)
	for at := range widths {
		for _, line := range table {
			widths[at] = max(widths[at], utf8.RuneCountInString(line[at]))
		}
		total += widths[at]
	}
	for ; total > columns; total-- {
		widest := 0
		for at := range widths {
			if widths[at] > widths[widest] {
				widest = at
			}
		}
		if widths[widest] <= narrowest {
			break
		}
		widths[widest]--
	}
	for _, line := range table {
		for at := range line {
			line[at] = cut(line[at], widths[at])
		}
	}
}

// cut shortens a text to a number of characters. An ellipsis is the last of them.
func cut(text string, width int) string {
	if characters := []rune(text); len(characters) > width {
		return string(characters[:width-1]) + "…"
	}
	return text
}
