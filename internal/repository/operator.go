package repository

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/blang/semver/v4"

	"github.com/berth-csi/berth/catalog/fbc/document"
)

// operator is an operator in a repository, with all of its bundles.
type operator struct {
	name    string
	bundles []*bundle // in the order of their folders' names
	ci      *ciFacts  // from ci.yaml; empty without that file
	ciFile  document.Document
	ciErr   error // why it cannot be read
	// ciAt returns positions in ciFile.
	ciAt func(path []any) (line, column int)

	byChannel map[string]*inChannel // see channels
}

// ciFacts holds the fields of ci.yaml that rules need.
type ciFacts struct {
	UpdateGraph any `json:"updateGraph"`
	FBC         struct {
		Enabled bool      `json:"enabled"`
		Mapping []mapping `json:"catalog_mapping"`
	} `json:"fbc"`
}

// mapping maps a template to the catalogs whose packages it makes.
type mapping struct {
	Template string   `json:"template_name"`
	Catalogs []string `json:"catalog_names"`
	Type     string   `json:"type"`
}

// inCatalogs reports whether the operator is offered by catalogs in the repository, and not by its bundles.
func (o *operator) inCatalogs() bool { return o.ci.FBC.Enabled }

// mode returns the update mode of the bundles.
func (o *operator) mode() string {
	if mode, is := o.ci.UpdateGraph.(string); is && mode != "" {
		return mode
	}
	return replacesMode
}

// find returns the bundle in a folder, or nil.
func (o *operator) find(folder string) *bundle {
	if i := slices.IndexFunc(o.bundles, func(b *bundle) bool { return b.folder == folder }); i >= 0 {
		return o.bundles[i]
	}
	return nil
}

// operator reads an operator.
func (r *Repository) operator(name string, facts func(dir string) (Facts, error)) *operator {
	o := &operator{name: name, ci: &ciFacts{}}
	dir := r.path(OperatorsDir, name)
	o.ciFile, o.ciErr = onlyDocument(dir, ciFile)
	if errors.Is(o.ciErr, fs.ErrNotExist) {
		o.ciErr = nil
	} else if o.ciErr == nil {
		_ = json.Unmarshal(o.ciFile.Content, o.ci) // the rule for its shape reports fields of the wrong type
	}
	o.ciAt = o.ciFile.Positions()
	for _, folder := range r.bundleNames(name) {
		b := &bundle{operator: name, folder: folder}
		b.Facts, b.err = facts(r.path(OperatorsDir, name, folder))
		if v, err := semver.Parse(b.csvVersion()); err == nil {
			b.number = &v
		}
		o.bundles = append(o.bundles, b)
	}
	return o
}

// names returns of(b) for each readable bundle except one.
func (o *operator) names(but *bundle, of func(*bundle) string) (all []string) {
	seen := map[string]bool{}
	for _, b := range o.bundles {
		if text := of(b); b != but && b.err == nil && !seen[text] {
			seen[text] = true
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

// namesLimit is the maximum number of names in a message.
const namesLimit = 8

// list lists the first names for a message, because each bundle may have a message about all others.
func list(names []string) string {
	if more := len(names) - namesLimit; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namesLimit], ", "), more)
	}
	return strings.Join(names, ", ")
}

// String returns OPERATOR/FOLDER, for messages.
func (b *bundle) String() string { return fmt.Sprintf("%s/%s", b.operator, b.folder) }
