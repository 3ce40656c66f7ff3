// Command imports checks that the rooms import each other downward only, as in
// docs/contribute/architecture.md, and that programs which are shipped import no packages that make them large, read YAML without
// limits, or lose errors, and that only the operator links what calls the clouds of drivers. It prints each import that
// breaks a rule and then fails.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	pathpkg "path"
	"slices"
	"strings"

	"github.com/berth-csi/berth/hack/check"
)

const module = "github.com/berth-csi/berth"

// mayImport lists the other rooms whose packages each room may import. A room is a folder with everything in it that is
// not in a deeper room. A room without an entry is an error, and a room in no list may not be imported.
var mayImport = map[string][]string{
	"cmd": {"bundle", "bundle/registryv1", "catalog", "catalog/fbc", "drivers", "internal/aws", "internal/boundedyaml", "internal/doctor",
		"internal/findings", "internal/gates", "internal/oci", "internal/openshift", "internal/repository", "migrate", "olm", "operator", "sharedvolume"},
	"operator": {"drivers", "internal/boundedyaml", "internal/connections", "internal/findings", "internal/listing"},
	"bundle":   {"bundle/registryv1", "catalog/fbc", "drivers", "internal/boundedyaml", "internal/findings", "internal/gates", "internal/openshift"},
	"migrate":  {"catalog/fbc", "drivers", "internal/boundedyaml", "internal/findings", "olm"},
	"catalog": {"bundle/registryv1", "catalog/fbc", "internal/boundedyaml", "internal/connections", "internal/findings", "internal/gates",
		"internal/oci", "internal/openshift", "olm"},
	"olm":          {"catalog/fbc", "internal/findings", "internal/listing", "internal/openshift"},
	"drivers":      {"internal/boundedyaml", "internal/findings", "internal/listing"},
	"sharedvolume": {"internal/findings", "internal/listing"},

	"bundle/registryv1": {"catalog/fbc", "internal/boundedyaml", "internal/findings", "internal/oci"},
	"catalog/fbc":       {"internal/boundedyaml", "internal/findings"},

	"internal/aws":    {"internal/boundedyaml"},
	"internal/doctor": {"drivers", "internal/findings", "internal/listing", "olm", "sharedvolume"},
	"internal/repository": {"bundle", "bundle/registryv1", "catalog", "catalog/fbc", "internal/boundedyaml", "internal/findings", "internal/gates",
		"internal/openshift"},
	"internal/gates":       {"internal/findings", "internal/openshift"},
	"internal/boundedyaml": {},
	"internal/connections": {},
	"internal/findings":    {"internal/boundedyaml"},
	"internal/listing":     {},
	"internal/oci":         {},
	"internal/openshift":   {},

	"deploy":         {"drivers", "internal/boundedyaml"},
	"efs-utils-base": {},
	"release":        {"bundle", "bundle/registryv1", "catalog", "catalog/fbc", "efs-utils-base", "internal/boundedyaml", "internal/findings", "internal/oci"},
	"hack":           {"deploy", "drivers", "operator"},
	"lab":            {},
	"test": {"bundle", "bundle/registryv1", "catalog", "catalog/fbc", "cmd", "deploy", "drivers", "internal/aws", "internal/boundedyaml",
		"internal/connections", "internal/doctor", "internal/findings", "internal/gates", "internal/listing", "internal/oci", "internal/openshift",
		"internal/repository", "lab", "migrate", "olm", "operator", "sharedvolume"},
}

// refused are packages that shipped programs may not import, with the reason. The rooms in except may. Sizes are of programs without
// symbols, for linux/amd64.
var refused = []struct {
	packages []string
	reason   string
	except   []string
}{
	{[]string{"text/template", "html/template"},
		"that calls methods by names known only at run time, which makes the linker keep every method of every type; build the text without it", nil},
	{[]string{"sigs.k8s.io/yaml", "go.yaml.in/yaml/v2", "go.yaml.in/yaml/v3", "go.yaml.in/yaml/v4", "gopkg.in/yaml.v2", "gopkg.in/yaml.v3",
		"github.com/goccy/go-yaml", "k8s.io/apimachinery/pkg/util/yaml"},
		"that expands aliases in YAML without limits; use package internal/boundedyaml", []string{"internal/boundedyaml"}},
	{[]string{"github.com/google/go-cmp/cmp"},
		"that looks up methods by numbers known only at run time, which makes the linker keep every method of every type: berth was 94.6 MB with " +
			"it, and would have been 66.9 MB without; compare values without it", nil},
	{[]string{"sigs.k8s.io/crdify/pkg/runner", "sigs.k8s.io/crdify/pkg/validations", "sigs.k8s.io/crdify/pkg/validators/version"},
		"that imports go-cmp, which makes berth 28 MB larger; only package olm/crdsafety needs its words, as OLM prints them", []string{"olm"}},
	{[]string{"k8s.io/client-go/kubernetes", "github.com/openshift/client-go/config/clientset/versioned"},
		"the client of all groups of an API makes berth 10 MB larger (94.6 MB with it, 84.5 MB without); use that of one group, such as " +
			"k8s.io/client-go/kubernetes/typed/core/v1", []string{"operator", "cmd"}}, // the operators' informers need it
	{[]string{"k8s.io/cli-runtime/pkg/genericclioptions", "k8s.io/cli-runtime/pkg/genericiooptions", "k8s.io/cli-runtime/pkg/printers", "k8s.io/cli-runtime/pkg/resource"},
		"that makes berth 2.6 times as large; bind the flags of a connection by k8s.io/client-go/tools/clientcmd", nil},
	{[]string{"k8s.io/client-go/util/retry"},
		"that returns nil if a write does not succeed before its deadline; use package operator/objects", nil},
}

// linkedOnly are packages that only one program may link, directly or not, with the reason. only is the main package of that program.
var linkedOnly = []struct {
	packages     []string // and those below
	only, reason string
}{
	{[]string{"github.com/gophercloud/gophercloud", module + "/drivers/controller", module + "/drivers/registry/controllers"}, module + "/cmd/berth-operator",
		"only the operator calls the clouds of drivers; a definition in drivers/NAME is data, and what calls a cloud is in drivers/NAME/controller"},
}

// sdks are the libraries that call clouds. A definition does not import them.
var sdks = []string{"github.com/aws/aws-sdk-go-v2/", "github.com/gophercloud/gophercloud/"}

// unshipped are the rooms that are in no shipped program.
var unshipped = []string{"deploy", "efs-utils-base", "hack", "lab", "release", "test"}

type goPackage struct {
	ImportPath, Name                   string
	Deps                               []string
	Imports, TestImports, XTestImports []string
}

func main() {
	check.Main("imports", violationsInAll)
}

func violationsInAll() ([]string, error) {
	list := exec.Command("go", "list", "-json=ImportPath,Name,Deps,Imports,TestImports,XTestImports", "./...")
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
		broken = append(broken, linked(p)...)
	}
}

// linked returns the packages that a shipped program links but must not.
func linked(p goPackage) (broken []string) {
	if from, _ := room(p.ImportPath); p.Name != "main" || slices.Contains(unshipped, from) {
		return nil
	}
	for _, rule := range linkedOnly {
		for _, path := range rule.packages {
			below := func(dep string) bool { return dep == path || strings.HasPrefix(dep, path+"/") }
			if i := slices.IndexFunc(p.Deps, below); i >= 0 && p.ImportPath != rule.only {
				broken = append(broken, fmt.Sprintf("%s links %s: %s", p.ImportPath, p.Deps[i], rule.reason))
			}
		}
	}
	return broken
}

// violations returns the imports of a package that break a rule. Tests in any room but lab, which could be a repository of its own, may
// import the rooms lab and test.
func violations(p goPackage) []string {
	from, ok := room(p.ImportPath)
	if !ok {
		return nil
	}
	allowed, known := mayImport[from]
	if !known {
		return []string{fmt.Sprintf("%s: room %q is unknown: add it to hack/imports and docs/contribute/architecture.md", p.ImportPath, from)}
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
			if slices.Contains(r.packages, path) && !slices.Contains(r.except, from) && !slices.Contains(unshipped, from) {
				broken = append(broken, fmt.Sprintf("%s imports %s: %s", p.ImportPath, path, r.reason))
			}
		}
		if _, isDriver := strings.CutPrefix(p.ImportPath, module+"/drivers/"); isDriver && pathpkg.Base(p.ImportPath) != "controller" && p.ImportPath != module+"/drivers/openstack" &&
			slices.ContainsFunc(sdks, func(sdk string) bool { return strings.HasPrefix(path, sdk) }) {
			broken = append(broken, fmt.Sprintf("%s imports %s: a definition is data; call the cloud in drivers/NAME/controller", p.ImportPath, path))
		}
	}
	if from != "lab" {
		allowed = append([]string{"lab", "test"}, allowed...)
	}
	complain(slices.Concat(p.TestImports, p.XTestImports), allowed)
	return broken
}

// room returns the innermost room of a package of this module, or its top folder if it is in no room.
func room(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return "", false
	}
	for inner := rest; inner != "."; inner = pathpkg.Dir(inner) {
		if _, ok := mayImport[inner]; ok {
			return inner, true
		}
	}
	first, _, _ := strings.Cut(rest, "/")
	return first, true
}
