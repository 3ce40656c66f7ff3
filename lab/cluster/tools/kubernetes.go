package tools

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"
)

// KubernetesVariable is the environment variable with the version of Kubernetes that clusters have instead of the pinned one, such as
// 1.31.14.
const KubernetesVariable = "KUBERNETES"

const kubernetesModule = "k8s.io/kubernetes"

var patchVersion = regexp.MustCompile(`^1\.\d+\.\d+$`)

// Kubernetes returns the version of Kubernetes that clusters have, such as v1.36.3, and whether it is the pinned one.
func Kubernetes() (version string, pinned bool, err error) {
	pins, err := ToolPins()
	if err != nil {
		return "", false, err
	}
	version, err = pins.Version(kubernetesModule)
	other := os.Getenv(KubernetesVariable)
	switch {
	case err != nil, other == "", "v"+other == version:
		return version, true, err
	case !patchVersion.MatchString(other):
		return "", false, fmt.Errorf("%s is %q; want a version with its patch, such as 1.31.14", KubernetesVariable, other)
	}
	return "v" + other, false, nil
}

// ensureOf is like Ensure, with another version of Kubernetes, and the pinned versions of OLM and etcd.
func ensureOf(ctx context.Context, kubernetes string, report func(Progress)) (Dir, error) {
	own, err := recipeOf(kubernetes, kubernetesPrograms)
	if err != nil {
		return "", err
	}
	rest, err := readRecipe(pinsFolder, pinnedPrograms, "-tags", noC, "-ldflags", "-s -w")
	if err != nil {
		return "", err
	}
	recipes := []recipe{own, rest}
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(own.key()+rest.key())))[:16]
	built := make([]Dir, len(recipes))
	for i, r := range recipes {
		if built[i], err = r.ensureInCache(ctx, report); err != nil {
			return "", err
		}
	}
	folder, err := Once(ctx, "tools", key, report, func(folder string) error {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for i, r := range recipes {
			for _, program := range r.programs {
				if err := os.Link(built[i].Path(program.name), Dir(folder).Path(program.name)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return Dir(folder), err
}

// recipeOf returns the recipe for programs of another version of Kubernetes, with the modules that this version requires. The modules that
// are pinned with the pinned version are too new for it.
func recipeOf(kubernetes string, programs []program) (recipe, error) {
	root, err := Root()
	if err != nil {
		return recipe{}, err
	}
	return recipe{
		programs: programs, folder: filepath.Join(root, pinsFolder), kubernetes: kubernetes, incomplete: true, pins: [][]byte{[]byte(kubernetes)},
		flags: []string{"-mod=mod", "-ldflags", "-s -w -X k8s.io/component-base/version.gitVersion=" + kubernetes},
	}, nil
}

// writeModuleOf writes a go.mod into a folder, for a module that requires a version of Kubernetes, and returns the file's path. The go
// command adds the modules that Kubernetes requires, and the digests that the checksum database has.
func writeModuleOf(ctx context.Context, kubernetes, folder string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	out, err := runGo(ctx, root, nil, "list", "-m", "-json", kubernetesModule+"@"+kubernetes)
	if err != nil {
		return "", err
	}
	var module struct{ GoMod string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	theirs, err := os.ReadFile(module.GoMod)
	if err != nil {
		return "", err
	}
	content, err := moduleOf(kubernetes, theirs)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	file := filepath.Join(folder, "go.mod")
	return file, os.WriteFile(file, content, 0o644)
}

// moduleOf returns the go.mod of a module that requires a version of Kubernetes. theirs is the go.mod of Kubernetes, which takes its
// staging modules from folders of its own. They are published, too, with the same minor version and patch: v0.31.14 with v1.31.14.
func moduleOf(kubernetes string, theirs []byte) ([]byte, error) {
	parsed, err := modfile.Parse(kubernetesModule+"@"+kubernetes+"/go.mod", theirs, nil)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "module github.com/berth-csi/berth/lab/modules/kubernetes\n\ngo %s\n\nrequire %s %s\n\nreplace (\n", parsed.Go.Version, kubernetesModule, kubernetes)
	staged := 0
	for _, r := range parsed.Replace {
		if strings.HasPrefix(r.New.Path, "./staging/") {
			staged++
			fmt.Fprintf(&text, "\t%s => %s v0%s\n", r.Old.Path, r.Old.Path, strings.TrimPrefix(kubernetes, "v1"))
		}
	}
	if staged == 0 {
		return nil, fmt.Errorf("go.mod of %s %s replaces no module by a folder of staging", kubernetesModule, kubernetes)
	}
	text.WriteString(")\n")
	return []byte(text.String()), nil
}
