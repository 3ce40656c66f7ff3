// Command imports checks that the rooms (top-level folders) import each other downward only, as in
// docs/architecture.md, and that programs which are shipped import no packages that make them large, read YAML without
// limits, or lose errors. It prints each import that breaks a rule and then fails.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const module = "github.com/berth-csi/berth"

// mayImport lists the other rooms whose packages each room may import. A room without an entry may not exist,
// and a room that is in no list may not be imported.
var mayImport = map[string][]string{
	"cmd":            {"repository", "gates", "openshift", "aws", "operator", "bundle", "catalog", "doctor", "fbc", "migrate", "olm", "registryv1", "sharedvolume", "drivers", "findings", "image", "yaml"},
	"operator":       {"connections", "drivers", "findings", "listing", "yaml"},
	"bundle":         {"gates", "openshift", "drivers", "fbc", "findings", "registryv1", "yaml"},
	"migrate":        {"drivers", "fbc", "findings", "listing", "olm", "yaml"},
	"aws":            {"yaml"},
	"doctor":         {"drivers", "findings", "listing", "olm", "sharedvolume"},
	"catalog":        {"gates", "openshift", "connections", "fbc", "findings", "image", "olm", "registryv1", "yaml"},
	"olm":            {"fbc", "findings", "openshift"},
	"repository":     {"bundle", "catalog", "fbc", "findings", "gates", "openshift", "registryv1", "yaml"},
	"registryv1":     {"fbc", "findings", "image", "yaml"},
	"fbc":            {"findings", "yaml"},
	"connections":    {},
	"findings":       {},
	"image":          {},
	"sharedvolume":   {"findings", "listing"},
	"gates":          {"findings", "openshift"},
	"listing":        {},
	"openshift":      {},
	"drivers":        {"findings", "yaml"},
	"yaml":           {},
	"efs-utils-base": {},
	"certification":  {"drivers", "yaml"},
	"release":        {"bundle", "catalog", "efs-utils-base", "fbc", "findings", "image", "registryv1", "yaml"},
	"hack":           {"certification", "drivers", "operator"},
	"test":           {"repository", "gates", "openshift", "aws", "cmd", "operator", "bundle", "catalog", "certification", "doctor", "fbc", "migrate", "olm", "registryv1", "sharedvolume", "connections", "drivers", "findings", "image", "listing", "yaml"},
}

// refused are packages that shipped programs may not import, with the reason. The room in except may.
var refused = []struct {
	packages       []string
	reason, except string
}{
	{[]string{"text/template", "html/template"},
		"that calls methods by names known only at run time, which makes the linker keep every method of every type; build the text without it", ""},
	{[]string{"sigs.k8s.io/yaml", "go.yaml.in/yaml/v2", "go.yaml.in/yaml/v3", "go.yaml.in/yaml/v4", "gopkg.in/yaml.v2", "gopkg.in/yaml.v3",
		"github.com/goccy/go-yaml", "k8s.io/apimachinery/pkg/util/yaml"},
		"that expands aliases in YAML without limits; use package yaml of this module", "yaml"},
	{[]string{"k8s.io/client-go/util/retry"},
		"that returns nil if a write does not succeed before its deadline; use package operator/conflict", ""},
}

// unshipped are the rooms that are in no shipped program.
var unshipped = []string{"certification", "efs-utils-base", "hack", "release", "test"}

type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func main() {
	broken, err := check()
	if err != nil {
		fmt.Fprintf(os.Stderr, "imports: %v\n", err)
		os.Exit(1)
	}
	for _, line := range broken {
		fmt.Fprintln(os.Stderr, line)
	}
	if len(broken) > 0 {
		os.Exit(1)
	}
}

func check() ([]string, error) {
	list := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var broken []string
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return broken, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the output of go list: %w", err)
		}
		broken = append(broken, violations(p)...)
	}
}

// violations returns the imports of a package that break a rule. Tests in any room may import the room test.
func violations(p goPackage) []string {
	from, ok := room(p.ImportPath)
	if !ok {
		return nil
	}
	allowed, known := mayImport[from]
	if !known {
		return []string{fmt.Sprintf("%s: room %q is unknown: add it to hack/imports and docs/architecture.md", p.ImportPath, from)}
	}
	var broken []string
	complain := func(imports []string, allowed []string) {
		for _, path := range imports {
			to, ok := room(path)
			if !ok || to == from || slices.Contains(allowed, to) {
				continue
			}
			broken = append(broken, fmt.Sprintf("%s imports %s: room %q may import only %v", p.ImportPath, path, from, allowed))
		}
	}
	complain(p.Imports, allowed)
	for _, path := range p.Imports {
		for _, r := range refused {
			if slices.Contains(r.packages, path) && from != r.except && !slices.Contains(unshipped, from) {
				broken = append(broken, fmt.Sprintf("%s imports %s: %s", p.ImportPath, path, r.reason))
			}
		}
	}
	complain(slices.Concat(p.TestImports, p.XTestImports), append([]string{"test"}, allowed...))
	return broken
}

// room returns the room of a package of this module.
func room(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return "", false
	}
	first, _, _ := strings.Cut(rest, "/")
	return first, true
}
