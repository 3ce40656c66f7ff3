package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/berth-csi/berth/internal/oci"
)

// record lists what a catalog owns in a registry. It is stored as an image beside the catalog's image, before any tag is set. So even if
// a mirror is interrupted and the catalog then changes, the next mirror recognizes the catalog's own tags. No image of a catalog is
// copied to the place of a record.
type record struct {
	// Origin says where the catalog comes from.
	Origin string `json:"origin"`
	// Tags holds the digests to which the catalog has set each tag, by the full name of the tag.
	Tags map[string][]string `json:"tags"`
	// Hosts are the registries that the catalog names.
	Hosts []string `json:"hosts"`
	// Former are the repositories where an earlier version of this program put images, by source repository.
	Former map[string]string `json:"former,omitempty"`
}

// The file of a record in its image, and the suffix that makes the image's tag from the catalog's tag.
const (
	recordFolder = "mirror"
	recordFile   = recordFolder + "/record.json"
	recordTag    = "-mirror-record"
)

// recordLimits are the limits of the image of a record. A record takes about 200 bytes for each tag.
var recordLimits = oci.Limits{Time: 5 * time.Minute, Size: 32 << 20}

// recordReference returns the name of the record's image.
func (m *Mirror) recordReference() string { return m.catalog.Destination + recordTag }

// readRecord reads the record in the destination. It returns nil if there is none, or if it belongs to another catalog.
func (m *Mirror) readRecord(ctx context.Context) (*record, error) {
	digest, err := oci.Find(ctx, m.recordReference())
	if err != nil || digest == "" {
		return nil, err
	}
	pulled, err := oci.Pull(ctx, m.recordReference(), recordLimits, recordFolder)
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(pulled.Files[recordFile], &r); err != nil {
		return nil, fmt.Errorf("image %s is not the record of a mirror: %w; delete it unless something else uses it", m.recordReference(), err)
	}
	if r.Origin != m.Origin {
		return nil, nil
	}
	return &r, nil
}

// checkTags plans which tags to set, and fails if another catalog owns one of them: the author of this catalog must not be able to
// replace images that other people's clusters pull by tag.
func (m *Mirror) checkTags(ctx context.Context) error {
	if _, is := m.to.(*oci.Folder); is {
		return nil // a folder has only one catalog
	}
	before, err := m.readRecord(ctx)
	if err != nil {
		return err
	}
	m.before = before
	if before == nil {
		before = m.beforeRecords()
	}
	m.record = &record{Origin: m.Origin, Tags: map[string][]string{}, Former: map[string]string{}}
	maps.Copy(m.record.Former, before.Former)
	maps.Copy(m.record.Tags, before.Tags) // also of versions that nobody chose this time
	for _, n := range m.needs {
		m.record.Hosts = append(m.record.Hosts, hostOf(n.reference))
	}
	slices.Sort(m.record.Hosts)
	m.record.Hosts = slices.Compact(m.record.Hosts)
	var others faults
	for _, w := range append(slices.Clone(m.wholes), m.ownWhole) {
		for _, tag := range w.Tags {
			own := tag.Now == "" || slices.Contains(before.Tags[tag.Reference], tag.Now) || slices.Contains(m.Overwrite, tag.Reference)
			switch {
			case own && tag.Now != "" && tag.Now != tag.Next:
				m.record.Tags[tag.Reference] = []string{tag.Now, tag.Next}
			case own:
				m.record.Tags[tag.Reference] = []string{tag.Next}
			case tag.Now != tag.Next:
				others.add(fmt.Errorf("the tag %[1]s names %[2]s, which this catalog, %[3]s, has not put there and would replace with %[4]s; nothing is copied: choose another --name, --tag or path, or, to replace it, add --overwrite %[1]s",
					tag.Reference, tag.Now, m.Origin, tag.Next))
			}
		}
	}
	for i, w := range m.wholes {
		if w.Former != "" {
			m.record.Former[repositoryOf(m.images[i].Source)] = w.Former
		}
	}
	return others.joined()
}

// beforeRecords returns a record for a mirror by an earlier version of this program, which wrote no records. The record holds the
// catalog's tag if the report in the folder of objects shows that the same command has set that tag.
func (m *Mirror) beforeRecords() *record {
	r := &record{Tags: map[string][]string{}}
	if m.Last != nil && m.Last.Source == m.Text && m.Last.Catalog.Destination == m.catalog.Destination {
		r.Tags[m.catalog.Destination] = []string{m.Last.Catalog.Digest}
	}
	return r
}

// writeRecord writes the record, unless it is unchanged.
func (m *Mirror) writeRecord(ctx context.Context) error {
	if m.record == nil || m.before != nil && m.record.equals(m.before) {
		return nil
	}
	text, err := json.Marshal(m.record)
	if err != nil {
		return err
	}
	index, err := oci.Content{Files: map[string][]byte{recordFile: text}}.Index()
	if err == nil {
		_, err = oci.Push(ctx, m.recordReference(), index)
	}
	if err != nil {
		return fmt.Errorf("writing the catalog's record in the destination: %w", err)
	}
	return nil
}

func (r *record) equals(other *record) bool {
	return slices.Equal(r.Hosts, other.Hosts) && maps.Equal(r.Former, other.Former) && maps.EqualFunc(r.Tags, other.Tags, slices.Equal)
}

// newHosts returns the registries, other than the catalog's own, that the catalog did not name when it was last mirrored.
func (m *Mirror) newHosts() (all []string) {
	before := []string{m.Host}
	if folder, is := m.to.(*oci.Folder); is {
		before = append(before, folder.Hosts()...)
	} else if m.before != nil {
		before = append(before, m.before.Hosts...)
	}
	known := map[string]bool{}
	for _, host := range before {
		known[host] = true
	}
	for _, n := range m.needs {
		if host := hostOf(n.reference); !known[host] {
			all, known[host] = append(all, host), true
		}
	}
	slices.Sort(all)
	return all
}

// hostOf returns the registry of a full reference.
func hostOf(reference string) string {
	host, _, _ := strings.Cut(reference, "/")
	return host
}

// repositoryOf returns the repository of a full reference.
func repositoryOf(reference string) string {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return reference // it was parsed before
	}
	return ref.Context().Name()
}

// Last returns the report of the last mirror in a folder of objects, or nil.
func Last(dir string) *Document {
	text, err := os.ReadFile(filepath.Join(dir, documentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var d Document
	if err != nil || json.Unmarshal(text, &d) != nil {
		return nil
	}
	return &d
}
