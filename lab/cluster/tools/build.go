package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Progress is the progress of a build, or of starting a cluster.
type Progress struct {
	// Phase is the current phase, such as "compiling".
	Phase string
	// Detail is the current item of the phase, such as a package. It may be empty.
	Detail string
	// Done counts the finished items of the phase, out of Total. Total is 0 if it is unknown.
	Done, Total int
}

// ensureInCache is ensure with the user's cache. report may be nil.
func (r recipe) ensureInCache(ctx context.Context, report func(Progress)) (Dir, error) {
	if report == nil {
		report = func(Progress) {}
	}
	cache, err := CacheFolder("tools")
	if err != nil {
		return "", err
	}
	return r.ensure(ctx, cache, report)
}

// ensure returns the folder with the built tools in a cache, and builds them first if necessary.
func (r recipe) ensure(ctx context.Context, cache string, report func(Progress)) (Dir, error) {
	dir, err := once(ctx, cache, r.key(), r.builtIn, report, func(partial string) error { return r.build(ctx, partial, report) })
	if err != nil {
		return "", fmt.Errorf("build the tools that %s pins: %w", r.folder, err)
	}
	return Dir(dir), nil
}

// builtIn reports whether every tool exists. A folder gets its name only when its build has finished, so tools are
// missing only if somebody deleted them.
func (r recipe) builtIn(dir string) bool {
	for _, program := range r.programs {
		if !isFile(Dir(dir).Path(program.name)) {
			return false
		}
	}
	return true
}

// build compiles all tools into a folder, which it creates.
func (r recipe) build(ctx context.Context, into string, report func(Progress)) error {
	arguments := r.arguments()
	if r.incomplete {
		pins := strings.TrimSuffix(into, partialSuffix) + "-pins" + partialSuffix
		defer os.RemoveAll(pins)
		modfile, err := r.writePins(ctx, pins)
		if err != nil {
			return err
		}
		if r.aligned {
			if err := align(modfile); err != nil {
				return err
			}
		}
		if err := replace(modfile, r.replaced); err != nil {
			return err
		}
		arguments = append([]string{"-modfile=" + modfile}, arguments...)
	}
	command := goBuild
	if r.tests {
		command = goTest
		if err := os.MkdirAll(into, 0o755); err != nil { // go build does that, and go test does not
			return err
		}
	}
	if err := compile(ctx, r.folder, into, command, arguments, report); err != nil {
		return err
	}
	return r.nameAfterTools(into)
}

// writePins writes a go.mod to a folder, for the go command to complete, and returns its path.
func (r recipe) writePins(ctx context.Context, into string) (string, error) {
	if r.kubernetes != "" {
		return writeModuleOf(ctx, r.kubernetes, into)
	}
	return copyPins(r.folder, into)
}

// copyPins copies the go.mod and go.sum of a folder into another one, and returns the path of the copied go.mod. A go.sum
// may be missing.
func copyPins(from, into string) (string, error) {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return "", err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) && name == "go.sum" {
			continue
		}
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(into, name), content, 0o644); err != nil {
			return "", err
		}
	}
	return filepath.Join(into, "go.mod"), nil
}

// Commands that compile programs. With -v the go command prints a line for each package that it compiles, but not for those in its own cache.
var (
	goBuild = []string{"build", "-v"}
	goTest  = []string{"test", "-c", "-vet=off"} // here -v has another meaning, and vet would analyze all dependencies, too
)

// compile builds programs of the module in one folder into another folder. args are build flags and the programs' packages.
func compile(ctx context.Context, module, into string, command, args []string, report func(Progress)) error {
	total, err := download(ctx, module, args, report)
	if err != nil {
		return err
	}
	// With a trailing separator, the go command knows that the output is a folder, even if it does not exist.
	return compileWith(ctx, module, total, slices.Concat(command, []string{"-o", into + string(filepath.Separator)}, args), report)
}

// compileWith runs a go command that compiles at most total packages, and reports each that it prints.
func compileWith(ctx context.Context, module string, total int, args []string, report func(Progress)) error {
	done := 0
	report(Progress{Phase: "compiling", Total: total})
	watch := &lineWriter{line: func(line string) {
		done++
		report(Progress{Phase: "compiling", Detail: line, Done: done, Total: total})
	}}
	_, err := runGo(ctx, module, watch, args...)
	return err
}

// download fetches the modules that programs need, and returns the number of their packages. Unlike "go mod download", listing the packages
// fetches only modules with a package that is compiled.
func download(ctx context.Context, module string, args []string, report func(Progress)) (packages int, err error) {
	fetched := 0
	report(Progress{Phase: "downloading modules"})
	watch := &lineWriter{line: func(line string) {
		if module, ok := strings.CutPrefix(line, "go: downloading "); ok {
			fetched++
			report(Progress{Phase: "downloading modules", Detail: module, Done: fetched})
		}
	}}
	out, err := runGo(ctx, module, watch, append([]string{"list", "-deps"}, args...)...)
	if err != nil {
		return 0, err
	}
	return bytes.Count(out, []byte("\n")), nil
}

// arguments returns the arguments of a go command for all the tools.
func (r recipe) arguments() []string {
	args := slices.Clone(r.flags)
	for _, program := range r.programs {
		args = append(args, program.pkg)
	}
	return args
}

// nameAfterTools renames the programs, which the go command named after their packages' folders.
func (r recipe) nameAfterTools(folder string) error {
	for _, program := range r.programs {
		built := path.Base(strings.TrimSuffix(program.pkg, "/v3"))
		if r.tests {
			built += ".test"
		}
		if built == program.name {
			continue
		}
		if err := os.Rename(filepath.Join(folder, built), filepath.Join(folder, program.name)); err != nil {
			return err
		}
	}
	return nil
}

// lineWriter calls line for each full line that is written to it, and passes everything on.
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
	return fmt.Sprintf("(%d lines omitted)\n%s", len(all)-lines, strings.Join(all[len(all)-lines:], "\n"))
}

// CompileTests compiles the packages of the project's tests, and all that these import, into the go command's cache.
// flags are go test's flags that affect compilation. report is called with the progress.
func CompileTests(ctx context.Context, report func(Progress), flags []string, packages ...string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	args := slices.DeleteFunc(slices.Clone(flags), func(flag string) bool { return strings.HasPrefix(flag, "-vet") || strings.HasPrefix(flag, "-ldflags") })
	args = slices.Concat([]string{"-test"}, args, packages)
	total, err := download(ctx, root, args, report)
	if err != nil {
		return err
	}
	return compileWith(ctx, root, total, slices.Concat([]string{"list", "-export", "-v"}, args), report)
}
