// Package source opens the catalog that a command line names: a folder, an image in a registry, or a folder that a catalog was
// mirrored to.
package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
	"github.com/berth-csi/berth/internal/oci"
)

// Stdin is the source of a catalog that is read from standard input.
const Stdin = "-"

// The prefixes that say where a catalog's image is, as in other tools.
const (
	InFolder   = "oci:"
	InRegistry = "docker://"
)

// ConfigsFolder is the usual folder of the catalog in its image, and ConfigsLabel is the label that names the folder.
const (
	ConfigsFolder = "configs"
	ConfigsLabel  = "operators.operatorframework.io.index.configs.v1"
	// databaseLabel is the label of images whose catalog is a database.
	databaseLabel = "operators.operatorframework.io.index.database.v1"
)

// carried is the prefix of the origin of a catalog that came in a folder of images.
const carried = "a carried folder: "

// limits are the limits for a catalog's image. The largest catalogs take a few hundred MiB, and their images also contain programs.
var limits = oci.Limits{Time: 30 * time.Minute, Size: 16 << 30, Kept: 2 << 30}

// Source is where a catalog and its images come from.
type Source struct {
	// Text is the source as the user wrote it.
	Text string
	// Dir is the folder of the catalog. It is temporary if the source is an image.
	Dir string
	// Name is the name of the mirror that the catalog comes from, or of the folder or image.
	Name string
	// Origin says where the catalog is from: "a folder", the repository of its image, or the origin that a mirrored folder records.
	// Host is the registry of its image, or "" if the catalog does not come from a registry.
	Origin, Host string
	// Bundle is the pulled image if OpenAny opened the image of a bundle. There is no folder then.
	Bundle *oci.Pulled

	images oci.Source // where the catalog's own image is
	folder bool       // the catalog is in a folder of images
	single bool       // the folder has only the catalog's image
	local  bool       // the registry of its image is on this machine

	reference, digest string // of its image

	// within is the folder of the catalog in its image, or "" without an image.
	within string
	close  []func() error
}

// Open opens a source: the folder or the file of a catalog, standard input (-), the reference of a catalog's image with or without
// docker://, or oci: and the folder that a catalog was mirrored to. Unless the catalog was mirrored, the images that it names are in
// their registries.
func Open(ctx context.Context, text string) (*Source, error) {
	s, err := open(ctx, text)
	if errors.As(err, new(missingError)) {
		return s, fmt.Errorf("%w; want the folder or the file of a catalog, or the image of one with its registry, such as quay.io/example/catalog:v1", err)
	}
	if errors.Is(err, errBundle) {
		return s, fmt.Errorf("image %s is the image of a bundle; expected the image of a catalog, with the label %s", text, ConfigsLabel)
	}
	return s, err
}

// OpenAny is like Open, and also opens the image of a bundle.
func OpenAny(ctx context.Context, text string) (*Source, error) {
	s, err := open(ctx, text)
	if errors.As(err, new(missingError)) {
		return s, fmt.Errorf("%w; want the folder of a bundle or a catalog, or the image of one with its registry, such as quay.io/example/bundle:v1", err)
	}
	if !errors.Is(err, errBundle) {
		return s, err
	}
	pulled, err := oci.Pull(ctx, strings.TrimPrefix(text, InRegistry), registryv1.ImageLimits, registryv1.Folders...)
	s.Bundle = &pulled
	return s, err
}

// missingError says that nothing is at a path.
type missingError struct{ error }

func (e missingError) Unwrap() error { return e.error }

// errBundle says that the image holds a bundle. Only its labels were read, because bundles have other limits.
var errBundle = errors.New("it is the image of a bundle")

func open(ctx context.Context, text string) (_ *Source, err error) {
	s := &Source{Text: text, images: oci.Registries(ctx)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	dir, mirrored := strings.CutPrefix(text, InFolder)
	reference, inRegistry := strings.CutPrefix(text, InRegistry)
	switch {
	case text == Stdin:
		return s, s.readStdin()
	case mirrored:
		return s, s.openMirrored(ctx, dir)
	case inRegistry || isReference(text):
		return s, s.openImage(ctx, reference)
	}
	if _, err := os.Stat(text); err != nil {
		return s, missingError{err}
	}
	if _, err := os.Stat(filepath.Join(text, "oci-layout")); err == nil {
		return s, fmt.Errorf("%s is a folder of images, not of a catalog; write %s%s to use the catalog in it", text, InFolder, text)
	}
	for _, file := range []string{text, filepath.Join(text, "index.db"), filepath.Join(text, "database", "index.db")} {
		if isDatabase(file) {
			return s, fmt.Errorf("%s is a SQLite catalog, which opm no longer makes; run `%s`, and use DIR instead", file, escape.Command("opm migrate %s DIR", file))
		}
	}
	whole, err := filepath.Abs(text)
	s.Dir, s.Name, s.Origin = text, filepath.Base(whole), "a folder"
	return s, err
}

// isDatabase reports whether a file is a SQLite database. It opens only regular files: opening a pipe could wait for ever.
func isDatabase(path string) bool {
	const magic = "SQLite format 3\x00"
	if !isFile(path) {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	begin := make([]byte, len(magic))
	_, err = io.ReadFull(file, begin)
	return err == nil && string(begin) == magic
}

// readStdin reads a catalog from standard input.
func (s *Source) readStdin() (err error) {
	if s.Dir, err = os.MkdirTemp("", "berth-catalog-"); err != nil {
		return err
	}
	s.close = append(s.close, func() error { return os.RemoveAll(s.Dir) })
	file, err := os.Create(filepath.Join(s.Dir, Stdin))
	if err != nil {
		return err
	}
	n, err := io.Copy(file, io.LimitReader(os.Stdin, limits.Kept+1))
	if err == nil && n > limits.Kept {
		err = fmt.Errorf("standard input is longer than %d MiB; expected a shorter catalog", limits.Kept>>20)
	}
	s.Name, s.Origin = "catalog", "a folder"
	return errors.Join(err, file.Close())
}

// Images returns the source of the images that the catalog names. A catalog from a registry may not name registries on this machine,
// in its cloud or in a private network, except for its own registry and those that the user allows.
func (s *Source) Images(ctx context.Context, allowed []string) oci.Source {
	if s.single { // the images are elsewhere, and anybody may have written the catalog
		return oci.PublicRegistries(ctx, allowed...)
	}
	if s.folder || s.Host == "" || s.local {
		return s.images
	}
	return oci.PublicRegistries(ctx, append([]string{s.Host}, allowed...)...)
}

// Check fails unless check allows the catalog's image in its registry. It checks no other sources: the image of a mirrored catalog
// was built in its folder.
func (s *Source) Check(ctx context.Context, check func(context.Context, oci.Source, *oci.Whole) error) error {
	if s.Host == "" {
		return nil
	}
	w, err := oci.Walk(ctx, s.images, s.reference)
	if err != nil {
		return err
	}
	if w.Digest != s.digest {
		return fmt.Errorf("image %s is %s now, and was %s when it was read: run the command again", s.reference, w.Digest, s.digest)
	}
	return check(ctx, s.images, w)
}

// isReference reports whether a text is an image reference and not a path: no such file exists, and the text begins with the name of
// a registry.
func isReference(text string) bool {
	if _, err := os.Lstat(text); err == nil {
		return false
	}
	registry, repository, below := strings.Cut(text, "/")
	return below && repository != "" && strings.Trim(registry, ".") != "" && (strings.ContainsAny(registry, ".:") || registry == "localhost")
}

// openMirrored opens the catalog in a folder that it was mirrored to.
func (s *Source) openMirrored(ctx context.Context, dir string) error {
	folder, err := oci.OpenFolder(dir)
	if err != nil {
		return err
	}
	s.images, s.folder, s.close = folder, true, append(s.close, folder.Close)
	catalog, reference, origin := folder.Catalog()
	if reference == "" {
		return fmt.Errorf("image folder %s has no catalog; expected a folder that `%s` has finished", dir, escape.Command("berth catalog mirror CATALOG %s", InFolder+dir))
	}
	err = s.openImage(ctx, reference)
	s.Name, s.Host = catalog, ""
	// The origin in a folder proves nothing, so it must differ from the origin of a catalog from a registry.
	s.Origin = carried + cmp.Or(strings.TrimPrefix(origin, carried), "an earlier version")
	s.single = folder.IsSingle()
	return err
}

// openImage opens the image of a catalog, and fails with errBundle for the image of a bundle.
func (s *Source) openImage(ctx context.Context, reference string) error {
	if parsed, err := name.ParseReference(reference); err == nil {
		s.Name = path.Base(parsed.Context().RepositoryStr())
		s.Origin, s.Host, s.local = parsed.Context().Name(), parsed.Context().RegistryStr(), oci.IsLocal(reference)
	}
	pulled, err := oci.PullLabelled(ctx, s.images, reference, limits, func(labels map[string]string) (folders []string, err error) {
		if labels[registryv1.PackageAnnotation] != "" && labels[ConfigsLabel] == "" {
			return nil, errBundle
		}
		if labels[ConfigsLabel] == "" && labels[databaseLabel] != "" {
			return nil, fmt.Errorf("it is a SQLite catalog, as its label %s says, which opm no longer makes; run `%s`, and use DIR instead", databaseLabel, escape.Command("opm migrate %s DIR", reference))
		}
		s.within, err = configsOf(labels)
		return []string{s.within}, err
	})
	if err != nil {
		return err
	}
	s.reference, s.digest = reference, pulled.Reference[strings.LastIndex(pulled.Reference, "@")+1:]
	if len(pulled.Files) == 0 {
		return fmt.Errorf("image %s has no catalog: it has no files in /%s", reference, s.within)
	}
	if s.Dir, err = os.MkdirTemp("", "berth-catalog-"); err != nil {
		return err
	}
	s.close = append(s.close, func() error { return os.RemoveAll(s.Dir) })
	return s.unpack(pulled.Files)
}

// configsOf returns the folder of the catalog in an image with these labels. Without ConfigsLabel, which OLM v1 requires, the folder is
// ConfigsFolder.
func configsOf(labels map[string]string) (string, error) {
	label := labels[ConfigsLabel]
	if label == "" {
		return ConfigsFolder, nil
	}
	folder := strings.TrimPrefix(path.Clean("/"+label), "/")
	if folder == "" {
		return "", fmt.Errorf("its label %s is %q; expected a folder of the catalog, such as /%s", ConfigsLabel, label, ConfigsFolder)
	}
	return folder, nil
}

// unpack writes the files in the image's catalog folder to s.Dir, and never elsewhere.
func (s *Source) unpack(files map[string][]byte) (err error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, file := range slices.Sorted(maps.Keys(files)) {
		below, is := strings.CutPrefix(file, s.within+"/")
		if !is {
			return fmt.Errorf("image %s: %q is not a folder with a catalog", s.Text, file)
		}
		if err := root.MkdirAll(path.Dir(below), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := root.WriteFile(below, files[file], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Close deletes the temporary files of the source.
func (s *Source) Close() error {
	var faults []error
	for _, each := range s.close {
		faults = append(faults, each())
	}
	return errors.Join(faults...)
}

// Named returns an error whose text names files by their paths in the image, instead of the paths of temporary files.
func (s *Source) Named(err error) error {
	if err == nil || s.within == "" && s.Text != Stdin {
		return err
	}
	joined, is := err.(interface{ Unwrap() []error })
	if !is {
		return &namedError{err, s}
	}
	var all []error
	for _, each := range joined.Unwrap() {
		all = append(all, s.Named(each))
	}
	return errors.Join(all...)
}

// NameFindings makes findings name files by their paths in the image.
func (s *Source) NameFindings(all []*findings.Finding) {
	for _, f := range all {
		f.File, f.Message = s.name(f.File), s.name(f.Message)
	}
}

// name replaces the paths of temporary files in a text.
func (s *Source) name(text string) string {
	switch {
	case s.Text == Stdin:
		return strings.ReplaceAll(strings.ReplaceAll(text, filepath.Join(s.Dir, Stdin), Stdin), s.Dir, Stdin)
	case s.within == "":
		return text
	}
	return strings.ReplaceAll(text, s.Dir, s.within)
}

// namedError is an error about files of an image.
type namedError struct {
	error
	source *Source
}

func (e *namedError) Error() string { return e.source.name(e.error.Error()) }

func (e *namedError) Unwrap() error { return e.error }
