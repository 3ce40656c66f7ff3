// Command manifests writes the manifests that the cluster version operator uses to run the cluster storage operator.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-csi/berth/drivers/registry"
	"github.com/berth-csi/berth/operator/clusterstorage/release"
)

func main() {
	output := flag.String("output", "manifests", "the `folder` to write to")
	flag.Parse()
	if err := run(*output); err != nil {
		fmt.Fprintf(os.Stderr, "manifests: %v\n", err)
		os.Exit(1)
	}
}

// run replaces all files of a folder.
func run(folder string) error {
	files, err := release.Files(registry.All())
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		return err
	}
	errs := []error{os.MkdirAll(folder, 0o755)}
	for _, name := range old {
		errs = append(errs, os.Remove(name))
	}
	for _, file := range files {
		errs = append(errs, os.WriteFile(filepath.Join(folder, file.Name), file.Data, 0o644))
	}
	return errors.Join(errs...)
}
