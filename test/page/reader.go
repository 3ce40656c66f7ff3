package page

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

var update = flag.Bool("update-pages", false, "write what the commands of pages print into the pages")

// Reader follows pages with a cluster: it runs their commands, and applies their objects.
type Reader struct {
	// Docs is the folder with the pages.
	Docs string
	// Kubectl is the program, which also is the reader's oc, and Kubeconfig says which cluster.
	Kubectl, Kubeconfig string
	// Berth is the program, which also is a plugin. It may be "" for pages without it.
	Berth string
	// Names replaces names in pages. It may be nil.
	Names *strings.Replacer
	// Varies matches the parts of commands' output that vary between runs, in addition to always. It may be nil.
	Varies *regexp.Regexp
	// Variables are shell commands that set variables before all others.
	Variables string
	// Limit is for each block.
	Limit time.Duration
	// Dir is the working directory of commands.
	Dir string
}

// oc stands in for the client of OpenShift, which knows all that kubectl knows.
const oc = `#!/bin/sh
case "$*" in
"adm taint "*) shift ;;
esac
exec %s "$@"
`

// Follow follows a page below a heading, and returns the output of the commands, which must match the output on the page, if the page
// shows any. An object also goes into a file of its name, as commands expect. only chooses some of the blocks, by number from 0.
func (r *Reader) Follow(t testing.TB, page, below string, only ...int) (printed string) {
	t.Helper()
	commands, done := 0, 0
	for i, block := range Blocks(t, filepath.Join(r.Docs, page), below, r.names()) {
		if block.ofCommands() {
			commands++
		}
		if len(only) > 0 && !slices.Contains(only, i) {
			continue
		}
		done++
		if block.ofCommands() && !block.mark.names(t.Name()) {
			t.Fatalf("%s:%d: %s runs these commands: put a line <!-- test: FOLDER %[3]s --> before them", page, block.line, t.Name())
		}
		printed += r.follow(t, page, block)
	}
	if done == 0 || done < len(only) {
		t.Fatalf("%s has %d blocks below %q, want to follow %v", page, commands, below, only)
	}
	return printed
}

func (r *Reader) names() *strings.Replacer {
	if r.Names == nil {
		return strings.NewReplacer()
	}
	return r.Names
}

// follow follows a block of a page, and returns the output of its commands.
func (r *Reader) follow(t testing.TB, page string, block Block) (printed string) {
	t.Helper()
	command := block.Text
	switch {
	case block.Language == "yaml":
		var object unstructured.Unstructured
		require.NoErrorf(t, boundedyaml.Unmarshal([]byte(block.Text), &object.Object), "%s, %s", page, block.Heading)
		if object.GetKind() == "" {
			return "" // a part of one
		}
		file := object.GetName() + ".yaml"
		require.NoError(t, os.WriteFile(filepath.Join(r.Dir, file), []byte(block.Text), 0o644))
		command = "oc apply -f " + file + "\n"
	case !block.ofCommands():
		return ""
	}
	if transcript := block.Transcript(); len(transcript) > 0 {
		for _, step := range transcript {
			output, err := r.run(t, step.Command) // pages also show failing commands with their output
			t.Logf("%s, %s: %v:\n%s\n%s", page, block.Heading, err, step.Command, output)
			r.MustShow(t, page, block.Heading, step, output)
			printed += output
		}
		return printed
	}
	output, err := r.run(t, command)
	t.Logf("%s, %s:\n%s%s", page, block.Heading, command, output)
	require.NoErrorf(t, err, "%s, %s", page, block.Heading)
	switch {
	case *update && block.ofCommands() && output != "" && !Shows(r.vary(block.Output), r.vary(output)):
		r.show(t, page, block, output)
	case block.Output != "":
		r.MustShow(t, page, block.Heading, Step{command, block.Output}, output)
	}
	return output
}

// show writes the output of a block's commands into the page.
func (r *Reader) show(t testing.TB, page string, block Block, output string) {
	t.Helper()
	path := filepath.Join(r.Docs, page)
	_, blocks := read(t, path, r.names()) // earlier output has moved the lines
	i := slices.IndexFunc(blocks, func(b Block) bool { return b.Heading == block.Heading && b.Text == block.Text })
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	shown := []string{"", "```text"}
	shown = append(append(shown, strings.Split(strings.TrimRight(output, "\n"), "\n")...), "```")
	for l, line := range shown {
		shown[l] = strings.TrimRight(block.indent+line, " ")
	}
	lines := strings.Split(string(content), "\n")
	lines = slices.Replace(lines, blocks[i].end, max(blocks[i].end, blocks[i].outputEnd), shown...)
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644))
}

// MustShow fails the test unless a page shows a step's output.
func (r *Reader) MustShow(t testing.TB, page, heading string, step Step, printed string) {
	t.Helper()
	if want, got := r.vary(step.Output), r.vary(printed); !Shows(want, got) {
		t.Errorf("%s, %s: %s prints:\n%s\n\nThe page shows:\n%s", page, heading, step.Command, got, want)
	}
}

// always matches the parts of output that vary between runs in each cluster: ages, the prefixes of log lines, and
// whether an object existed before.
var always = regexp.MustCompile(`(?m) \d+m?\d*s$|^[IWE]\d{4} \S+ +\d+ \S+\] | (?:created|configured|unchanged|(?:not )?labeled|patched(?: \(no change\))?)$`)

// vary returns a text without its varying parts.
func (r *Reader) vary(text string) string {
	text = always.ReplaceAllString(text, "~")
	if r.Varies != nil {
		text = r.Varies.ReplaceAllString(text, "~")
	}
	return strings.TrimSpace(text)
}

func (r *Reader) run(t testing.TB, command string) (string, error) {
	t.Helper()
	programs := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(programs, "oc"), fmt.Appendf(nil, oc, r.Kubectl), 0o755))
	links := map[string]string{"kubectl": r.Kubectl}
	if r.Berth != "" {
		links["berth"], links["kubectl-berth"] = r.Berth, r.Berth
	}
	for name, program := range links {
		require.NoError(t, os.Symlink(program, filepath.Join(programs, name)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), r.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-ec", r.Variables+"\n"+command)
	cmd.Dir, cmd.Env = r.Dir, append(os.Environ(), "KUBECONFIG="+r.Kubeconfig, "PATH="+programs+":"+os.Getenv("PATH"))
	output, err := cmd.CombinedOutput()
	return string(output), err
}
