// Package addition adds a bundle to a catalog or a template that people maintain, and leaves all other text unchanged.
package addition

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/render"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings/nearest"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/olm/upgrade"
)

// Request says which bundle to add, and where.
type Request struct {
	// File is a template, or a file of a catalog.
	File string
	// Bundle is the folder or the image of a bundle.
	Bundle string
	// Channels are the channels that get an entry, or the lists of a template of the schema olm.semver. If there is only one, it is the
	// default.
	Channels []string
	// Replaces is the name that the entry replaces, instead of the head of each channel.
	Replaces string
}

// Add adds a bundle to a file, and describes what it has added. The file is complete or unchanged afterwards.
func Add(ctx context.Context, r Request) (added []string, err error) {
	if isFolder(r.File) {
		return nil, r.wantsFile()
	}
	text, err := boundedyaml.ReadFile(r.File)
	if err != nil {
		return nil, err
	}
	documents, faults := document.Parse(r.File, text)
	if len(faults) > 0 {
		return nil, faults[0]
	}
	b, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	e := &edited{request: r, bundle: b, text: text, documents: documents}
	if err := e.add(ctx); err != nil {
		return nil, err
	}
	changed := e.apply()
	if again, faults := document.Parse(r.File, changed); len(faults) > 0 || len(again) < len(documents) {
		return nil, fmt.Errorf("%s is written in a way that nothing can be added to without harm; add the bundle by hand", r.File)
	}
	return e.added, write(r.File, changed)
}

// wantsFile returns the error for a folder in place of a file. If the folder is a catalog, the error names a file in it.
func (r Request) wantsFile() error {
	example := filepath.Join(r.File, "catalog.yaml")
	if files, err := document.List(r.File); err == nil && len(files) > 0 {
		example = files[0].Path
	}
	return fmt.Errorf("%s is a folder; expected a template or a file of a catalog, such as %s", r.File, example)
}

// write replaces a file atomically. If the file is a symbolic link, it replaces the link's target.
func write(path string, text []byte) (err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	staged, err := os.CreateTemp(filepath.Dir(path), ".staging-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(staged.Name()))
		}
	}()
	_, err = staged.Write(text)
	if err := errors.Join(err, staged.Chmod(info.Mode().Perm()), staged.Close()); err != nil {
		return err
	}
	return os.Rename(staged.Name(), path)
}

// read reads the bundle.
func (r Request) read(ctx context.Context) (*render.Bundle, error) {
	if r.isFolder() {
		return render.Folder(r.Bundle)
	}
	pulled, err := oci.Pull(ctx, r.Bundle, registryv1.ImageLimits, registryv1.Folders...)
	if err != nil {
		return nil, err
	}
	return render.Image(pulled.Reference, pulled.Files)
}

// edited is a file that a bundle is being added to.
type edited struct {
	request   Request
	bundle    *render.Bundle
	text      []byte
	documents []document.Document
	all       []insertion
	added     []string
}

// insertion is text to insert at an offset of the file.
type insertion struct {
	offset int
	text   string
}

// add adds the bundle in the form of the file's schema.
func (e *edited) add(ctx context.Context) error {
	var meta declcfg.Meta
	if len(e.documents) == 0 {
		return fmt.Errorf("%s is empty; expected a template or a catalog", e.request.File)
	}
	if err := json.Unmarshal(e.documents[0].Content, &meta); err != nil {
		return err
	}
	switch meta.Schema {
	case build.Schema:
		return e.addToOwn()
	case "olm.semver":
		return e.addToSemver()
	case "olm.template.basic":
		return e.addToBasic()
	case "olm.template.substitutes":
		return e.addToSubstitutes(ctx)
	case declcfg.SchemaPackage, declcfg.SchemaChannel, declcfg.SchemaBundle:
		return e.addToCatalog()
	}
	return fmt.Errorf("%s is of schema %q; expected a template of schema %s, olm.semver, olm.template.basic or olm.template.substitutes, or a file of a catalog", e.request.File, meta.Schema, build.Schema)
}

// isFolder reports whether the bundle is a folder, and not an image.
func (r Request) isFolder() bool { return isFolder(r.Bundle) }

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// from returns a template's reference to the bundle: its folder relative to the template, or its image as the user wrote it.
func (r Request) from() (string, error) {
	if !r.isFolder() {
		return r.Bundle, nil
	}
	template, err := filepath.Abs(filepath.Dir(r.File))
	if err != nil {
		return "", err
	}
	folder, err := filepath.Abs(r.Bundle)
	if err != nil {
		return "", err
	}
	relative, err := filepath.Rel(template, folder)
	return filepath.ToSlash(relative), err
}

// addToOwn adds the bundle to a template of Berth. Channels without entries need no new entry: they have all bundles.
func (e *edited) addToOwn() error {
	from, err := e.request.from()
	if err != nil {
		return err
	}
	key := map[bool]string{true: "folder", false: "image"}[e.request.isFolder()]
	var said struct {
		Package string `json:"package"`
		Bundles []struct {
			Folder string `json:"folder"`
			Image  string `json:"image"`
		} `json:"bundles"`
		Channels []struct {
			Name    string `json:"name"`
			Entries []any  `json:"entries"`
		} `json:"channels"`
	}
	if err := e.documents[0].Decode(&said); err != nil {
		return err
	}
	if said.Package != e.bundle.Package {
		return fmt.Errorf("%s is of package %s, and bundle %s of package %s; expected the same", e.request.File, said.Package, e.bundle.Name, e.bundle.Package)
	}
	for _, b := range said.Bundles {
		if b.Image == from || b.Folder != "" && path.Clean(b.Folder) == from {
			return e.hasAlready("bundles", from)
		}
	}
	if err := e.append(0, []any{"bundles"}, fields{{key, from}}); err != nil {
		return err
	}
	var names []string
	numbers := map[string]int{}
	for i, c := range said.Channels {
		if names = append(names, c.Name); c.Entries != nil {
			numbers[c.Name] = i
		}
	}
	chosen, err := e.chosen(names)
	if err != nil {
		return err
	}
	for _, name := range chosen {
		if number, listed := numbers[name]; listed {
			if err := e.append(0, []any{"channels", number, "entries"}, fields{{"name", e.bundle.Name}}); err != nil {
				return err
			}
		}
	}
	e.say("bundle %s, in %s", e.bundle.Name, list("channel", chosen))
	return nil
}

// addToSemver adds the bundle to lists of a template, from which opm makes channels.
func (e *edited) addToSemver() error {
	from, err := e.request.from()
	if err != nil {
		return err
	}
	root, err := e.root(0)
	if err != nil {
		return err
	}
	var names []string
	keys := map[string]string{}
	for _, name := range []string{"candidate", "fast", "stable"} {
		if key, list := child(root, name); list != nil {
			names, keys[name] = append(names, name), key
		}
	}
	chosen, err := e.chosen(names)
	if err != nil {
		return err
	}
	said := map[string]json.RawMessage{}
	if err := e.documents[0].Decode(&said); err != nil {
		return err
	}
	for _, name := range chosen {
		var l struct {
			Bundles []declcfg.Bundle `json:"bundles"`
		}
		if err := json.Unmarshal(said[keys[name]], &l); err != nil {
			return fmt.Errorf("%s: list %s: %w", e.request.File, name, err)
		}
		if hasImage(l.Bundles, from) {
			return e.hasAlready("list "+name, from)
		}
		if err := e.append(0, []any{keys[name], "bundles"}, fields{{"image", from}}); err != nil {
			return err
		}
	}
	e.say("bundle %s, in %s", e.bundle.Name, list("list", chosen))
	return nil
}

// addToBasic adds the bundle to a template that has the documents of a catalog.
func (e *edited) addToBasic() error {
	from, err := e.request.from()
	if err != nil {
		return err
	}
	places, bundles, err := e.entries()
	if err != nil {
		return err
	}
	if hasImage(bundles, from) {
		return e.hasAlready("entries", from)
	}
	if err := e.append(0, []any{"entries"}, fields{{"schema", declcfg.SchemaBundle}, {"image", from}}); err != nil {
		return err
	}
	return e.addEntries(places)
}

// addToSubstitutes adds the bundle to a template with the documents of a catalog and substitutions of bundles. A rebuilt bundle
// substitutes the bundle that it was built from; any other bundle is a new version, and goes into the entries.
func (e *edited) addToSubstitutes(ctx context.Context) error {
	from, err := e.request.from()
	if err != nil {
		return err
	}
	places, bundles, err := e.entries()
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(bundles, e.isRebuilt); i >= 0 {
		base, err := e.latest(ctx, bundles[i].Name)
		if err != nil {
			return err
		}
		if err := e.append(0, []any{"substitutions"}, fields{{"name", from}, {"base", base}}); err != nil {
			return err
		}
		e.say("bundle %s, which takes the place of %s", e.bundle.Name, base)
		return nil
	}
	if slices.ContainsFunc(bundles, func(b declcfg.Bundle) bool { return b.Name == e.bundle.Name }) {
		return e.hasAlready("entries", e.bundle.Name)
	}
	rendered, err := e.bundle.In(render.Described)
	if err != nil {
		return err
	}
	if err := e.append(0, []any{"entries"}, bundleDocument{rendered}); err != nil {
		return err
	}
	return e.addEntries(places)
}

// latest returns the name of the bundle that stands in place of the named bundle after all substitutions of the template.
func (e *edited) latest(ctx context.Context, name string) (string, error) {
	var said struct {
		Substitutions []struct {
			Name string `json:"name"`
			Base string `json:"base"`
		} `json:"substitutions"`
	}
	if err := e.documents[0].Decode(&said); err != nil {
		return "", err
	}
	for i, s := range said.Substitutions {
		if s.Base != name {
			continue
		}
		other := e.request
		other.Bundle = s.Name
		if folder := filepath.Join(filepath.Dir(e.request.File), filepath.FromSlash(s.Name)); isFolder(folder) {
			other.Bundle = folder
		}
		b, err := other.read(ctx)
		if err != nil {
			line, _ := e.documents[0].Position([]any{"substitutions", i, "name"})
			return "", fmt.Errorf("%s:%d: %w", e.request.File, line, err)
		}
		name = b.Name
	}
	return name, nil
}

// isRebuilt reports whether the added bundle is a later release of another bundle's version.
func (e *edited) isRebuilt(other declcfg.Bundle) bool {
	of, err := other.VersionRelease()
	added := e.bundle.Version
	return err == nil && other.Package == e.bundle.Package && of.Version.EQ(added.Version) && of.Release.Compare(added.Release) < 0
}

// entries returns the places of channels, and the bundles, in a template that has the documents of a catalog.
func (e *edited) entries() (places []place, bundles []declcfg.Bundle, err error) {
	var said struct {
		Entries []json.RawMessage `json:"entries"`
	}
	if err := e.documents[0].Decode(&said); err != nil {
		return nil, nil, err
	}
	for i, raw := range said.Entries {
		var c declcfg.Channel
		if json.Unmarshal(raw, &c) == nil && c.Schema == declcfg.SchemaChannel {
			places = append(places, place{c, 0, []any{"entries", i, "entries"}})
		}
		var b declcfg.Bundle
		if json.Unmarshal(raw, &b) == nil && b.Schema == declcfg.SchemaBundle {
			bundles = append(bundles, b)
		}
	}
	return places, bundles, nil
}

// addToCatalog adds the bundle's document to the end of the file, and entries to channels in the file.
func (e *edited) addToCatalog() error {
	var places []place
	for i, d := range e.documents {
		var c declcfg.Channel
		if json.Unmarshal(d.Content, &c) == nil && c.Schema == declcfg.SchemaChannel {
			places = append(places, place{c, i, []any{"entries"}})
		}
	}
	rendered, err := e.bundle.In(render.Described)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if !bytes.HasSuffix(e.text, []byte("\n")) {
		text.WriteByte('\n')
	}
	if e.documents[0].JSON {
		err = declcfg.WriteJSON(declcfg.DeclarativeConfig{Bundles: []declcfg.Bundle{rendered}}, &text)
	} else {
		err = render.WriteYAML(rendered, &text)
	}
	if err != nil {
		return err
	}
	e.all = append(e.all, insertion{len(e.text), text.String()})
	return e.addEntries(places)
}

// place is a channel, and the path of its entries in a document of the file.
type place struct {
	declcfg.Channel
	document int
	path     []any
}

// addEntries adds an entry to each chosen channel. By default, the entry replaces the head.
func (e *edited) addEntries(places []place) error {
	var names []string
	places = slices.DeleteFunc(places, func(p place) bool { return p.Package != e.bundle.Package })
	for _, p := range places {
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("%s has no channel of package %s, which the bundle is of", e.request.File, e.bundle.Package)
	}
	chosen, err := e.chosen(names)
	if err != nil {
		return err
	}
	for _, p := range places {
		if !slices.Contains(chosen, p.Name) {
			continue
		}
		replaces, err := e.replaced(p.Channel)
		if err != nil {
			return err
		}
		entry := fields{{"name", e.bundle.Name}}
		if replaces != "" {
			entry = append(entry, [2]string{"replaces", replaces})
		}
		if err := e.append(p.document, p.path, entry); err != nil {
			return err
		}
		e.say("entry %s of channel %s, which replaces %s", e.bundle.Name, p.Name, cmp.Or(replaces, "nothing"))
	}
	return nil
}

// replaced returns the name that the new entry of a channel replaces.
func (e *edited) replaced(c declcfg.Channel) (string, error) {
	var names []string
	for _, entry := range c.Entries {
		names = append(names, entry.Name)
	}
	if slices.Contains(names, e.bundle.Name) {
		return "", e.hasAlready("channel "+c.Name, e.bundle.Name)
	}
	heads := headsOf(c.Entries)
	if name := e.request.Replaces; name != "" {
		after := headsOf(append(slices.Clone(c.Entries), declcfg.ChannelEntry{Name: e.bundle.Name, Replaces: name}))
		if len(after) > max(1, len(heads)) {
			return "", fmt.Errorf("%s: channel %s would have the heads %s, and OLM v0 would resolve nothing from it; expected --replaces to name its head%s",
				e.request.File, c.Name, strings.Join(after, ", "), nearest.Hint(name, names))
		}
		return name, nil
	}
	if len(heads) > 1 {
		return "", fmt.Errorf("%s: channel %s has the heads %s; expected one, or say with --replaces which one %s replaces", e.request.File, c.Name, strings.Join(heads, ", "), e.bundle.Name)
	}
	head := strings.Join(heads, "")
	_, number, _ := strings.Cut(head, ".v")
	if later, err := semver.Parse(number); err == nil && later.GT(e.bundle.Version.Version) {
		return "", fmt.Errorf("%s: %s is earlier than %s, the head of channel %s, and OLM would downgrade clusters; expected a later version, or say with --replaces what it replaces",
			e.request.File, e.bundle.Name, head, c.Name)
	}
	return head, nil
}

// headsOf returns the names of the heads of a channel with these entries.
func headsOf(entries []declcfg.ChannelEntry) (heads []string) {
	c := &fbc.Channel{Channel: declcfg.Channel{Entries: entries}}
	for _, e := range upgrade.Of(&fbc.Package{}, c).Heads {
		heads = append(heads, e.Name)
	}
	return heads
}

// hasAlready returns the error for a bundle that a part of the file has already.
func (e *edited) hasAlready(part, bundle string) error {
	return fmt.Errorf("%s: %s has %s already; expected a bundle that it does not have", e.request.File, part, bundle)
}

// hasImage reports whether one of the bundles of a template has an image, or a folder in its place.
func hasImage(bundles []declcfg.Bundle, from string) bool {
	return slices.ContainsFunc(bundles, func(b declcfg.Bundle) bool { return b.Image == from })
}

// chosen returns the names of the existing channels or lists that get the bundle.
func (e *edited) chosen(names []string) ([]string, error) {
	if len(e.request.Channels) == 0 {
		if len(names) == 1 {
			return names, nil
		}
		return nil, fmt.Errorf("%s has %s; say with --channel which of them get the bundle", e.request.File, list("channel", names))
	}
	for _, name := range e.request.Channels {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%s has no channel %s; expected one of %s%s", e.request.File, name, strings.Join(names, ", "), nearest.Hint(name, names))
		}
	}
	return e.request.Channels, nil
}

func (e *edited) say(format string, args ...any) {
	e.added = append(e.added, fmt.Sprintf(format, args...))
}

// list returns names after their noun.
func list(noun string, names []string) string {
	if len(names) == 1 {
		return noun + " " + names[0]
	}
	return noun + "s " + strings.Join(names, ", ")
}
