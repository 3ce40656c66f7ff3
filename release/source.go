package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// source is the commit that is released.
type source struct {
	commit string
	// version is the version in the programs, and a tag of the images: the tag of the commit, or else the commit. It does
	// not depend on other commits' tags, which may be added later.
	version  string
	time     time.Time
	modified bool
}

func readSource(ctx context.Context) (source, error) {
	commit, err := git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return source{}, err
	}
	at, err := git(ctx, "log", "-1", "--format=%cI")
	if err != nil {
		return source{}, err
	}
	committed, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return source{}, fmt.Errorf("time of commit %s: %w", commit, err)
	}
	changes, err := git(ctx, "status", "--porcelain")
	if err != nil {
		return source{}, err
	}
	s := source{commit: commit, version: commit[:12], time: committed.UTC(), modified: changes != ""}
	if tag, err := git(ctx, "describe", "--tags", "--exact-match", "--match", "v*"); err == nil {
		s.version = tag
	}
	if s.modified {
		s.version += "-modified"
	}
	return s, nil
}

// git returns the output of a git command.
func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(failed.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("git %s: %w; a release is made in a clone of the project", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
