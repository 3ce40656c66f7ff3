package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/mirror/policy"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Schema is the name and version of the JSON of a mirror. It changes when a field changes.
const Schema = "berth.catalog-mirror.v1"

// Document describes a mirror or, in a dry run, a planned one.
type Document struct {
	Schema string `json:"schema"`
	// Source and Destination are as given on the command line.
	Source      string `json:"source"`
	Destination string `json:"destination"`
	// DryRun says that nothing was copied.
	DryRun   bool      `json:"dryRun"`
	Packages []Package `json:"packages"`
	// Catalog is the image of the smaller catalog.
	Catalog Image `json:"catalog"`
	// Images are the images that the catalog needs.
	Images []Image `json:"images"`
	// Size is the number of bytes of the catalog and all images, and Missing the number that the destination lacked.
	Size    int64 `json:"size"`
	Missing int64 `json:"missing"`
	// Blocked are images that the catalog needs and the user does not want.
	Blocked []string `json:"blocked,omitempty"`
	// NewHosts are registries, other than the catalog's own, that the catalog did not name when it was last mirrored to the destination.
	NewHosts []string `json:"newHosts,omitempty"`
	// Warnings are about dependencies that a cluster lacks if it installs from this catalog alone, and about images that may be missing.
	Warnings []string `json:"warnings,omitempty"`
}

// Package is a package that is kept.
type Package struct {
	Name           string `json:"name"`
	DefaultChannel string `json:"defaultChannel"`
	// FormerDefaultChannel is the default channel in the source, if it differs.
	FormerDefaultChannel string    `json:"formerDefaultChannel,omitempty"`
	Channels             []Channel `json:"channels"`
}

// Channel is a channel that is kept.
type Channel struct {
	Name string `json:"name"`
	Head string `json:"head"`
	// FormerHead is the head in the source, if it differs.
	FormerHead string   `json:"formerHead,omitempty"`
	Entries    []string `json:"entries"`
	// Between are the entries that were not chosen but that updates pass through.
	Between []string `json:"between,omitempty"`
	// Skips are names that are added to the head's skips, because the head's skipRange contains their versions.
	Skips []string `json:"skips,omitempty"`
}

// Image is an image and its copy.
type Image struct {
	// Source is the image as the catalog names it; it is empty for the catalog's own image.
	Source string `json:"source,omitempty"`
	// Destination is the image's name in the destination.
	Destination string `json:"destination"`
	Digest      string `json:"digest"`
	// Size is the number of bytes of the image with everything attached to it, and Missing the number that the destination lacked.
	Size    int64 `json:"size"`
	Missing int64 `json:"missing"`
	// Attached is the number of signatures, SBOMs and other manifests that are attached to it.
	Attached int `json:"attached"`
	// Former is the place where an earlier version of berth put the image, if the image is still there, and not yet at its destination.
	Former string `json:"former,omitempty"`
	// Bundle is a bundle that needs the image.
	Bundle string `json:"bundle,omitempty"`
}

// Options say what to mirror, and under which name.
type Options struct {
	Choice
	// Name is the name of the catalog, its image and the objects for clusters. Tag is the tag of its image.
	Name, Tag string
	// Repository is the repository of the catalog's image below the destination. By default it is the name.
	Repository string
	// Platforms are the platforms whose images are mirrored, such as linux/amd64. Without any, the images of all platforms are mirrored.
	Platforms []string
	// Blocked matches references of images that are not mirrored.
	Blocked []*regexp.Regexp
	// Namespace is the namespace of the CatalogSource.
	Namespace string
	// Jobs is the number of images that are handled concurrently.
	Jobs int
	// Time is the time limit for each image. It is also the limit for the total extra time of all slow images: see slowness.
	Time time.Duration
	// Text is the source as the user wrote it. Origin says where the catalog comes from. Host is the registry of the catalog's image, or "".
	Text, Origin, Host string
	// Overwrite are tags of the destination that may be set although another catalog owns them.
	Overwrite []string
	// Policy says which signatures images need. Without a policy, images need no signatures.
	Policy *policy.Policy
	// Last is the report of the last mirror in the folder of objects, or nil.
	Last *Document
}

// Mirror is a smaller catalog, and the images that it needs.
type Mirror struct {
	Options
	Packages []Package
	Warnings []string
	// Others are the faults in the parts of the catalog that are not mirrored.
	Others []*findings.Finding

	folder  string // of the smaller catalog
	needs   []need
	blocked []string
	// unlisted are the bundles for which the catalog does not list all images.
	unlisted []*fbc.Bundle
	images   []Image
	catalog  Image

	to       oci.Destination
	transfer *oci.Transfer
	wholes   []*oci.Whole  // of images
	own      *oci.Transfer // of the catalog
	ownWhole *oci.Whole

	before, record *record // the destination's record of the catalog before and after mirroring
	strikes        strikes
	failed         faults // of images
}

// notInNames matches characters that are usual in names of folders but not allowed in names of catalogs. New refuses other invalid
// characters: the name may come from a folder of images, which anybody may have written.
var notInNames = regexp.MustCompile(`[._]+`)

// NameOf returns the name for a catalog from the name of its source: v4-20 for the folder v4.20.
func NameOf(source string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(source), "-"), "-")
}

// New makes the smaller catalog from the catalog in a folder. It fails if a chosen package or the smaller catalog is not valid.
func New(ctx context.Context, dir string, options Options) (_ *Mirror, err error) {
	if faults := validation.IsDNS1123Label(options.Name); len(faults) > 0 {
		return nil, fmt.Errorf("name %q of the catalog: %s; give another with --name", options.Name, faults[0])
	}
	var packages []string
	for _, s := range options.Selections {
		packages = append(packages, s.Package)
	}
	part, err := rules.LoadPart(ctx, dir, rules.Serve, packages...)
	if err == nil && len(packages) == 0 && len(part.Warnings) > 0 {
		what := "a document is not read"
		if len(part.LeftOut) > 0 {
			what = fmt.Sprintf("package %s cannot be", strings.Join(part.LeftOut, ", "))
		}
		err = fmt.Errorf("everything is to be mirrored, and %s; name the packages to mirror with --package: %w", what, part.Warnings[0])
	}
	if err != nil {
		return nil, err
	}
	c := part.Catalog
	all, err := choose(c, options.Choice)
	if err != nil {
		return nil, err
	}
	m := &Mirror{Options: options, Others: part.Warnings}
	if m.needs, err = imagesOf(all); err != nil {
		return nil, err
	}
	m.unlisted = unlistedOf(all)
	for _, k := range all {
		m.Packages = append(m.Packages, k.report())
	}
	if m.folder, err = os.MkdirTemp("", "berth-mirror-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if err := writeCatalog(m.folder, c, all); err != nil {
		return nil, fmt.Errorf("writing the smaller catalog: %w", err)
	}
	return m, m.check(ctx)
}

// NewImages mirrors images that the user names, without a catalog.
func NewImages(references []string, options Options) (*Mirror, error) {
	m := &Mirror{Options: options}
	var faults faults
	for _, reference := range references {
		ref, err := name.ParseReference(reference)
		if err != nil {
			faults.add(fmt.Errorf("%q is not the name of an image: %w", reference, err))
			continue
		}
		m.needs = append(m.needs, need{reference: ref.Name()})
	}
	return m, faults.joined()
}

// hasCatalog reports whether there is a catalog.
func (m *Mirror) hasCatalog() bool { return m.folder != "" }

// Close deletes the temporary files of the mirror.
func (m *Mirror) Close() error {
	if !m.hasCatalog() {
		return nil
	}
	return os.RemoveAll(m.folder)
}

// check fails unless the smaller catalog is valid, and adds warnings about missing dependencies.
func (m *Mirror) check(ctx context.Context) error {
	smaller, err := rules.Load(ctx, m.folder)
	if err != nil {
		return fmt.Errorf("the smaller catalog is not valid: %w", err)
	}
	for _, f := range rules.Check(smaller) {
		if f.Rule == "bundle-dependency" { // a catalog is served even if OLM does not understand a dependency
			m.Warnings = append(m.Warnings, f.Message)
		}
	}
	m.Warnings = append(m.Warnings, dependencyWarnings(smaller)...)
	return nil
}

// report describes the kept parts of a package.
func (k *keptPackage) report() Package {
	p := Package{Name: k.Name, DefaultChannel: k.defaultChannel}
	if k.defaultChannel != k.DefaultChannel {
		p.FormerDefaultChannel = k.DefaultChannel
	}
	for _, c := range k.channels {
		reported := Channel{Name: c.Name, Head: c.graph.Heads[0].Name, Between: c.between, Skips: c.skips}
		if former := upgrade.Of(k.Package, c.Channel).Heads; len(former) > 0 && former[0].Name != reported.Head {
			reported.FormerHead = former[0].Name
		}
		for _, e := range c.graph.Entries {
			reported.Entries = append(reported.Entries, e.Name)
		}
		p.Channels = append(p.Channels, reported)
	}
	return p
}

// noRegistry is a name that no registry can have.
const noRegistry = "mirror.invalid"

// Shown returns a reference for messages, without noRegistry, which stands for the registry of a catalog that is not in any registry yet.
func Shown(reference string) string { return strings.TrimPrefix(reference, noRegistry+"/") }

// catalogReference returns the reference that the catalog's image has until it is in a registry.
func (m *Mirror) catalogReference() string {
	return noRegistry + "/" + cmp.Or(m.Repository, m.Name) + ":" + m.Tag
}

// Inspect finds the manifests and blobs of all images, and which of them the destination lacks. It continues after an image that
// its registry does not provide; Fault then returns the errors.
func (m *Mirror) Inspect(ctx context.Context, from oci.Source, to oci.Destination) (err error) {
	m.to, m.transfer = to, &oci.Transfer{From: from, To: to, Moving: true, Platforms: m.Platforms}
	if m.Policy != nil {
		m.transfer.Allowed = func(ctx context.Context, w *oci.Whole) error { return m.Policy.Check(ctx, from, w) }
	}
	if m.hasCatalog() {
		if err := m.inspectCatalog(ctx); err != nil {
			return err
		}
		m.block()
		m.unlisted = slices.DeleteFunc(m.unlisted, func(b *fbc.Bundle) bool { return m.isBlocked(b.Image) }) // nothing asks for a blocked bundle
		if err := m.addUnlisted(ctx, from); err != nil {
			return err
		}
	}
	m.block()
	images, wholes := make([]Image, len(m.needs)), make([]*oci.Whole, len(m.needs))
	slow := slowness{most: m.Time}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(m.Jobs)
	for i, need := range m.needs {
		group.Go(func() error {
			err := m.strikes.each(groupCtx, need.reference, 0, &slow, min(inspectionTime, m.Time), func(ctx context.Context) (err error) {
				images[i], wholes[i], err = inspected(ctx, m.transfer, need.reference)
				return err
			})
			images[i].Bundle = need.bundle
			return m.failed.note(groupCtx, need.bundle, err)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, w := range wholes {
		if w != nil {
			m.images, m.wholes = append(m.images, images[i]), append(m.wholes, w)
		}
	}
	m.catalog.Source = ""
	if !m.hasCatalog() {
		return nil // the user has named each image, and so each tag
	}
	return m.checkTags(ctx)
}

// inspectCatalog builds the image of the smaller catalog, and looks for its parts in the destination.
func (m *Mirror) inspectCatalog(ctx context.Context) error {
	content, err := build.Image(ctx, m.folder)
	if err != nil {
		return err
	}
	index, err := content.Index()
	if err != nil {
		return err
	}
	own, err := oci.Built(index)
	if err != nil {
		return err
	}
	m.own = &oci.Transfer{From: own, To: m.to, Catalog: true}
	m.catalog, m.ownWhole, err = inspected(ctx, m.own, m.catalogReference())
	return err
}

// block moves the images that the user does not want from needs to blocked.
func (m *Mirror) block() {
	m.needs = slices.DeleteFunc(m.needs, func(n need) bool {
		is := m.isBlocked(n.reference)
		if is {
			m.blocked = append(m.blocked, n.reference)
		}
		return is
	})
}

// isBlocked reports whether the user does not want an image.
func (m *Mirror) isBlocked(reference string) bool {
	// References name the registry of Docker Hub index.docker.io, but people write docker.io.
	written := strings.Replace(reference, name.DefaultRegistry+"/", "docker.io/", 1)
	return slices.ContainsFunc(m.Blocked, func(b *regexp.Regexp) bool { return b.MatchString(reference) || b.MatchString(written) })
}

// Fault returns the errors of images that cannot be mirrored. If there are any, the catalog is not mirrored either.
func (m *Mirror) Fault() error { return m.failed.joined() }

// inspected inspects an image with everything attached to it.
func inspected(ctx context.Context, t *oci.Transfer, reference string) (Image, *oci.Whole, error) {
	to, err := t.Place(reference)
	if err != nil {
		return Image{}, nil, err
	}
	w, err := t.Inspect(ctx, reference)
	if err != nil {
		return Image{}, nil, err
	}
	return Image{Source: reference, Destination: to, Digest: w.Digest, Size: w.Size, Missing: w.Missing, Attached: w.Attached, Former: w.Former}, w, nil
}

// Copy copies the images, and calls done for each copied image, concurrently. It continues after an image that its registry does not
// provide. It copies the catalog last, so that no cluster sees a catalog whose images are missing.
func (m *Mirror) Copy(ctx context.Context, done func(Image)) error {
	if err := m.writeRecord(ctx); err != nil {
		return err
	}
	slow := slowness{most: m.Time}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(m.Jobs)
	for i, w := range m.wholes {
		group.Go(func() error {
			if groupCtx.Err() != nil {
				return nil // another image failed
			}
			err := m.strikes.each(groupCtx, m.images[i].Source, m.images[i].Size, &slow, m.Time, func(ctx context.Context) error { return m.transfer.Copy(ctx, w) })
			if err == nil {
				done(m.images[i])
			}
			return m.failed.note(groupCtx, m.images[i].Bundle, err)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := m.Fault(); err != nil {
		return err
	}
	if !m.hasCatalog() {
		return nil
	}
	if err := m.own.Copy(ctx, m.ownWhole); err != nil {
		return err
	}
	done(m.catalog)
	if folder, is := m.to.(*oci.Folder); is {
		return folder.Finish(m.Name, m.catalogReference(), m.Origin)
	}
	return nil
}

// Copied returns the number of bytes that Copy has copied so far.
func (m *Mirror) Copied() int64 {
	if !m.hasCatalog() {
		return m.transfer.Copied()
	}
	return m.transfer.Copied() + m.own.Copied()
}

// Document describes the mirror.
func (m *Mirror) Document(source, destination string, dryRun bool) Document {
	d := Document{Schema: Schema, Source: source, Destination: destination, DryRun: dryRun, Packages: m.Packages, Catalog: m.catalog, Images: m.images, NewHosts: m.newHosts(), Blocked: m.blocked, Warnings: m.Warnings,
		Size: m.catalog.Size, Missing: m.catalog.Missing}
	for _, i := range m.images {
		d.Size += i.Size
		d.Missing += i.Missing
	}
	return d
}

// need is an image that a bundle needs.
type need struct{ reference, bundle string }

// imagesOf returns the images of the kept bundles, each once, by their full references.
func imagesOf(all []*keptPackage) (needs []need, err error) {
	seen := map[string]bool{}
	var faults faults
	for _, k := range all {
		for _, b := range k.bundles() {
			images, err := imagesOfBundle(b)
			if err != nil {
				faults.add(fmt.Errorf("bundle %s: %w", b.Name, err))
			}
			for _, reference := range images {
				if reference == "" {
					continue // the bundle carries its objects, or the related image has no pull spec
				}
				ref, err := name.ParseReference(reference)
				if err != nil {
					faults.add(fmt.Errorf("bundle %s: %q is not the name of an image: %w", b.Name, reference, err))
					continue
				}
				if ref.Context().RegistryStr() == noRegistry {
					faults.add(fmt.Errorf("bundle %s: the registry of %q, %s, cannot exist; expected another", b.Name, reference, noRegistry))
					continue
				}
				if !seen[ref.Name()] {
					seen[ref.Name()] = true
					needs = append(needs, need{ref.Name(), b.Name})
				}
			}
		}
	}
	return needs, faults.joined()
}

// maxFaults is the maximum number of listed faults.
const maxFaults = 50

// faults holds errors about images, and counts the errors beyond maxFaults.
type faults struct {
	mu     sync.Mutex
	all    []error
	others int
	out    map[string]int // the number of images that were not tried, by the registry that was given up
}

func (f *faults) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) < maxFaults {
		f.all = append(f.all, err)
		return
	}
	f.others++
}

// note records an error of an image, with the bundle that needs the image. It returns any other error.
func (f *faults) note(ctx context.Context, bundle string, err error) error {
	if err == nil || ctx.Err() != nil || !isOfImage(err) {
		return err
	}
	if out := (*outError)(nil); errors.As(err, &out) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.out == nil {
			f.out = map[string]int{}
		}
		f.out[out.host]++
		return nil
	}
	if bundle != "" {
		err = fmt.Errorf("bundle %s: %w", bundle, err)
	}
	f.add(err)
	return nil
}

// joined returns all faults as an error, in a stable order.
func (f *faults) joined() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.SortedFunc(slices.Values(f.all), func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if f.others > 0 {
		all = append(all, fmt.Errorf("and %d others", f.others))
	}
	for _, host := range slices.Sorted(maps.Keys(f.out)) {
		all = append(all, fmt.Errorf("registry %s failed for %d images, so %d other images from it were not tried", host, maxStrikes, f.out[host]))
	}
	return errors.Join(all...)
}
