package doctor

import (
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/findings"
)

var update = flag.Bool("update", false, "write the picture of the README")

// TestPicture: the picture in the README is the output of berth doctor for a cluster whose operator is scaled to 0. The report is a
// real one.
func TestPicture(t *testing.T) {
	const path = "../../docs/pictures/doctor.svg"
	recorded, err := os.ReadFile("testdata/scaled-to-0.json")
	require.NoError(t, err)
	report := &Report{}
	require.NoError(t, json.Unmarshal(recorded, report))
	want := picture("berth doctor efs.csi.aws.com", report.Text(func(_ findings.Verdict, mark string) string { return mark }))
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is another picture (%v); go test ./doctor -run TestPicture -update writes it", path, err)
	}
}

// The size of the picture, in characters, and of a character, in pixels.
const (
	columns         = 108
	width, height   = 7.8, 18
	margin, topLine = 14, 30
)

// picture returns a terminal with the output of a command as SVG. Long lines are broken at spaces.
func picture(command, prints string) string {
	lines := []string{"$ " + command}
	for line := range strings.Lines(strings.TrimRight(prints, "\n")) {
		line = strings.TrimRight(line, "\n")
		indent := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " "))+2)
		for len([]rune(line)) > columns {
			at := strings.LastIndex(string([]rune(line)[:columns]), " ")
			lines, line = append(lines, line[:at]), indent+line[at+1:]
		}
		lines = append(lines, line)
	}
	var text strings.Builder
	w, h := columns*width+2*margin, len(lines)*height+topLine+margin
	fmt.Fprintf(&text, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d" role="img">`+"\n", w, h, w, h)
	fmt.Fprintf(&text, "<title>%s</title>\n", html.EscapeString(command))
	text.WriteString("<style>.t{fill:#e5e7eb;font:13px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}.ok{fill:#4ade80}.warn{fill:#fbbf24}.bad{fill:#f87171}</style>\n")
	fmt.Fprintf(&text, `<rect width="%.0f" height="%d" rx="10" fill="#111827"/>`+"\n", w, h)
	for i, line := range lines {
		fmt.Fprintf(&text, `<text class="t" x="%d" y="%d" xml:space="preserve">%s</text>`+"\n", margin, topLine+i*height, coloured(html.EscapeString(line)))
	}
	text.WriteString("</svg>\n")
	return text.String()
}

// coloured gives the marks of verdicts their colours on a terminal.
func coloured(line string) string {
	for mark, class := range map[string]string{"✔": "ok", "!": "warn", "✗": "bad"} {
		if rest, is := strings.CutPrefix(strings.TrimLeft(line, " "), mark+" "); is {
			return strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " "))) + `<tspan class="` + class + `">` + mark + "</tspan> " + rest
		}
	}
	return line
}
