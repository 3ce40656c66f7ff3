package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// compiled is a program for one platform.
type compiled struct {
	program      program
	os           string
	architecture string
	file         string
	dependencies []dependency
}

// compile compiles the programs of the images for each architecture.
func (r *release) compile(ctx context.Context) error {
	for _, architecture := range r.architectures {
		for _, image := range programImages {
			c, err := r.compileFor(ctx, image.program, "linux", architecture)
			if err != nil {
				return err
			}
			r.built = append(r.built, c)
		}
	}
	return nil
}

// compileFor compiles a program for a platform. The result depends only on the source, the modules and Go's version.
func (r *release) compileFor(ctx context.Context, p program, goos, goarch string) (compiled, error) {
	r.say("  %s for %s/%s", p.name, goos, goarch)
	file, err := filepath.Abs(filepath.Join(r.output, "programs", goos+"-"+goarch, p.name))
	if err != nil {
		return compiled{}, err
	}
	ldflags := "-s -w -buildid= " + strings.ReplaceAll(p.ldflags, "VERSION", r.source.version)
	_, err = p.goCommand(ctx, goos, goarch, "build", "-trimpath", "-buildvcs=false", "-tags", p.tags, "-ldflags", ldflags, "-o", file, p.pkg)
	if err != nil {
		return compiled{}, fmt.Errorf("compiling %s for %s/%s: %w", p.name, goos, goarch, err)
	}
	c := compiled{program: p, os: goos, architecture: goarch, file: file}
	c.dependencies, err = c.listDependencies(ctx)
	return c, err
}

// goCommand runs a go command in the module that pins the program, and returns its output.
func (p program) goCommand(ctx context.Context, goos, goarch string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = p.module
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOOS="+goos, "GOARCH="+goarch)
	command.Stderr = os.Stderr
	return command.Output()
}

// programFor returns the compiled program of an image for one architecture of Linux.
func (r *release) programFor(p program, architecture string) compiled {
	return r.built[slices.IndexFunc(r.built, func(c compiled) bool {
		return c.program == p && c.os == "linux" && c.architecture == architecture
	})]
}
