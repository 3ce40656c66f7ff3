package mirror

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/berth-csi/berth/internal/oci"
)

// Deletion says which images of a destination are not needed any more.
type Deletion struct {
	// Unneeded and Needed map images of the destination, by digest, to the names of their sources. An image is needed if a catalog of the
	// destination names it, if it is blocked, or if it is part of such an image.
	Unneeded, Needed map[string]string
	// Absent are images that the destination does not have.
	Absent []string
	// Catalogs are the catalogs of the destination, such as registry.example.com/mirror/tide:latest, with the digests that they had. Once a
	// catalog has changed, it may need other images.
	Catalogs map[string]string
}

// Confirmed is a list of images to delete that a person has reviewed.
type Confirmed struct {
	// Images are the images, by digest.
	Images []string
	// Catalogs are as in Deletion. A list that was written by hand need not have any.
	Catalogs map[string]string
}

// PlanDeletion finds the images of the chosen mirrors in a destination, and which of them its present catalogs need. It writes nothing.
func PlanDeletion(ctx context.Context, to oci.Destination, chosen, present []*Mirror) (*Deletion, error) {
	needed := map[string]string{}
	for _, m := range present {
		if len(m.unlisted) > 0 {
			return nil, fmt.Errorf("catalog %s in the destination does not list the images of bundle %s, so it is unknown which are needed; nothing is listed: expected relatedImages there", m.Text, m.unlisted[0].Name)
		}
		if _, err := m.find(ctx, to, m.references(), oci.Digests, needed); err != nil {
			return nil, err
		}
	}
	d := &Deletion{Unneeded: map[string]string{}, Needed: map[string]string{}}
	for _, m := range chosen {
		m.block()
		absent, err := m.find(ctx, to, m.references(), foundDigest, d.Unneeded)
		if err != nil {
			return nil, err
		}
		if _, err := m.find(ctx, to, m.blocked, oci.Digests, needed); err != nil { // an image may be chosen under another name
			return nil, err
		}
		d.Absent = append(d.Absent, absent...)
	}
	for image := range needed {
		if source, is := d.Unneeded[image]; is {
			d.Needed[image] = source
			delete(d.Unneeded, image)
		}
	}
	slices.Sort(d.Absent)
	return d, nil
}

// references returns the names of all images of a mirror.
func (m *Mirror) references() (all []string) {
	for _, n := range m.needs {
		all = append(all, n.reference)
	}
	return all
}

// foundDigest returns the digest of an image in a registry.
func foundDigest(ctx context.Context, reference string) ([]string, error) {
	digest, err := oci.Find(ctx, reference)
	return []string{digest}, err
}

// find looks for images in the destination. It adds their digests to found, and returns the images that the destination lacks.
func (m *Mirror) find(ctx context.Context, to oci.Destination, references []string, digests func(context.Context, string) ([]string, error), found map[string]string) (absent []string, err error) {
	var mu sync.Mutex
	transfer := &oci.Transfer{To: to}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(m.Jobs)
	for _, reference := range references {
		group.Go(func() error {
			place, err := transfer.Place(reference)
			if err != nil {
				return err
			}
			all, err := digests(ctx, place)
			if err != nil && !oci.IsAbsent(err) {
				return fmt.Errorf("looking for image %s: %w", place, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil || all[0] == "" {
				absent = append(absent, reference)
				return nil
			}
			for _, digest := range all {
				found[repositoryOf(place)+"@"+digest] = reference
			}
			return nil
		})
	}
	return absent, group.Wait()
}

// Write writes the list of images to delete, one a line, for people to read and for ReadDeletion.
func (d *Deletion) Write(w io.Writer) error {
	text := bufio.NewWriter(w)
	for _, catalog := range slices.Sorted(maps.Keys(d.Catalogs)) {
		fmt.Fprintf(text, "%s%s %s\n", validWhile, catalog, d.Catalogs[catalog])
	}
	for _, image := range slices.Sorted(maps.Keys(d.Needed)) {
		fmt.Fprintf(text, "# kept, as a catalog of the destination or blockedImages needs it: %s\n", image)
	}
	for _, reference := range d.Absent {
		fmt.Fprintf(text, "# not in the destination: %s\n", reference)
	}
	for _, image := range slices.Sorted(maps.Keys(d.Unneeded)) {
		fmt.Fprintln(text, image)
	}
	return text.Flush()
}

// validWhile begins a line about a catalog of the destination.
const validWhile = "# for the catalog "

// ReadDeletion reads a list of images to delete. Each image must be below the path of the destination, and named by digest.
func ReadDeletion(text []byte, path string) (*Confirmed, error) {
	var faults faults
	number := 0
	c := &Confirmed{Catalogs: map[string]string{}}
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if catalog, is := strings.CutPrefix(line, validWhile); is {
			reference, digest, _ := strings.Cut(catalog, " ")
			if _, err := v1.NewHash(digest); err != nil {
				faults.add(fmt.Errorf("line %d is %q; expected a catalog and its digest", number, line))
			} else if err := oci.CheckName(reference); err != nil {
				faults.add(fmt.Errorf("line %d: %w", number, err))
			}
			c.Catalogs[reference] = digest
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		ref, err := name.NewDigest(line, name.StrictValidation)
		if err != nil || ref.Name() != line {
			faults.add(fmt.Errorf("line %d is %q; expected an image by its digest", number, line))
		} else if err := oci.CheckName(line); err != nil {
			faults.add(fmt.Errorf("line %d: %w", number, err))
		} else if !strings.HasPrefix(line, strings.TrimSuffix(path, "/")+"/") {
			faults.add(fmt.Errorf("line %d is %q; expected an image below %s", number, line, path))
		}
		c.Images = append(c.Images, line)
	}
	return c, faults.joined()
}

// Check fails if a catalog of the destination has changed since the list was made, because the catalog may now need images of the list.
func (c *Confirmed) Check(ctx context.Context) error {
	for _, catalog := range slices.Sorted(maps.Keys(c.Catalogs)) {
		now, err := oci.Find(ctx, catalog)
		if err != nil {
			return fmt.Errorf("looking for the catalog %s: %w", catalog, err)
		}
		if now != c.Catalogs[catalog] {
			return fmt.Errorf("the catalog %s has digest %q, and had %s when the list was made: it may need images of the list, so make the list again with --config",
				catalog, now, c.Catalogs[catalog])
		}
	}
	return nil
}
