package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/berth-csi/berth/image"
)

// licenceNames are the names of files with licences, and with what a licence demands to be passed on.
var licenceNames = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents|authors)([-._].*)?$`)

// module is a module of which a program has packages.
type module struct{ Path, Version, Dir string }

// dependencies returns the folders of the packages that a program consists of, by module. The module "" is Go itself.
func (c compiled) dependencies(ctx context.Context) (folders map[module][]string, err error) {
	out, err := c.program.goCommand(ctx, c.os, c.architecture, "list", "-deps", "-tags", c.program.tags, "-json=Dir,Standard,Module", c.program.pkg)
	if err != nil {
		return nil, fmt.Errorf("listing the packages of %s: %w", c.program.name, err)
	}
	folders = map[module][]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir      string
			Standard bool
			Module   *struct {
				module
				Replace *module
			}
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return folders, nil
		} else if err != nil {
			return nil, fmt.Errorf("listing the packages of %s: %w", c.program.name, err)
		}
		switch {
		case p.Standard || p.Module == nil:
			folders[module{}] = append(folders[module{}], p.Dir)
		case p.Module.Replace != nil:
			folders[*p.Module.Replace] = append(folders[*p.Module.Replace], p.Dir)
		default:
			folders[p.Module.module] = append(folders[p.Module.module], p.Dir)
		}
	}
}

// licences returns the licences of a program and of everything that is compiled into it, for the folder licenses of an
// image. A package may have another licence than its module, so all folders from the package's up to the module's count.
func (c compiled) licences(ctx context.Context) (image.Files, error) {
	dependencies, err := c.dependencies(ctx)
	if err != nil {
		return nil, err
	}
	root, err := c.program.goCommand(ctx, c.os, c.architecture, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	files := image.Files{}
	for m, folders := range dependencies {
		if m == (module{}) {
			m, folders = module{Path: "go", Dir: strings.TrimSpace(string(root))}, nil
		}
		found := 0
		for folder := range upTo(m.Dir, folders) {
			entries, err := os.ReadDir(folder)
			if err != nil {
				return nil, fmt.Errorf("licences of %s: %w", m.Path, err)
			}
			below, err := filepath.Rel(m.Dir, folder)
			if err != nil {
				return nil, err
			}
			for _, entry := range entries {
				if entry.Type().IsRegular() && licenceNames.MatchString(entry.Name()) && path.Ext(entry.Name()) != ".go" {
					files[path.Join("licenses", m.Path, filepath.ToSlash(below), entry.Name())] = image.File{Source: filepath.Join(folder, entry.Name())}
					found++
				}
			}
		}
		if found == 0 {
			return nil, fmt.Errorf("module %s@%s, which is in %s, has no licence in %s", m.Path, m.Version, c.program.name, m.Dir)
		}
	}
	return files, nil
}

// upTo returns a folder, and all folders between it and those below.
func upTo(top string, below []string) map[string]bool {
	all := map[string]bool{top: true}
	for _, folder := range below {
		for ; len(folder) > len(top) && !all[folder]; folder = filepath.Dir(folder) {
			all[folder] = true
		}
	}
	return all
}
