package page

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/yaml"
)

// Reader does what pages say, with a cluster: it runs their commands, and applies their objects.
type Reader struct {
	// Docs is the folder with the pages.
	Docs string
	// Kubectl is the program, which also is the reader's oc, and Kubeconfig says which cluster.
	Kubectl, Kubeconfig string
	// Programs are folders with other programs.
	Programs []string
	// Names replaces names in pages. It may be nil.
	Names *strings.Replacer
	// Variables are shell commands that set variables before all others.
	Variables string
	// Limit is for each block.
	Limit time.Duration
	// Dir is the folder in which commands run.
	Dir string
}

// oc stands in for the client of OpenShift, which knows all that kubectl knows.
const oc = `#!/bin/sh
case "$*" in
"adm policy add-role-to-user "*)
  role=$4 user=$5
  shift 5
  exec %[1]s create rolebinding "$role-$user" --clusterrole="$role" --user="$user" "$@" ;;
"adm taint "*) shift ;;
esac
exec %[1]s "$@"
`

// Follow does what a page says below a heading, and returns what the commands print. An object goes into a file of its name, too, as
// commands expect it. Numbers choose some of the blocks, from 0.
func (r *Reader) Follow(t testing.TB, page, below string, only ...int) (printed string) {
	t.Helper()
	names := r.Names
	if names == nil {
		names = strings.NewReplacer()
	}
	blocks := Blocks(t, filepath.Join(r.Docs, page), below, names)
	if len(only) > 0 {
		var chosen []Block
		for _, i := range only {
			chosen = append(chosen, blocks[i])
		}
		blocks = chosen
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has nothing to do below %q", page, below)
	}
	for _, block := range blocks {
		command := block.Text
		switch block.Language {
		case "":
		case "yaml":
			var object unstructured.Unstructured
			if err := yaml.Unmarshal([]byte(block.Text), &object.Object); err != nil {
				t.Fatalf("%s, %s: %v", page, below, err)
			}
			if object.GetKind() == "" {
				continue // a part of one
			}
			file := object.GetName() + ".yaml"
			if err := os.WriteFile(filepath.Join(r.Dir, file), []byte(block.Text), 0o644); err != nil {
				t.Fatal(err)
			}
			command = "oc apply -f " + file + "\n"
		default:
			continue
		}
		output, err := r.run(t, command)
		t.Logf("%s, %s:\n%s%s", page, below, command, output)
		if err != nil {
			t.Fatalf("%s, %s: %v", page, below, err)
		}
		printed += output
	}
	return printed
}

func (r *Reader) run(t testing.TB, command string) (string, error) {
	t.Helper()
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "oc"), fmt.Appendf(nil, oc, r.Kubectl), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), r.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-ec", r.Variables+"\n"+command)
	path := append([]string{programs}, r.Programs...)
	cmd.Dir, cmd.Env = r.Dir, append(os.Environ(), "KUBECONFIG="+r.Kubeconfig, "PATH="+strings.Join(append(path, os.Getenv("PATH")), ":"))
	output, err := cmd.CombinedOutput()
	return string(output), err
}
