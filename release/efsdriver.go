package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	base "github.com/berth-csi/berth/efs-utils-base"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/oci"
)

// efsDriverName is the name of the EFS driver's image, and of its program. efsDriverImage is the repository that the definition
// of the driver names.
const (
	efsDriverName  = "aws-efs-csi-driver"
	efsDriverImage = "quay.io/openshift/origin-aws-efs-csi-driver"
)

// efsDriver is the content of a file that says how to build the EFS driver's image. Its folders are relative to the file's folder.
type efsDriver struct {
	// Source is a folder with the driver's source, and Version the version that the driver reports.
	Source  string `json:"source"`
	Version string `json:"version"`
	// Base, Rust, EFSUtils, Proxy, FIPS and ExtraPackages are for the options of package base.
	Base          string   `json:"base"`
	Rust          string   `json:"rust"`
	EFSUtils      string   `json:"efsUtils"`
	Proxy         string   `json:"proxy"`
	FIPS          string   `json:"fips"`
	ExtraPackages []string `json:"extraPackages"`
	// Architectures are the architectures to build for. This machine must be able to run their programs. The default is its own.
	Architectures []string `json:"architectures"`
}

// readEFSDriver reads an efsDriver from a file, and resolves its folders, so that they no longer depend on the file's folder.
func readEFSDriver(file string) (*efsDriver, error) {
	data, err := boundedyaml.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("EFS driver: %w", err)
	}
	e := &efsDriver{Architectures: []string{runtime.GOARCH}}
	if err := boundedyaml.UnmarshalStrict(data, e); err != nil {
		return nil, fmt.Errorf("EFS driver: %s: %w", file, err)
	}
	if e.Source == "" || e.Version == "" || e.Base == "" {
		return nil, fmt.Errorf("EFS driver: %s: want source, version and base: a folder with the driver's source, its version, and an image to build on", file)
	}
	for _, folder := range []*string{&e.Source, &e.EFSUtils, &e.Proxy} {
		if *folder != "" && !filepath.IsAbs(*folder) {
			*folder = filepath.Join(filepath.Dir(file), *folder)
		}
	}
	e.Source, err = filepath.Abs(e.Source)
	return e, err
}

// program returns the driver's program.
func (e *efsDriver) program() program {
	return program{name: efsDriverName, pkg: "./cmd", module: e.Source,
		ldflags: "-X github.com/kubernetes-sigs/aws-efs-csi-driver/pkg/driver.driverVersion=" + e.Version}
}

// buildsImage reports whether a pull spec in a bundle names the image that the release builds from e, which may be nil.
func (e *efsDriver) buildsImage(pullSpec string) bool {
	ref, err := name.ParseReference(pullSpec)
	return e != nil && err == nil && ref.Context().Name() == efsDriverImage
}

// pushDrivers builds and pushes the image of the EFS driver, and pins it for bundles. The images of other drivers are built by others.
func (r *release) pushDrivers(ctx context.Context) error {
	if r.efs == nil {
		r.say("  none: bundles name the drivers that others have built")
		return nil
	}
	var images []v1.Image
	for _, architecture := range r.efs.Architectures {
		img, err := r.efsDriverFor(ctx, architecture)
		if err != nil {
			return fmt.Errorf("image %s for %s: %w", efsDriverName, architecture, err)
		}
		images = append(images, img)
	}
	index, err := oci.Index(images)
	if err != nil {
		return err
	}
	pushed, err := r.push(ctx, efsDriverName, index, r.source.version, "latest")
	if err != nil {
		return err
	}
	specs, err := r.pullSpecs()
	for _, spec := range specs {
		if r.efs.buildsImage(spec) {
			r.pins[spec] = r.pullSpec(pushed)
		}
	}
	return err
}

// efsDriverFor builds the image for one architecture.
func (r *release) efsDriverFor(ctx context.Context, architecture string) (v1.Image, error) {
	program, err := r.compileFor(ctx, r.efs.program(), "linux", architecture)
	if err != nil {
		return nil, err
	}
	r.built = append(r.built, program)
	r.say("  %s and efs-utils-base for %s, with buildah", efsDriverName, architecture)
	o := base.Options{Source: r.efs.EFSUtils, Proxy: r.efs.Proxy, FIPS: r.efs.FIPS, ExtraPackages: r.efs.ExtraPackages,
		Architecture: architecture, Time: r.source.time}
	for _, given := range []struct {
		image string
		name  *string
	}{{r.efs.Base, &o.Base}, {r.efs.Rust, &o.Rust}} {
		if given.image == "" {
			continue
		}
		img, err := platformOf(ctx, r.pins[given.image], architecture)
		if err != nil {
			return nil, err
		}
		if *given.name, err = r.builder.Load(ctx, img); err != nil {
			return nil, err
		}
	}
	system, driver := "localhost/efs-utils-base:"+architecture, "localhost/"+efsDriverName+":"+architecture
	if err := r.builder.BuildBase(ctx, system, o); err != nil {
		return nil, err
	}
	folder := filepath.Dir(program.file)
	licence, err := os.ReadFile(filepath.Join(r.efs.Source, "LICENSE"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "LICENSE"), licence, 0o644); err != nil {
		return nil, err
	}
	if err := r.builder.BuildDriver(ctx, driver, system, folder, r.efs.Version, o); err != nil {
		return nil, err
	}
	img, err := r.builder.Image(ctx, driver)
	if err != nil {
		return nil, err
	}
	licences, err := program.licenceFiles().SmallLayer()
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(img, licences)
}

// ingredientsOfEFSDriver returns the ingredients of the driver's image, except for its packages, which the image itself lists.
func (r *release) ingredientsOfEFSDriver(architecture string) ([]ingredient, error) {
	of, err := r.programFor(r.efs.program(), architecture).ingredients()
	return append(of, ingredient{name: "efs-utils", version: base.Version, licence: "MIT", purl: "pkg:github/aws/efs-utils@" + base.Version},
		imageIngredient(r.pins[r.efs.Base])), err
}

// close removes build results outside of the output folder.
func (r *release) close(err error) error {
	if r.builder == nil {
		return err
	}
	return errors.Join(err, r.builder.Close())
}

// isOwn reports whether a repository holds images that the release itself has pushed.
func (r *release) isOwn(repository string) bool {
	return strings.HasPrefix(repository, r.registry+"/berth") || repository == r.repository(efsDriverName)
}
