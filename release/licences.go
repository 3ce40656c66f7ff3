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
	"slices"
	"strings"

	"github.com/google/licensecheck"

	"github.com/berth-csi/berth/internal/oci"
)

// licenceNames matches the names of files with licences, and with notices that a licence requires to be passed on.
var licenceNames = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents|authors)([-._].*)?$`)

// module is a Go module that has packages of a program.
type module struct{ Path, Version, Dir string }

// dependency is a module with its licence files, by their paths in an image.
type dependency struct {
	module
	licences map[string]string
}

// goItself is the name of the module of the standard library.
const goItself = "go"

// listDependencies returns the modules of a program, sorted by path.
func (c compiled) listDependencies(ctx context.Context) ([]dependency, error) {
	packages, err := c.packages(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the packages of %s: %w", c.program.name, err)
	}
	var all []dependency
	for m, folders := range packages {
		d := dependency{module: m, licences: map[string]string{}}
		for folder := range upTo(m.Dir, folders) {
			if err := d.addLicences(folder); err != nil {
				return nil, fmt.Errorf("licences of %s: %w", m.Path, err)
			}
		}
		if len(d.licences) == 0 {
			return nil, fmt.Errorf("module %s@%s, which is in %s, has no licence in %s", m.Path, m.Version, c.program.name, m.Dir)
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b dependency) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// packages returns the folders of the packages that a program consists of, by module.
func (c compiled) packages(ctx context.Context) (map[module][]string, error) {
	environment, err := c.program.goCommand(ctx, c.os, c.architecture, "env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(environment)), "\n")
	standard := module{Path: goItself, Version: strings.TrimPrefix(version, "go"), Dir: root}
	out, err := c.program.goCommand(ctx, c.os, c.architecture, "list", "-deps", "-tags", c.program.tags, "-json=Dir,Standard,Module", c.program.pkg)
	if err != nil {
		return nil, err
	}
	folders := map[module][]string{standard: nil}
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
			return nil, err
		}
		switch {
		case p.Standard || p.Module == nil:
		case p.Module.Replace != nil:
			folders[*p.Module.Replace] = append(folders[*p.Module.Replace], p.Dir)
		default:
			folders[p.Module.module] = append(folders[p.Module.module], p.Dir)
		}
	}
}

// addLicences adds the licences in one folder of the module.
func (d dependency) addLicences(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	below, err := filepath.Rel(d.Dir, folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() && licenceNames.MatchString(entry.Name()) && path.Ext(entry.Name()) != ".go" {
			d.licences[path.Join("licenses", d.Path, filepath.ToSlash(below), entry.Name())] = filepath.Join(folder, entry.Name())
		}
	}
	return nil
}

// upTo returns the top folder, the folders below, and all folders between them: a package may have another licence than its module.
func upTo(top string, below []string) map[string]bool {
	all := map[string]bool{top: true}
	for _, folder := range below {
		for ; len(folder) > len(top) && !all[folder]; folder = filepath.Dir(folder) {
			all[folder] = true
		}
	}
	return all
}

// licenceFiles returns the licences of a program and of everything that is compiled into it.
func (c compiled) licenceFiles() oci.Files {
	files := oci.Files{}
	for _, d := range c.dependencies {
		for target, source := range d.licences {
			files[target] = oci.File{Source: source}
		}
	}
	return files
}

// expression returns an SPDX expression with those licences of a module whose texts are known.
func (d dependency) expression() (string, error) {
	found := map[string]bool{}
	for _, file := range d.licences {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		for _, match := range licensecheck.Scan(text).Match {
			if !match.IsURL {
				found[match.ID] = true
			}
		}
	}
	if len(found) == 0 {
		return "NOASSERTION", nil
	}
	return strings.Join(sortedKeys(found), " AND "), nil
}
