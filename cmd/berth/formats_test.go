package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/awalterschulze/gographviz"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/test/schemas"
)

// A fixture is a folder that somebody may take for a bundle or a catalog.
type fixture struct {
	dir string
	// installed is a package and a version that it has, as catalog plan takes them.
	installed string
}

// arguments returns the arguments with which each command with formats runs on a fixture: one list for each run.
var arguments = map[string]func(fixture) [][]string{
	"berth check":            func(f fixture) [][]string { return [][]string{{f.dir}} },
	"berth bundle validate":  func(f fixture) [][]string { return [][]string{{f.dir}} },
	"berth catalog validate": func(f fixture) [][]string { return [][]string{{f.dir}, {f.dir, "--against", validCatalog}} },
	"berth catalog list": func(f fixture) [][]string {
		return [][]string{{"packages", f.dir}, {"channels", f.dir}, {"bundles", f.dir}}
	},
	"berth bundle permissions": func(f fixture) [][]string { return [][]string{{f.dir}, {f.dir, "--against", f.dir}} },
	"berth catalog lifecycle":  func(f fixture) [][]string { return [][]string{{f.dir}} },
	"berth catalog diff":       func(f fixture) [][]string { return [][]string{{f.dir, validCatalog}, {validCatalog, f.dir}} },
	"berth catalog graph":      func(f fixture) [][]string { return [][]string{{f.dir}} },
	"berth catalog plan": func(f fixture) [][]string {
		return [][]string{{f.dir, f.installed}, {f.dir, f.installed, "--olm", "v1"}}
	},
	"berth catalog convert-template": func(f fixture) [][]string {
		return [][]string{{"basic", f.dir}, {"substitutes", f.dir}, {"berth", f.dir}}
	},
	// It reads nothing.
	"berth catalog rules":  func(fixture) [][]string { return [][]string{nil} },
	"berth catalog render": func(f fixture) [][]string { return [][]string{{f.dir}} },
	// It copies from the registries that fixtures name, and these do not exist: TestMirrorFormats has one that does.
	"berth catalog mirror": func(fixture) [][]string { return nil },
}

const validCatalog = "../../catalog/testdata/catalog"

// readers fail unless a text is whole in its format.
var readers = map[string]func([]byte) error{
	"json": readsJSON, "sarif": readsJSON, "junit": readsXML, "svg": readsXML,
	"yaml": func(text []byte) error {
		documents, err := boundedyaml.Split(text)
		for _, document := range documents {
			if err == nil {
				err = boundedyaml.Unmarshal(document, new(any))
			}
		}
		return err
	},
	"dot": func(text []byte) error {
		_, err := gographviz.Read(text)
		return err
	},
	"html": func(text []byte) error {
		if !bytes.HasSuffix(bytes.TrimSpace(text), []byte("</html>")) {
			return errors.New("the page has no end")
		}
		return isText(text)
	},
	"text": isText, "wide": isText, "markdown": isText, "mermaid": isText,
}

func readsJSON(text []byte) error {
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		if err := decoder.Decode(new(any)); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func readsXML(text []byte) error {
	for decoder := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// isText fails for control characters, and for a value that was formatted by the wrong verb.
func isText(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("want UTF-8")
	}
	if found := regexp.MustCompile(`[^\t\n\P{Cc}]|%!\w?\(`).Find(text); found != nil {
		return fmt.Errorf("found %q", found)
	}
	return nil
}

// TestEveryFormat runs each command that reads bundles or catalogs on each fixture of the project, in one of its formats, or in all
// with -all-pairs: the output is valid in its format even for faulty fixtures. TestOutputIsOnlyTheReport does the same with whole programs.
func TestEveryFormat(t *testing.T) {
	defer func(stdout *os.File) { os.Stdout = stdout }(os.Stdout)
	os.Stdout = os.Stderr // libraries print to it
	defer func(register func(*cobra.Command, string, cobra.CompletionFunc) error) { registerCompletion = register }(registerCompletion)
	registerCompletion = func(*cobra.Command, string, cobra.CompletionFunc) error { return nil } // memory would grow by gigabytes
	fixtures := everyFixture(t)
	ran, checked := 0, 0
	for _, command := range withFormats(t, newCommand()) {
		path := command.CommandPath()
		formats := formatsOf(command)
		for i, format := range formats {
			t.Run(path+" "+format, func(t *testing.T) {
				read, ok := readers[format]
				require.True(t, ok, "this test cannot read the format")
				for j, f := range fixtures {
					if j%len(formats) != i && !*allPairs {
						continue
					}
					for _, args := range arguments[path](f) {
						words := slices.Concat(strings.Fields(path)[1:], args, []string{"-o", format})
						out := outputOf(words)
						if len(out) == 0 { // the command has failed
							continue
						}
						ran++
						if err := read(out); err != nil {
							t.Errorf("berth %s: %v in\n%.2000s", strings.Join(words, " "), err, out)
						} else if format == "json" && bytes.HasPrefix(out, []byte("{\n  \"schema\": \"berth.")) {
							if err := schemas.Check(out); err != nil {
								t.Errorf("berth %s: %v in\n%.2000s", strings.Join(words, " "), err, out)
							}
							checked++
						}
					}
				}
			})
		}
	}
	if ran < 400 || checked < 100 {
		t.Errorf("found output of %d runs, and %d documents with a schema, want at least 400 and 100, or this shows little", ran, checked)
	}
}

// outputOf runs a command in this process, and returns its standard output. A panic says which command it is of.
func outputOf(words []string) []byte {
	defer func() {
		if r := recover(); r != nil {
			panic(fmt.Sprintf("berth %s: %v\n%s", strings.Join(words, " "), r, debug.Stack()))
		}
	}()
	root, out := newCommand(), &bytes.Buffer{}
	root.SetOut(out)
	root.SetErr(io.Discard)
	root.SetArgs(words)
	_ = root.ExecuteContext(context.Background()) // the end of the test's context would be a signal, which ends the program
	return out.Bytes()
}

// withFormats returns the commands that read bundles or catalogs, and have formats. Each must have arguments here.
func withFormats(t *testing.T, root *cobra.Command) (found []*cobra.Command) {
	t.Helper()
	for _, c := range root.Commands() {
		found = append(found, withFormats(t, c)...)
		path := c.CommandPath()
		if !strings.HasPrefix(path, "berth bundle ") && !strings.HasPrefix(path, "berth catalog ") || formatsOf(c) == nil {
			continue
		}
		require.NotNilf(t, arguments[path], "%s has formats, but no arguments in this test", path)
		found = append(found, c)
	}
	return found
}

func formatsOf(c *cobra.Command) []string {
	flag := c.Flags().Lookup("output")
	if flag == nil {
		return nil
	}
	_, names, ok := strings.Cut(flag.Usage, "standard output: ")
	if !ok {
		return nil
	}
	return strings.Split(names, ", ")
}

var (
	packageName = regexp.MustCompile(`(?m)^package: ([\w-]+)`)
	versionLine = regexp.MustCompile(`version: "?([0-9][\w.+-]*)`)
)

// everyFixture finds the folders with bundles and catalogs below the project's root, and unpacks those in archives.
func everyFixture(t *testing.T) (fixtures []fixture) {
	t.Helper()
	add := func(dir string, texts []byte) {
		f := fixture{dir, "tide@1.0.0"}
		p, v := packageName.FindSubmatch(texts), versionLine.FindSubmatch(texts)
		if p != nil && v != nil {
			f.installed = string(p[1]) + "@" + string(v[1])
		}
		fixtures = append(fixtures, f)
	}
	for _, root := range []string{"../../bundle", "../../catalog"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "manifests" || entry.Name() == "catalog" && strings.Contains(path, "testdata")):
				dir := path
				if entry.Name() == "manifests" {
					dir = filepath.Dir(path)
				}
				add(dir, nil)
			case filepath.Ext(path) == ".txtar":
				archive, err := txtar.ParseFile(path)
				if err != nil {
					return err
				}
				archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
				folder := filepath.Join(t.TempDir(), strings.TrimSuffix(entry.Name(), ".txtar"))
				if err := os.Mkdir(folder, 0o755); err != nil {
					return err
				}
				if err := txtar.Write(archive, folder); err != nil {
					return err
				}
				add(folder, txtar.Format(archive))
			}
			return nil
		})
		require.NoError(t, err)
	}
	return fixtures
}
