package tools

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Progress says how far a build, or a start, has come.
type Progress struct {
	// Phase is what goes on, such as "compiling".
	Phase string
	// Detail is what the phase is at, such as a package. It may be empty.
	Detail string
	// Done counts what the phase has behind it, out of Total. Total is 0 where it cannot be known.
	Done, Total int
}

// partialSuffix marks folders that are being built.
const partialSuffix = ".partial"

// ensure returns the folder of the built tools in a cache, and builds them first if it has to.
func (r recipe) ensure(ctx context.Context, cache string, report func(Progress)) (Dir, error) {
	dir := Dir(filepath.Join(cache, r.key()))
	if r.builtIn(dir) {
		return dir, nil
	}
	unlock, err := lock(ctx, filepath.Join(cache, "lock"), func() {
		report(Progress{Phase: "waiting for another process that builds the tools"})
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if r.builtIn(dir) { // while we waited
		return dir, nil
	}
	if err := r.build(ctx, cache, dir, report); err != nil {
		return "", fmt.Errorf("build the cluster's tools: %w", err)
	}
	return dir, nil
}

// builtIn reports whether every tool is there. The folder gets its name only when its build is
// finished, so this finds out no half-built one but a folder that somebody cleaned up in.
func (r recipe) builtIn(dir Dir) bool {
	for _, program := range r.programs {
		if !isFile(dir.Path(program.name)) {
			return false
		}
	}
	return true
}

// build compiles all tools into a folder beside dir and renames that to dir when it is complete.
func (r recipe) build(ctx context.Context, cache string, dir Dir, report func(Progress)) (err error) {
	if err := sweepPartial(cache); err != nil {
		return err
	}
	partial := string(dir) + partialSuffix
	defer func() {
		if err != nil {
			os.RemoveAll(partial)
		}
	}()
	total, err := r.download(ctx, report)
	if err != nil {
		return err
	}
	if err := r.compile(ctx, partial, total, report); err != nil {
		return err
	}
	if err := r.nameAfterTools(partial); err != nil {
		return err
	}
	if err := os.RemoveAll(string(dir)); err != nil { // an incomplete one
		return err
	}
	return os.Rename(partial, string(dir))
}

// sweepPartial removes what a build that was killed left behind. The caller holds the lock, so
// nobody is building now.
func sweepPartial(cache string) error {
	left, err := filepath.Glob(filepath.Join(cache, "*"+partialSuffix))
	if err != nil {
		return err
	}
	for _, folder := range left {
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	return nil
}

// download fetches the modules the tools need and returns how many packages they consist of.
// Listing the packages rather than "go mod download" fetches only what is compiled.
func (r recipe) download(ctx context.Context, report func(Progress)) (packages int, err error) {
	fetched := 0
	report(Progress{Phase: "downloading modules"})
	watch := &lineWriter{line: func(line string) {
		if module, ok := strings.CutPrefix(line, "go: downloading "); ok {
			fetched++
			report(Progress{Phase: "downloading modules", Detail: module, Done: fetched})
		}
	}}
	out, err := runGo(ctx, r.folder, watch, r.command("list", "-deps")...)
	if err != nil {
		return 0, err
	}
	return bytes.Count(out, []byte("\n")), nil
}

// compile builds all tools into a folder. With -v the go command prints a line for each package
// that it compiles, none for those it has in its own cache.
func (r recipe) compile(ctx context.Context, folder string, total int, report func(Progress)) error {
	done := 0
	report(Progress{Phase: "compiling", Total: total})
	watch := &lineWriter{line: func(line string) {
		done++
		report(Progress{Phase: "compiling", Detail: line, Done: done, Total: total})
	}}
	_, err := runGo(ctx, r.folder, watch, r.command("build", "-v", "-o", folder+string(filepath.Separator))...)
	return err
}

// command completes a go command with the build flags and the tools' packages.
func (r recipe) command(args ...string) []string {
	args = append(args, r.flags...)
	for _, program := range r.programs {
		args = append(args, program.pkg)
	}
	return args
}

// nameAfterTools renames the programs that the go command named after their package's folder.
func (r recipe) nameAfterTools(folder string) error {
	for _, program := range r.programs {
		built := path.Base(strings.TrimSuffix(program.pkg, "/v3"))
		if built == program.name {
			continue
		}
		if err := os.Rename(filepath.Join(folder, built), filepath.Join(folder, program.name)); err != nil {
			return err
		}
	}
	return nil
}

// lineWriter calls line with each full line that is written to it, and passes everything on.
type lineWriter struct {
	line func(string)
	also io.Writer
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			break
		}
		w.line(string(line))
		w.rest = rest
	}
	return w.also.Write(p)
}

// tail returns the last lines of a text, for an error message.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(all) <= lines {
		return strings.Join(all, "\n")
	}
	return fmt.Sprintf("(%d lines left out)\n%s", len(all)-lines, strings.Join(all[len(all)-lines:], "\n"))
}
