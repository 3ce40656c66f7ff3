package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// unproved marks a claim without a record on the page.
const unproved = "not proved by a record yet"

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// cell returns a text for a cell of a table on another page, without links, which may be relative, and without the ends of a row.
func cell(text string) string {
	return strings.ReplaceAll(strings.Trim(link.ReplaceAllString(text, "$1"), "| "), "|", `\|`)
}

// markdown returns the tables of docs/reference/proofs.md: all claims, by page, and the records.
func markdown(records map[string]record) string {
	var text, recorded strings.Builder
	page := ""
	for _, c := range claims {
		if c.page != page {
			page = c.page
			fmt.Fprintf(&text, "\n## %s\n\n| `CLAIM` | what the page says | shown by | record |\n| --- | --- | --- | --- |\n", strings.TrimPrefix(page, "docs/"))
		}
		proved := unproved
		if r, is := records[c.id]; is {
			proved = "[" + r.Date + "](#records)"
			recorded.WriteString(r.row())
		}
		fmt.Fprintf(&text, "| `%s` | %s | `%s` | %s |\n", c.id, cell(c.sentence), cell(c.command()), proved)
	}
	text.WriteString("\n## Records\n\n| `CLAIM` | date and commit | machine, Go | real programs | simulated | tests and duration | figures | log |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	return text.String() + recorded.String() + "\n"
}

// row returns the row of the record in the table of records.
func (r record) row() string {
	took := (time.Duration(r.Seconds) * time.Second).String()
	if r.Passed > 0 {
		took = fmt.Sprintf("%d passed in %s", r.Passed, took)
	}
	return fmt.Sprintf("| `%s` | %s, %s | %s, Go %s | %s | %s | %s | %s | `%s` |\n", r.Claim, r.Date, r.Commit, cell(r.Machine), r.Go, orNone(inWords(r.Real, "%s %s")), orNone(r.Played),
		took, orNone(inWords(r.Figures, "%s: %g")), r.Log[:len("sha256:")+12])
}

func orNone(text string) string {
	if text == "" {
		return "–"
	}
	return cell(text)
}
