package programs

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// Ran is which program runs where a table or a line names a driver.
type Ran struct {
	// Real says that it is the real program, and not our stand-in.
	Real bool
	// Given says that the user has given it.
	Given bool
	// Version is the version of a real one. It may be empty.
	Version string
}

// String returns the text for tables.
func (r Ran) String() string {
	switch {
	case !r.Real:
		return "our stand-in"
	case r.Version == "":
		return "the real one"
	}
	return "the real one, " + r.Version
}

// sample is the one program of this project that takes the place of no other.
const sample = "sample"

// WhichRuns returns which program of a name runs: one that the user has given, one of a module, or ours. Nothing is built.
func WhichRuns(name string) (Ran, error) {
	given, err := Given(name)
	if err != nil {
		return Ran{}, err
	}
	if given != "" {
		version, err := versionOf(given)
		return Ran{Real: true, Given: true, Version: version}, err
	}
	return WhichIsBuilt(name)
}

// WhichIsBuilt returns which program of a name runs where the user has given none.
func WhichIsBuilt(name string) (Ran, error) {
	if origins[name].module == "" {
		return Ran{Real: name == sample}, nil
	}
	version, err := Version(name)
	return Ran{Real: true, Version: version}, err
}

// answersWithin is how long a program may take to say its version.
const answersWithin = 5 * time.Second

var version = regexp.MustCompile(`\bv?[0-9]+\.[0-9]+\.[0-9]+[-+.0-9A-Za-z]*`)

// versionOf returns the version of a program that the user has given: the one that it prints, or the one that the compiler has
// recorded, or else its checksum.
func versionOf(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answersWithin)
	defer cancel()
	if out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput(); err == nil {
		if found := version.FindString(strings.ReplaceAll(string(out), path, "")); found != "" {
			return found, nil
		}
	}
	if info, err := buildinfo.ReadFile(path); err == nil && version.MatchString(info.Main.Version) {
		return info.Main.Version, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])[:12], nil
}
