package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/bundle/registryv1/access"
	"github.com/berth-csi/berth/catalog/diff"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/graph"
	"github.com/berth-csi/berth/internal/findings/outline"
)

// The limits of a summary: parts of each kind, files of a package before the change, and the length of a drawing. GitHub does not draw
// longer ones.
const (
	partsLimit   = 5
	filesLimit   = 100
	drawingLimit = 50_000
)

// Summary describes a change since a commit in Markdown: added, modified and deleted parts; the access that new bundles request;
// changes of catalogs for clusters; and a drawing of the updates of each changed package. It leaves out unreadable parts, which the
// rules report. It fails if git does, or the context ends.
func (r *Repository) Summary(ctx context.Context, c Change, since *Commit, kept *Kept) (string, error) {
	var text strings.Builder
	text.WriteString("\n### What changes\n\n" + outline.Markdown.Render(c.lines(), 0))
	all := map[string]*operator{}
	for _, name := range c.Operators {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		all[name] = r.operator(name, kept.facts)
	}
	for _, p := range c.Added[:min(len(c.Added), partsLimit)] {
		text.WriteString(r.asks(all[p.Above], p))
	}
	var drawn []drawing
	for _, name := range c.Operators {
		p := graph.Of(all[name].drawn())[0]
		if !r.hasOperator(name) || len(p.Channels) == 0 {
			continue
		}
		added := map[string]bool{}
		for _, part := range c.Added {
			if part.Above != name {
				continue
			}
			if b := all[name].find(part.Name); b != nil {
				added[b.Name] = true
			}
		}
		p.MarkNew(added)
		drawn = append(drawn, drawing{name, p})
	}
	for i, p := range c.Packages {
		catalog, faults, err := fbc.Read(ctx, r.path(CatalogsDir, p.Above, p.Name))
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err != nil {
			continue
		}
		if i < partsLimit && len(faults) == 0 {
			changes, err := since.compare(ctx, p, catalog)
			if err != nil {
				return "", err
			}
			text.WriteString(changes)
		}
		for _, of := range graph.Of(catalog.Packages...) {
			drawn = append(drawn, drawing{of.Name + " in " + p.Above, of})
		}
	}
	for _, d := range drawn[:min(len(drawn), partsLimit)] {
		text.WriteString(d.markdown())
	}
	if more := len(drawn) - partsLimit; more > 0 {
		fmt.Fprintf(&text, "\n%d more packages change.\n", more)
	}
	return text.String(), nil
}

// lines lists the added, modified and deleted parts.
func (c Change) lines() (lines []outline.Line) {
	for _, part := range []struct {
		title string
		names []string
	}{
		{"bundles added", names(c.Added)}, {"bundles modified", names(c.Modified)}, {"bundles deleted", names(c.Deleted)},
		{"packages in catalogs", names(c.Packages)}, {"packages deleted from catalogs", names(c.PackagesDeleted)}, {"other files", c.Others},
	} {
		if len(part.names) > 0 {
			lines = append(lines, outline.Say(part.title).With(part.names))
		}
	}
	if len(lines) == 0 && len(c.Operators) > 0 {
		return []outline.Line{outline.Say("settings of operators").With(c.Operators)}
	}
	if len(lines) == 0 {
		return []outline.Line{{Text: outline.Say("nothing")}}
	}
	return lines
}

// asks lists the access that a new bundle requests, or, if there is an earlier bundle, only the differences from its requests.
func (r *Repository) asks(o *operator, p Place) string {
	b := o.find(p.Name)
	if b == nil || b.err != nil {
		return ""
	}
	after, err := r.version(p)
	if err != nil {
		return ""
	}
	title, before := outline.Say("What %s asks for", p.String()), access.Version{}
	was := o.before(b)
	if was != nil {
		from := Place{p.Above, was.folder}
		if before, err = r.version(from); err != nil {
			return ""
		}
		title = outline.Say("What %s asks for, against %s", p.String(), from.String())
	}
	content, err := access.Compare(before, after)
	var lines []outline.Line
	switch {
	case err != nil:
		lines = []outline.Line{{Text: outline.Say("not known: %s", err.Error())}}
	case was != nil:
		lines = content.Lines()
	default:
		lines = content.Asked()
	}
	if len(lines) == 0 {
		lines = []outline.Line{{Text: outline.Say("the same")}}
	}
	return "\n### " + title.In(outline.Markdown) + "\n\n" + outline.Markdown.Render(lines, 0)
}

// before returns the predecessor of a bundle: the one that it replaces, or else the one with the latest earlier version, or nil.
func (o *operator) before(b *bundle) (before *bundle) {
	for _, other := range o.bundles {
		switch {
		case other == b || other.err != nil:
		case other.Name == b.Replaces:
			return other
		case other.number != nil && b.number != nil && other.compare(b) < 0 && (before == nil || before.compare(other) < 0):
			before = other
		}
	}
	return before
}

// version reads the bundle at a place.
func (r *Repository) version(p Place) (access.Version, error) {
	contents, err := registryv1.Load(r.path(OperatorsDir, p.Above, p.Name))
	if err != nil {
		return access.Version{}, err
	}
	return access.Of(contents)
}

// compare describes how a package in a catalog has changed for clusters since the commit.
func (c *Commit) compare(ctx context.Context, p Place, now *fbc.Catalog) (text string, err error) {
	dir, err := os.MkdirTemp("", "berth-check-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }() // diff.Compare reads from the folder
	before, err := c.catalog(ctx, p, dir)
	if err != nil || before == nil {
		return "", err
	}
	before.Dir, now.Dir = "the commit before", p.String()
	d, err := diff.Compare(before, now)
	if err != nil {
		return "", err
	}
	var report strings.Builder
	if err := d.Write(&report, "markdown"); err != nil {
		return "", err
	}
	return "\n" + strings.Replace(report.String(), "What changes for clusters", "### What changes for clusters", 1), nil
}

// catalog reads a package in a catalog of the commit, whose files it first writes to a folder. It returns an empty catalog if the commit
// lacks the package, and nil if the package cannot be read.
func (c *Commit) catalog(ctx context.Context, p Place, dir string) (*fbc.Catalog, error) {
	files, err := c.Files(CatalogsDir + "/" + p.String())
	if err != nil {
		return nil, err
	}
	switch {
	case len(files) == 0:
		return &fbc.Catalog{}, nil
	case len(files) > filesLimit:
		return nil, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, file := range files {
		content, err := c.Read(file)
		if err == nil {
			err = root.MkdirAll(path.Dir(file), 0o755)
		}
		if err == nil {
			err = root.WriteFile(file, content, 0o644)
		}
		if err != nil {
			return nil, err
		}
	}
	before, faults, err := fbc.Read(ctx, filepath.Join(dir, CatalogsDir, p.Above, p.Name))
	if err != nil || len(faults) > 0 {
		return nil, ctx.Err()
	}
	return before, nil
}

// drawing is a package with the title of its drawing.
type drawing struct {
	title string
	*graph.Package
}

func (d drawing) markdown() string {
	title := "\n### " + outline.Say("Updates of %s", d.title).In(outline.Markdown) + "\n\n"
	text := d.Mermaid()
	if len(text) > drawingLimit {
		return title + "There are too many to draw; `berth catalog graph` draws a catalog as a page.\n"
	}
	return title + "```mermaid\n" + text + "```\n"
}

// drawn returns the package that the bundles of an operator define without a catalog.
func (o *operator) drawn() *fbc.Package {
	config := &declcfg.DeclarativeConfig{}
	entries := map[string][]declcfg.ChannelEntry{}
	defaultChannel := ""
	var last *bundle
	for _, b := range o.bundles {
		if b.err != nil {
			continue
		}
		if last == nil || last.compare(b) < 0 {
			last, defaultChannel = b, b.DefaultChannel
		}
		config.Bundles = append(config.Bundles, declcfg.Bundle{Schema: declcfg.SchemaBundle, Package: o.name, Name: b.Name,
			Properties: []property.Property{property.MustBuildPackage(o.name, b.Version)}})
	}
	byChannel := o.channels()
	for _, name := range slices.Sorted(maps.Keys(byChannel)) {
		if name == "" {
			continue
		}
		in := byChannel[name].bundles
		for i, b := range in {
			e := declcfg.ChannelEntry{Name: b.Name, Replaces: b.Replaces, Skips: b.Skips, SkipRange: b.SkipRange}
			if o.mode() == semverMode {
				e = declcfg.ChannelEntry{Name: b.Name}
				if i > 0 {
					e.Replaces = in[i-1].Name
				}
			}
			entries[name] = append(entries[name], e)
		}
		defaultChannel = cmp.Or(defaultChannel, name)
		config.Channels = append(config.Channels, declcfg.Channel{Schema: declcfg.SchemaChannel, Package: o.name, Name: name, Entries: entries[name]})
	}
	config.Packages = []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: o.name, DefaultChannel: defaultChannel}}
	made, _ := fbc.Of(config, func(string, string) document.Span { return document.Span{} })
	return made.Find(o.name)
}
