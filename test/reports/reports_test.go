// Package reports_test runs berth with catalogs, bundles and a cluster that contain hostile texts, and compares each
// report with the report of harmless input.
package reports_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/awalterschulze/gographviz"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/browser"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// command is a command line, and the format of its standard output.
type command struct {
	args   string
	medium string
	code   int
}

var commands = []command{
	{"catalog validate new --against old", "text", 0},
	{"catalog validate new --against old -o json", "json", 0},
	{"catalog validate broken", "text", 1},
	{"catalog validate broken -o json", "json", 1},
	{"catalog validate broken -o sarif", "sarif", 1},
	{"catalog validate broken -o junit", "xml", 1},
	{"catalog validate strange", "text", 1},
	{"catalog validate unreadable", "text", 1},
	{"catalog validate new --against broken", "text", 2},
	{"catalog validate new --baseline baseline.json", "text", 2},
	{"catalog validate new --for olm-v1", "text", 1},
	{"catalog list packages new", "text", 0},
	{"catalog list channels new", "text", 0},
	{"catalog list bundles new", "text", 0},
	{"catalog list bundles new -o wide", "text", 0},
	{"catalog list bundles new -o json", "json", 0},
	{"catalog list bundles broken", "text", 2},
	{"catalog diff old new", "text", 1},
	{"catalog diff old new --fail-on never", "text", 0},
	{"catalog diff old new --for olm-v1", "text", 1},
	{"catalog diff old new none", "text", 2},
	{"catalog diff old new -o json", "json", 1},
	{"catalog diff old new -o markdown", "markdown", 1},
	{"catalog diff old broken", "text", 2},
	{"catalog lifecycle new", "text", 0},
	{"catalog lifecycle new -o json", "json", 0},
	{"catalog lifecycle new -o svg", "xml", 0},
	{"catalog lifecycle old", "text", 2},
	{"catalog graph new", "mermaid", 0},
	{"catalog graph new -o dot", "dot", 0},
	{"catalog graph new -o svg", "xml", 0},
	{"catalog graph new -o html", "html", 0},
	{"catalog graph new -o html --for olm-v1", "html", 0},
	{"catalog graph unreadable", "text", 2},
	{"catalog plan new tide@1.0.0", "text", 0},
	{"catalog plan new tide@1.0.0 -o json", "json", 0},
	{"catalog plan new tide@9.0.0", "text", 1},
	{"catalog plan new tide@1.0.0 --channel gone", "text", 1},
	{"catalog plan new tide@1.0.0 --olm v1", "text", 1},
	{"catalog plan new tide@1.0.0 --olm v1 -o json", "json", 1},
	{"catalog plan new --extension new", "text", 2},
	{"catalog plan broken tide@1.0.0", "text", 2},
	{"catalog render broken", "text", 2},
	{"catalog image broken --layout layout", "text", 2},
	{"catalog build template.yaml --output-dir built", "text", 2},
	{"catalog build bundles/none --output-dir built", "text", 2},
	{"catalog serve broken --address 127.0.0.1:0", "text", 2},
	{"bundle validate bundles/1.0.0 bundles/none", "findings", 1},
	{"bundle validate bundles/1.0.0 bundles/none -o json", "findings in json", 1},
	{"bundle validate bundles/1.0.0 bundles/none -o sarif", "findings in sarif", 1},
	{"bundle validate bundles/1.0.0 bundles/none -o junit", "findings in xml", 1},
	{"bundle validate bundles/1.0.0 --for olm-v1", "findings", 1},
	{"bundle permissions bundles/1.0.0", "text", 0},
	{"bundle permissions bundles/1.0.0 -o json", "json", 0},
	{"bundle permissions bundles/1.0.0 --against bundles/2.0.0 -o markdown", "markdown", 0},
	{"check repository --profile community", "findings", 1},
	{"check repository --profile community -o json", "findings in json", 1},
	{"check repository --profile certified -o sarif", "findings in sarif", 1},
	{"check repository --profile community -o junit", "findings in xml", 1},
	{"check repository --profile community -o markdown", "findings in markdown", 1},
	{"check strange", "text", 2},
	{"bundle image bundles/torn --layout layout", "text", 2},
	{"bundle bump bundles/1.0.0", "text", 0},
	{"switch apply -f new", "text", 2},
	{"move apply -f new", "text", 2},
}

// structures return the structure of a report, without its texts. It must be the same as with harmless input.
var structures = map[string]func(*testing.T, string) string{
	"text": linesOf, "json": jsonOf, "sarif": sarifOf, "xml": xmlOf, "markdown": markdownOf, "mermaid": mermaidOf, "dot": dotOf, "html": htmlOf,
	// How many rules of the API server a text breaks depends on the text, but each finding has the same form.
	"findings": findingsOf, "findings in json": distinct(jsonOf), "findings in sarif": distinct(sarifOf), "findings in xml": distinct(findingsInXML), "findings in markdown": distinct(numberless(markdownOf)),
}

// program is berth, as a user runs it.
func program(t *testing.T) string {
	t.Helper()
	programs, err := tools.Programs(t.Context(), "./cmd/berth")
	require.NoError(t, err)
	return programs.Path("berth")
}

var allPairs = flag.Bool("all-pairs", false, "try each hostile text with each command, and not only one of each kind")

// TestHostileFiles runs each command with files of an attacker. Each hostile text comes to several commands, and one that is of all kinds
// at once to all.
func TestHostileFiles(t *testing.T) {
	berth := program(t)
	type pair struct{ hostile, harmless *input }
	inputs := map[string]pair{}
	for name, text := range hostile {
		inputs[name] = pair{newInput(t, text), newInput(t, harmless(text))}
	}
	names := slices.Sorted(maps.Keys(inputs))
	for i, c := range commands {
		t.Run(strings.ReplaceAll(c.args, "/", "-"), func(t *testing.T) {
			t.Parallel()
			for j, name := range names {
				if !*allPairs && name != "all at once" && j != i%len(names) {
					continue
				}
				w := inputs[name]
				t.Run(name, func(t *testing.T) {
					wantOut, wantErr := check(t, berth, w.harmless.dir, c)
					out, stderr := check(t, berth, w.hostile.dir, c)
					mustBeVisible(t, "standard output", out)
					mustBeVisible(t, "standard error", stderr)
					assert.Emptyf(t, cmp.Diff(linesOf(t, wantErr), linesOf(t, stderr)), "lines of standard error (-harmless +hostile):\n%q", stderr)
					structure := structures[c.medium]
					assert.Emptyf(t, cmp.Diff(structure(t, wantOut), structure(t, out)), "structure of standard output (-harmless +hostile):\n%s", out)
				})
			}
		})
	}
}

// check runs a command, checks its exit code, and returns its output.
func check(t *testing.T, berth, dir string, c command) (string, string) {
	t.Helper()
	out, stderr, code := run(t, berth, dir, strings.Fields(c.args)...)
	assert.Equalf(t, c.code, code, "berth %s: exit code\n%s%s", c.args, out, stderr)
	return out, stderr
}

// run runs a command, and returns its output and exit code.
func run(t *testing.T, berth, dir string, args ...string) (string, string, int) {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), berth, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG=none", "HOME="+dir)
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return out.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// mustBeVisible checks that a terminal shows the output as it is, and that a CI system finds no commands in it.
func mustBeVisible(t *testing.T, what, written string) {
	t.Helper()
	for line := range strings.Lines(written) {
		line = strings.TrimSuffix(line, "\n")
		if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool {
			return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp, unicode.Noncharacter_Code_Point)
		}) {
			t.Errorf("%s has invisible characters: %q", what, line)
		}
		if strings.HasPrefix(strings.TrimSpace(line), "::") || regexp.MustCompile(`##[a-z]*\[`).MatchString(line) {
			t.Errorf("%s has a command for a CI system: %q", what, line)
		}
	}
}

func linesOf(_ *testing.T, written string) string {
	return fmt.Sprintf("%d lines", strings.Count(written, "\n"))
}

var findingLine = regexp.MustCompile(`^(bundles/(1\.0\.0|none)(/(manifests|metadata)/.*:\d+:\d+: (error|warning): .*|: \d+ errors, \d+ warnings)|repository/operators/tide.*: (error|warning): .*)$`)

// findingsOf checks that each line is a finding, or the number of them.
func findingsOf(t *testing.T, written string) string {
	t.Helper()
	for line := range strings.SplitSeq(strings.TrimSuffix(written, "\n"), "\n") {
		assert.Truef(t, findingLine.MatchString(line), "a line is no finding: %q", line)
	}
	return ""
}

// findingsInXML also checks that each line of the texts is a finding.
func findingsInXML(t *testing.T, written string) string {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(written)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return xmlOf(t, written)
		}
		require.NoError(t, err)
		if text, is := token.(xml.CharData); is && strings.TrimSpace(string(text)) != "" {
			findingsOf(t, string(text))
		}
	}
}

var lineCount = regexp.MustCompile(`\d+ lines`)

// distinct returns the lines that a structure has, each once.
func distinct(structure func(*testing.T, string) string) func(*testing.T, string) string {
	return func(t *testing.T, written string) string {
		t.Helper()
		lines := slices.Sorted(strings.Lines(lineCount.ReplaceAllString(structure(t, written), "lines") + "\n"))
		return strings.Join(slices.Compact(lines), "")
	}
}

var number = regexp.MustCompile(`\d+`)

// numberless returns a structure without the numbers in its texts.
func numberless(structure func(*testing.T, string) string) func(*testing.T, string) string {
	return func(t *testing.T, written string) string {
		t.Helper()
		return number.ReplaceAllString(structure(t, written), "N")
	}
}

func jsonOf(t *testing.T, written string) string {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal([]byte(written), &value))
	return shapeOf(value)
}

// shapeOf returns a JSON value without its texts and numbers.
func shapeOf(value any) string {
	var parts []string
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			parts = append(parts, shapeOf(v))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		for _, v := range value {
			parts = append(parts, shapeOf(v))
		}
		return "[\n" + strings.Join(parts, "\n") + "\n]"
	}
	return fmt.Sprintf("%T", value)
}

// sarifOf also checks that messages have no links, and that places are URIs.
func sarifOf(t *testing.T, written string) string {
	t.Helper()
	var log struct {
		Runs []struct {
			Results []struct {
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(written), &log))
	for _, r := range log.Runs[0].Results {
		mustBeVisible(t, "a message", r.Message.Text)
		assert.NotContains(t, r.Message.Text, "](", "a message has a link")
		uri := r.Locations[0].PhysicalLocation.ArtifactLocation.URI
		if parsed, err := url.Parse(uri); err != nil || parsed.Scheme != "" || parsed.Host != "" || strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("URI %q: %v", uri, err)
		}
	}
	return jsonOf(t, written)
}

// xmlOf returns the elements and their attributes, without texts.
func xmlOf(t *testing.T, written string) string {
	t.Helper()
	var structure strings.Builder
	for decoder := xml.NewDecoder(strings.NewReader(written)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return structure.String()
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			fmt.Fprintf(&structure, "<%s", token.Name.Local)
			for _, a := range token.Attr {
				fmt.Fprintf(&structure, " %s", a.Name.Local)
			}
			structure.WriteString(">\n")
		case xml.EndElement:
			structure.WriteString("</>\n")
		case xml.CharData:
			fmt.Fprintf(&structure, "%d lines\n", strings.Count(string(token), "\n"))
		default:
			fmt.Fprintf(&structure, "%T\n", token)
		}
	}
}

// markdownOf returns the elements that GitHub's Markdown has in a text. There must be no link, image or HTML.
func markdownOf(t *testing.T, written string) string {
	t.Helper()
	source := []byte(written)
	parsed := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote)).Parser().Parse(text.NewReader(source))
	var structure strings.Builder
	depth := 0
	require.NoError(t, ast.Walk(parsed, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			depth--
			return ast.WalkContinue, nil
		}
		fmt.Fprintf(&structure, "%s%s", strings.Repeat(" ", depth), n.Kind())
		if plain, is := n.(*ast.Text); is && n.Parent().Kind() != ast.KindCodeSpan {
			fmt.Fprintf(&structure, " %q", plain.Segment.Value(source))
		}
		structure.WriteString("\n")
		if slices.Contains([]ast.NodeKind{ast.KindLink, ast.KindImage, ast.KindAutoLink, ast.KindRawHTML, ast.KindHTMLBlock}, n.Kind()) {
			t.Errorf("there is a %s in it", n.Kind())
		}
		depth++
		return ast.WalkContinue, nil
	}))
	return structure.String()
}

var mermaidString = regexp.MustCompile(`"[^"\n]*"`)

// mermaidOf returns a diagram without its quoted texts.
func mermaidOf(t *testing.T, written string) string {
	t.Helper()
	for _, quoted := range mermaidString.FindAllString(written, -1) {
		// Such as a directive, which Mermaid executes even in labels.
		assert.Falsef(t, strings.ContainsAny(mermaidEntity.ReplaceAllString(quoted, ""), "%;`[]{}|\\:#"), "a label has more than text: %s", quoted)
	}
	return mermaidString.ReplaceAllString(written, `""`)
}

var mermaidEntity = regexp.MustCompile(`#\w+;`)

// dotOf returns the nodes, edges and clusters of a graph, as a DOT parser reads them.
func dotOf(t *testing.T, written string) string {
	t.Helper()
	parsed, err := gographviz.ParseString(written)
	require.NoError(t, err)
	graph := gographviz.NewGraph()
	require.NoError(t, gographviz.Analyse(parsed, graph))
	var structure []string
	for _, n := range graph.Nodes.Sorted() {
		structure = append(structure, fmt.Sprintf("%s %d attributes", n.Name, len(n.Attrs)))
		assert.Falsef(t, regexp.MustCompile(`(^|[^\\])(\\\\)*\\[^\\"]`).MatchString(n.Attrs["label"]), "label %s has an escape", n.Attrs["label"])
	}
	for _, e := range graph.Edges.Sorted() {
		structure = append(structure, fmt.Sprintf("%s -> %s", e.Src, e.Dst))
	}
	return strings.Join(structure, "\n")
}

// htmlOf opens a page in a browser and each version in it. It returns the elements. Package browser checks that the
// page has no errors and loads nothing.
func htmlOf(t *testing.T, written string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(path, []byte(written), 0o644))
	page := browser.Open(t, 1280, 800)
	page.Load(path)
	var elements []string
	var title, shown string
	page.Eval(`(() => {
		const described = e => e.closest(".text"); // descriptions are Markdown, and some of its elements are shown
		let seen = [];
		const look = () => { for (const e of document.querySelectorAll("*")) if (!described(e)) seen.push(e.tagName + " " + e.getAttributeNames().join(" ")); };
		look();
		for (const name of [...document.querySelectorAll("#drawing .node")].map(n => n.dataset.name)) {
			choose(name);
			look();
			if (shown.versions.some(v => v.name === name) !== !!document.querySelector("#details .text")) seen.push("not found: " + name);
			for (const e of document.querySelectorAll(".text *")) if (!/^(LI|P|CODE|STRONG|PRE|OL|UL|H4|A)$/.test(e.tagName) || e.tagName === "A" && !/^https?:/.test(e.href)) seen.push("in the description: " + e.outerHTML);
		}
		return seen;
	})()`, &elements)
	page.Eval(`document.title`, &title)
	page.Eval(`document.documentElement.innerText + [...document.querySelectorAll("#drawing title")].map(t => t.textContent).join("\n")`, &shown)
	assert.Equal(t, "Updates of tide", title, "the title")
	for line := range strings.Lines(shown) {
		if strings.ContainsFunc(strings.Trim(line, "\n\t"), func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != '\t' }) {
			t.Errorf("the page has invisible characters: %q", line)
		}
	}
	return strings.Join(elements, "\n")
}
