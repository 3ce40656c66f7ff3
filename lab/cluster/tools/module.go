package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// Root returns the folder of the project's go.mod: the nearest one, at or above the working directory, that also
// contains the pinned tools. So it works in the tests of any package.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module root: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if isFile(filepath.Join(dir, "go.mod")) && isFile(filepath.Join(dir, pinsFolder, "go.mod")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the module root: no folder at or above %s holds go.mod and %s/go.mod; run this inside a clone of the project", start, pinsFolder)
		}
	}
}

// Pins are the module versions that are built with a go.mod of the project.
type Pins struct {
	file     string
	versions map[string]string
}

// ProjectPins reads the versions that the project itself is built with.
func ProjectPins() (Pins, error) { return readPins("go.mod") }

// ToolPins reads the versions of the pinned tools.
func ToolPins() (Pins, error) { return PinsOf(pinsFolder) }

// PinsOf reads the versions in the go.mod of a folder, relative to the module root.
func PinsOf(folder string) (Pins, error) { return readPins(filepath.Join(folder, "go.mod")) }

func readPins(name string) (Pins, error) {
	root, err := Root()
	if err != nil {
		return Pins{}, err
	}
	path := filepath.Join(root, name)
	content, err := os.ReadFile(path)
	if err != nil {
		return Pins{}, err
	}
	parsed, err := modfile.Parse(path, content, nil)
	if err != nil {
		return Pins{}, err
	}
	pins := Pins{file: path, versions: map[string]string{}}
	for _, require := range parsed.Require {
		pins.versions[require.Mod.Path] = require.Mod.Version
	}
	for _, replace := range parsed.Replace {
		if _, ok := pins.versions[replace.Old.Path]; ok && replace.New.Path == replace.Old.Path {
			pins.versions[replace.Old.Path] = replace.New.Version
		}
	}
	return pins, nil
}

// align raises the modules in a go.mod to the versions of lab/modules/tools.
func align(path string) error {
	shared, err := ToolPins()
	if err != nil {
		return err
	}
	return edit(path, func(file *modfile.File) error {
		for _, require := range slices.Clone(file.Require) {
			module := require.Mod
			if version, ok := shared.versions[module.Path]; ok && semver.Compare(version, module.Version) > 0 {
				if err := errors.Join(file.AddRequire(module.Path, version), file.AddReplace(module.Path, "", module.Path, version)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// replace makes a go.mod take modules from folders of this machine.
func replace(path string, folders map[string]string) error {
	return edit(path, func(file *modfile.File) error {
		for module, folder := range folders {
			if err := file.AddReplace(module, "", folder, ""); err != nil {
				return err
			}
		}
		return nil
	})
}

// edit changes a go.mod.
func edit(path string, change func(*modfile.File) error) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := modfile.Parse(path, content, nil)
	if err != nil {
		return err
	}
	if err := change(file); err != nil {
		return err
	}
	if content, err = file.Format(); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// Version returns the version of a module. Since Go 1.17 a go.mod lists every module that a build needs, so it fails
// for any other module.
func (p Pins) Version(module string) (string, error) {
	if version, ok := p.versions[module]; ok {
		return version, nil
	}
	return "", fmt.Errorf("%s requires no module %s", p.file, module)
}

// runGo runs the go command in a folder and returns its standard output. Its standard error is copied to stderr, if
// that is set.
func runGo(ctx context.Context, dir string, stderr *lineWriter, args ...string) ([]byte, error) {
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// Interrupt it first: then the go command removes its temporary folder and stops its compilers.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = goExitGrace
	cgo := "0"
	if slices.Contains(args, "-race") { // which is written in C
		cgo = "1"
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "GOWORK=off")
	cmd.Stdout = &out
	cmd.Stderr = &complaints
	if stderr != nil {
		stderr.also = &complaints
		cmd.Stderr = stderr
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("go %s in %s: %w", args[0], dir, context.Cause(ctx))
		}
		if errors.Is(err, exec.ErrNotFound) {
			return nil, fmt.Errorf("go %s: the go command is not on PATH: %w", args[0], err)
		}
		return out.Bytes(), fmt.Errorf("go %s in %s: %w\n%s", args[0], dir, err, tail(complaints.String(), 30))
	}
	return out.Bytes(), nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// ModuleFolder returns the folder of a version of a module in the module cache, and downloads it first if necessary.
// The project need not depend on the module.
func ModuleFolder(ctx context.Context, module, version string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	out, err := runGo(ctx, root, nil, "mod", "download", "-json", module+"@"+version)
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &answer); jsonErr != nil {
		return "", errors.Join(err, jsonErr)
	}
	if err != nil || answer.Error != "" {
		return "", fmt.Errorf("download %s@%s: %w", module, version, errors.Join(err, errors.New(answer.Error)))
	}
	return answer.Dir, nil
}
