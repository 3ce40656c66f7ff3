// Command certification writes the files that CI systems need to run the tests of Kubernetes and OpenShift for each
// driver.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-csi/berth/deploy/certification"
	"github.com/berth-csi/berth/drivers/registry"
)

func main() {
	output := flag.String("output", "deploy/certification/manifests", "the `folder` to write to")
	flag.Parse()
	if err := run(*output); err != nil {
		fmt.Fprintf(os.Stderr, "certification: %v\n", err)
		os.Exit(1)
	}
}

// run replaces a folder.
func run(folder string) error {
	files, err := certification.Files(registry.All())
	if err != nil {
		return err
	}
	errs := []error{os.RemoveAll(folder)}
	for _, file := range files {
		path := filepath.Join(folder, file.Path)
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, file.Data, file.Mode()))
	}
	return errors.Join(errs...)
}
