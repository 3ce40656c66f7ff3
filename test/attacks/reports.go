package attacks

// Tests have the names that go test prints, with underscores for the spaces in command lines.
var onReports = []Attack{
	{"break lines, forge lines and hide text on a terminal, with control characters in names, channels and messages of a catalog",
		"each line of a report is escaped as a whole; invisible characters are written as \\x1b, \\n or \\u202e", "test/reports TestHostileFiles/catalog_diff_old_new"},
	{"the same in tables", "cells are escaped, and their length is limited", "test/reports TestHostileFiles/catalog_list_packages_new"},
	{"the same in findings, with file names, and in bundles", "a finding is one line, whatever it quotes", "test/reports TestHostileFiles/bundle_validate_bundles-1.0.0_bundles-none"},
	{"the same in error messages", "a message is one line; only joined errors have several", "test/reports TestHostileFiles/catalog_diff_old_broken"},
	{"the same with a tenant's Subscription, on an administrator's terminal", "as above, for everything that comes from a cluster", "test/reports TestHostileTenant/switch_plan"},
	{"control a terminal with data that is printed there", "a terminal gets only visible characters; files and programs get the data as it is", "cmd/berth TestTerminalShowsVisibleCharacters"},
	{"forge log lines with text in requests and objects", "a log message is one line", "cmd/internal/logging TestMessageIsALine"},
	{"give commands to the CI system that shows a report", "`::` at the start of a line and `##[` anywhere are escaped", "test/reports TestHostileFiles/catalog_validate_broken"},
	{"put headings, links, images, mentions and comments into a pull request", "in Markdown, all text that is not Berth's own is in code spans", "test/reports TestHostileFiles/catalog_diff_old_new_-o_markdown"},
	{"put links into SARIF", "link syntax is escaped; locations are URIs", "test/reports TestHostileFiles/catalog_validate_broken_-o_sarif"},
	{"break JUnit's XML, or forge lines in it", "characters that are invalid in XML are written as escapes", "test/reports TestHostileFiles/catalog_validate_broken_-o_junit"},
	{"break an SVG drawing, or put elements into it", "as in JUnit", "test/reports TestHostileFiles/catalog_graph_new_-o_svg"},
	{"run scripts, load resources or hide text in the HTML page", "texts are data in the page, escaped when it is written", "test/reports TestHostileFiles/catalog_graph_new_-o_html"},
	{"put nodes and edges into a Graphviz graph", "strings are quoted", "test/reports TestHostileFiles/catalog_graph_new_-o_dot"},
	{"put lines, links and directives into a Mermaid diagram", "all special characters are written as entities", "test/reports TestHostileFiles/catalog_graph_new"},
}
