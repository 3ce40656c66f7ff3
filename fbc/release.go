package fbc

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/fbc/document"
)

// The annotations of a bundle that say which channels it is part of, and which one is the default.
const (
	ChannelsAnnotation       = "operators.operatorframework.io.bundle.channels.v1"
	DefaultChannelAnnotation = "operators.operatorframework.io.bundle.channel.default.v1"
)

// Release is a bundle, and what a catalog says of it.
type Release struct {
	// Rendered is the bundle as it stands in a catalog: the same as "opm render" makes of it. Without an image
	// it carries all its objects, so that OLM installs it from the catalog alone. With one it carries the
	// description of its ClusterServiceVersion instead.
	Rendered declcfg.Bundle
	Version  *declcfg.VersionRelease
	// CSV is the document of the ClusterServiceVersion, and Annotations the one that names the package and its
	// channels.
	CSV, Annotations document.Document

	bundle *folder
}

// ReadRelease reads the bundle in a folder.
func ReadRelease(dir string) (*Release, error) { return newRelease(source{dir: dir}) }

// ReleaseOf reads the bundle in an image, from the files in its BundleFolders. OLM pulls that image to install
// the bundle.
func ReleaseOf(image string, files map[string][]byte) (*Release, error) {
	return newRelease(source{image: image, files: files})
}

func newRelease(from source) (*Release, error) {
	bundle, err := readBundle(from)
	if err != nil {
		return nil, err
	}
	r := &Release{CSV: bundle.csv, Annotations: bundle.annotations, bundle: bundle}
	if r.Rendered, err = bundle.render(); err != nil {
		return nil, bundle.csvFault(err)
	}
	if r.Version, err = r.Rendered.VersionRelease(); err != nil {
		return nil, bundle.csvFault(fmt.Errorf("spec.version: %w", err))
	}
	return r, nil
}

// Compare orders releases from the oldest version to the newest.
func (r *Release) Compare(other *Release) int {
	return cmp.Or(r.Version.Compare(other.Version), cmp.Compare(r.Rendered.Name, other.Rendered.Name))
}

// Number is the version as people write it.
func (r *Release) Number() string {
	number := r.Version.Version.String()
	if len(r.Version.Release) > 0 {
		number += ", release " + r.Version.Release.String()
	}
	return number
}

// Channels are the names of the channels that the bundle's annotations say it is part of.
func (r *Release) Channels() (names []string) {
	for name := range strings.SplitSeq(r.bundle.Annotations.Channels, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// DefaultChannel is the name of the channel that the annotations say is the package's default one, if they do.
func (r *Release) DefaultChannel() string { return r.bundle.Annotations.DefaultChannelName }

// Entry is the place in the upgrade graph that the ClusterServiceVersion gives the bundle.
func (r *Release) Entry() (declcfg.ChannelEntry, error) {
	entry, err := r.bundle.entry()
	if err != nil {
		return entry, r.bundle.csvFault(err)
	}
	return entry, nil
}

// Introduce gives a package the description and the icon of the bundle, as far as it has none of its own.
func (r *Release) Introduce(pkg *declcfg.Package) (err error) {
	if pkg.Description == "" {
		if pkg.Description, err = r.bundle.Description(); err != nil {
			return r.bundle.csvFault(fmt.Errorf("spec.description: %w", err))
		}
	}
	if pkg.Icon == nil {
		if pkg.Icon, err = r.bundle.icon(); err != nil {
			return r.bundle.csvFault(fmt.Errorf("spec.icon: %w", err))
		}
	}
	return nil
}
