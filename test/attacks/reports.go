package attacks

// The names of tests are as go test has them: spaces of command lines are underscores there.
var onReports = []Attack{
	{"end lines, forge others and hide text on a terminal, by control characters in names, channels and messages of a catalog",
		"each line of a report is escaped as a whole; what is not visible is written as \\x1b, \\n or \\u202e", "test/reports TestHostileFiles/catalog_diff_old_new"},
	{"the same in tables", "cells are escaped, and bounded", "test/reports TestHostileFiles/catalog_list_packages_new"},
	{"the same in findings, by names of files, and in bundles", "a finding is a line, whatever it quotes", "test/reports TestHostileFiles/bundle_validate_bundles-1.0.0_bundles-none"},
	{"the same in error messages", "each message is a line; only errors that are joined have several", "test/reports TestHostileFiles/catalog_diff_old_broken"},
	{"the same by a tenant's Subscription, on the terminal of an administrator", "as above, for all that a cluster says", "test/reports TestHostileTenant/switch_plan"},
	{"have data act on a terminal that is printed there", "a terminal gets visible characters only; files and programs get the data", "cmd/berth TestTerminalShowsVisibleCharacters"},
	{"forge lines of a log by what requests and objects quote", "a message of the log is a line", "cmd/internal/logging TestMessageIsALine"},
	{"give commands to the CI system that shows a report", "`::` where a line begins and `##[` anywhere are escaped", "test/reports TestHostileFiles/catalog_validate_broken"},
	{"put headings, links, images, mentions and comments into a pull request", "in Markdown, all that is not Berth's own stands in code spans", "test/reports TestHostileFiles/catalog_diff_old_new_-o_markdown"},
	{"put links into SARIF", "what would be one is escaped; places are URIs", "test/reports TestHostileFiles/catalog_validate_broken_-o_sarif"},
	{"break JUnit's XML, or forge lines in it", "characters that XML does not have are written as escapes", "test/reports TestHostileFiles/catalog_validate_broken_-o_junit"},
	{"break a drawing, or put elements into it", "as in JUnit", "test/reports TestHostileFiles/catalog_graph_new_-o_svg"},
	{"run scripts in the page, load things, or hide text there", "texts are data of the page, escaped when that is written", "test/reports TestHostileFiles/catalog_graph_new_-o_html"},
	{"put nodes and edges into a graph of Graphviz", "strings are quoted", "test/reports TestHostileFiles/catalog_graph_new_-o_dot"},
	{"put lines, links and directives into a Mermaid diagram", "all but plain characters are entities", "test/reports TestHostileFiles/catalog_graph_new"},
}
