package escape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hostile are texts that an attacker might choose.
var hostile = []string{
	"", " ", "tide", "tide\n", "tide\r", "\ttide", `tide\n`, `\`, `\\`, `\x1b`, "\\\x1b", "\\\n", "a\\", "\x1b[31mred\x1b[0m", "\x1b]8;;http://sea.example.com\a",
	"\u009b31m", "\x7f", "\x00", "\x80", "\xff\xfe", "\xe2\x80", "\u202etxt.exe", "\u2066\u2069", "\u200b", "\u200d", "\ufeff", "\u2028", "\u2029", "\u00ad", "\u3164",
	"\U000e0041", "\ufe0f", "\ufffd", "\ufffe", "\u00a0", "é", "潮", "<b>&amp;</b>", "&#60;", `"quoted"`, "'", "`", "``", "` `", " ` ", "a`b``c", "$`x`$",
	"<!-- ", "-->", "<script>alert(1)</script>", "[x](http://sea.example.com)", "![x](http://sea.example.com/x.png)", "a](b", "](", "|", "@crew", "#13", "http://sea.example.com",
	"::error::x", "  ::error::x", "a ::error::", "##[error]x", "x ##vso[task.x]", "###[x", "##", "## Tides [1]",
	`\N \G \l`, "a;b", "%%{init: {}}%%", "%% x", "end", "click a b", "c0n0[\"x\"]", "#quot;", "#35;", "style x:#", "ﬂ°lt¶ß", "```", "{0}", "javascript:alert(1)",
}

// media are the functions that escape text for a medium, each with a regular expression that its output must match.
var media = []struct {
	name   string
	escape func(string) string
	only   string
	back   func(string) string // what a reader of the medium sees; nil for the text itself
}{
	{"Visible", Visible, `.*`, nil},
	{"Line", Line, `([^#]|#[^#]|##[^\[A-Za-z]|##$|#$|##[A-Za-z]+([^\[A-Za-z]|$))*`, nil},
	{"Cell", Cell, `.*`, nil},
	{"Markdown", Markdown, "(`.*`)?", nil},
	{"HTML", HTML, `([^<>&"']|&(lt|gt|amp|#34|#39);)*`, html.UnescapeString},
	{"DOT", DOT, `"([^"\\]|\\\\|\\")*"`, func(text string) string {
		return html.UnescapeString(strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(text))
	}},
	{"Mermaid", Mermaid, `([\pL\pM\p{Nd} .,+=()/_!?'-]|#(\d+|quot|lt|gt|amp);)*`, func(text string) string {
		return html.UnescapeString(mermaidEntity.ReplaceAllStringFunc(text, func(entity string) string {
			if unicode.IsDigit(rune(entity[1])) {
				return "&" + entity
			}
			return "&" + entity[1:]
		}))
	}},
	{"SARIF", SARIF, `([^\]]|\][^(]|\]$)*`, nil},
}

var (
	mermaidEntity = regexp.MustCompile(`#\w+;`)
	backticks     = regexp.MustCompile("`+")
)

var only = map[string]*regexp.Regexp{}

func init() {
	for _, m := range media {
		only[m.name] = regexp.MustCompile(`^(?s:` + m.only + `)$`)
	}
}

// check checks that in each medium a text is shown as itself and as nothing else.
func check(t *testing.T, text string) {
	t.Helper()
	for _, m := range media {
		shown := m.escape(text)
		if strings.ContainsFunc(shown, isHidden) || !utf8.ValidString(shown) || strings.ContainsFunc(shown, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
			t.Errorf("%s(%q) is %q, which has characters that are not visible", m.name, text, shown)
		}
		if utf8.RuneCountInString(text) > valueLimit {
			continue // the text is shortened
		}
		assert.Regexpf(t, only[m.name], shown, "%s(%q), want %s", m.name, text, m.only)
		if m.back != nil {
			shown = m.back(shown)
		}
		if m.name == "DOT" {
			shown = shown[1 : len(shown)-1]
		}
		if m.name == "Markdown" {
			shown = codeOf(t, shown)
		}
		if got := read(shown); got != text {
			t.Errorf("%s(%q) reads as %q", m.name, text, got)
		}
	}
}

// codeOf returns what a code span shows, by the rules of CommonMark.
func codeOf(t *testing.T, span string) string {
	t.Helper()
	if span == "" {
		return ""
	}
	inner := strings.TrimLeft(span, "`")
	fence := span[:len(span)-len(inner)]
	inner, closed := strings.CutSuffix(inner, fence)
	for _, run := range backticks.FindAllString(inner, -1) {
		if run == fence {
			closed = false
		}
	}
	if !closed || inner == "" || strings.HasSuffix(inner, "`") {
		t.Errorf("%q is not one code span", span)
	}
	if strings.HasPrefix(inner, " ") && strings.HasSuffix(inner, " ") && strings.Trim(inner, " ") != "" {
		return inner[1 : len(inner)-1]
	}
	return inner
}

var escapes = regexp.MustCompile(`\\(\\|n|r|t|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})`)

// read returns a text without its escapes.
func read(shown string) string {
	return escapes.ReplaceAllStringFunc(shown, func(escape string) string {
		switch escape[1] {
		case '\\':
			return `\`
		case 'n':
			return "\n"
		case 'r':
			return "\r"
		case 't':
			return "\t"
		}
		number, _ := strconv.ParseUint(escape[2:], 16, 32)
		if escape[1] == 'x' {
			return string([]byte{byte(number)})
		}
		return string(rune(number))
	})
}

func TestHostileTexts(t *testing.T) {
	for _, first := range hostile {
		for _, second := range hostile {
			check(t, first+second)
		}
	}
}

// TestEveryCharacter: exactly the visible characters are kept as they are.
func TestEveryCharacter(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		text := string(r)
		visible := r == ' ' || unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) && !isIgnorable(r)
		if got := Visible(text); visible != (got == text) {
			t.Errorf("Visible(%U) is %q", r, got)
		}
	}
}

// isIgnorable reports whether a character is a letter, mark or symbol without width.
func isIgnorable(r rune) bool {
	return r == 0x034f || r == 0x115f || r == 0x1160 || r == 0x17b4 || r == 0x17b5 || r >= 0x180b && r <= 0x180f ||
		r == 0x3164 || r >= 0xfe00 && r <= 0xfe0f || r == 0xffa0 || r >= 0xe0100 && r <= 0xe01ef
}

func TestProse(t *testing.T) {
	if got, want := Prose("one\r\n\ttwo\x1b\n\n\\n\r"), "one\n\ttwo\\x1b\n\n\\\\n\\r"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestShort(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"tide", 4, "tide"},
		{"tide", 3, "tid… (1 more characters)"},
		{"ébb", 3, "ébb"},
		{"ébb", 1, "é… (2 more characters)"},
	} {
		assert.EqualValuesf(t, test.want, Short(test.text, test.limit), "Short(%q, %d)", test.text, test.limit)
	}
	for _, m := range media {
		if m.name == "Visible" || m.name == "HTML" {
			continue // their users do not limit lengths
		}
		if got := len(m.escape(strings.Repeat("\x1b", 1<<20))); got > 10*lineLimit {
			t.Errorf("%s returns %d bytes of a long text", m.name, got)
		}
	}
}

// TestJSON: the JSON is equal to the original and has only visible characters.
func TestJSON(t *testing.T) {
	var text bytes.Buffer
	want := map[string]any{"a": hostile, strings.Join(hostile[:30], ""): []any{}}
	require.NoError(t, JSON(&text, want))
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSuffix(line, "\n")
		if strings.ContainsFunc(line, isHidden) || line != begin(withoutCommands(line)) {
			t.Errorf("line %q", line)
		}
	}
	var got, usual any
	encoded, err := json.Marshal(want)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text.Bytes(), &got))
	require.NoError(t, json.Unmarshal(encoded, &usual))
	assert.Empty(t, cmp.Diff(usual, got), "-usual +got")
}

func TestLines(t *testing.T) {
	var l Lines
	l.Add("%s", "one\ntwo")
	l.Add("")
	l.AddMarked("\x1b[32m✔\x1b[0m", " %s", "\x1b[31mthree")
	assert.Equal(t, "one\\ntwo\n\n\x1b[32m✔\x1b[0m \\x1b[31mthree\n", l.String())
}

func TestMessages(t *testing.T) {
	var text bytes.Buffer
	w := Messages(&text)
	fmt.Fprintf(w, "%s\n", "one\ntwo\x1b")
	fmt.Fprint(w, "::error::three")
	assert.Equal(t, "one\\ntwo\\x1b\n\\x3a:error::three", text.String())
}

func TestMessage(t *testing.T) {
	for _, tc := range []struct {
		text  string
		limit int
		want  string
	}{
		{"one\ntwo\x1b\u202e\n::three", 100, "one\ntwo\\x1b\\u202e\n\\x3a:three"},
		{"", 100, ""},
		{"tide", 3, "tid… (1 more characters)"},
	} {
		if got := Message(tc.text, tc.limit); !strings.HasPrefix(got, tc.want) || len(tc.text) < tc.limit && got != tc.want {
			t.Errorf("Message(%q) is %q, want %q", tc.text, got, tc.want)
		}
	}
	if got := len(Message(strings.Repeat("\x1b", 1<<20), 100)); got > 200 {
		t.Errorf("a message of at most 100 characters has %d bytes", got)
	}
}

// TestScreen: the writer keeps lines, and does not escape what is already escaped.
func TestScreen(t *testing.T) {
	var text bytes.Buffer
	w := Screen(&text, "\x1b[32m", "\x1b[0m")
	fmt.Fprint(w, "\x1b[32m✔\x1b[0m \x1b[2K\\x1b\n\t\\n\u202e\xff\n ")
	fmt.Fprint(w, " ::error::\na ::error:: ##[x\n")
	assert.Equal(t, "\x1b[32m✔\x1b[0m \\x1b[2K\\x1b\n\t\\n\\u202e\\xff\n  \\x3a:error::\na ::error:: #\\x23[x\n", text.String())
}

func FuzzEscape(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { check(t, text) })
}
