// Package registry lists all drivers. The list is generated from the folders below drivers/, so that adding a driver
// takes one folder and nothing else. The sample driver, which is in no release, is on the list only with the build tag
// "sample".
package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-csi/berth/drivers"
)

//go:generate go run ../../hack/registry -drivers .. -except sample -output zz_generated.drivers.go

// All returns the definitions of all drivers, sorted by name.
func All() []drivers.Driver { return slices.Clone(all) }

// Packaged returns the definitions of the drivers that have a package in catalogs, sorted by name.
func Packaged() []drivers.Driver {
	return slices.DeleteFunc(All(), func(d drivers.Driver) bool { return !d.HasPackage() })
}

// Names returns the names of all drivers, sorted.
func Names() []string {
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
	}
	return names
}

// Get returns the definition of a driver, by its name or by its CSIDriver's name. The error for an unknown name lists
// the known ones.
func Get(name string) (drivers.Driver, error) {
	for _, d := range all {
		if d.Name == name || d.CSIName == name {
			return d, nil
		}
	}
	return drivers.Driver{}, fmt.Errorf("unknown driver %q: want one of %s", name, strings.Join(Names(), ", "))
}
