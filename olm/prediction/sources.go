package prediction

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver/cache"

	"github.com/berth-csi/berth/olm/catalogsource"
)

// sources holds all catalogs that OLM uses, in the resolver's types.
type sources map[cache.SourceKey]cache.Source

// sources returns the catalogs of the State. A hypothetical State has the catalogs that its Subscriptions name.
func (st *State) sources() sources {
	all := sources{}
	for _, s := range st.CatalogSources {
		all[keyOf(Source{s.Namespace, s.Name})] = st.resolverSource(s)
	}
	if st.hypothetical {
		for _, s := range st.Subscriptions {
			all[keyOf(sourceOf(s))] = st.snapshot(sourceOf(s))
		}
	}
	return all
}

// resolverSource returns the content of a CatalogSource, or the error that OLM gets from listing it.
func (st *State) resolverSource(s *v1alpha1.CatalogSource) cache.Source {
	switch {
	case catalogsource.ConnectionState(s) == catalogsource.NotConnected:
		return unreachable{fmt.Errorf("no registry client established for catalogsource %s/%s", s.Namespace, s.Name)}
	case !catalogsource.Reachable(s):
		return unreachable{errors.New("failed to list bundles: rpc error: code = Unavailable")}
	}
	return st.snapshot(Source{s.Namespace, s.Name})
}

// snapshot returns the content of a catalog that OLM can reach, in the resolver's type.
func (st *State) snapshot(source Source) *cache.Snapshot {
	if c := st.Catalogs[source]; c != nil {
		return &cache.Snapshot{Entries: entriesOf(c, keyOf(source))}
	}
	return &cache.Snapshot{Entries: installedEntries(st, keyOf(source))}
}

// unreachable is a catalog that OLM cannot list. The error is the beginning of OLM's own message.
type unreachable struct{ error }

func (s unreachable) Snapshot(context.Context) (*cache.Snapshot, error) { return nil, s.error }

// unreachableSource reports whether a CatalogSource exists that OLM cannot reach.
func (st *State) unreachableSource(source Source) bool {
	return slices.ContainsFunc(st.CatalogSources, func(s *v1alpha1.CatalogSource) bool {
		return Source{s.Namespace, s.Name} == source && !catalogsource.Reachable(s)
	})
}

// Sources returns the catalogs of some namespaces to the resolver. The resolver asks for the namespace of the Subscriptions and, unless the
// OperatorGroup excludes global catalogs, for their namespace. All catalogs outside of the first namespace are global.
func (all sources) Sources(namespaces ...string) map[cache.SourceKey]cache.Source {
	found := map[cache.SourceKey]cache.Source{}
	for key, source := range all {
		if len(namespaces) > 1 || slices.Contains(namespaces, key.Namespace) {
			found[key] = source
		}
	}
	return found
}

// installedEntries returns the entries of a catalog that was not read. It is assumed to have only the versions that
// Subscriptions have installed from it.
func installedEntries(st *State, key cache.SourceKey) (entries []*cache.Entry) {
	for _, s := range st.Subscriptions {
		csv := st.csv(s.Status.InstalledCSV)
		if csv == nil || keyOf(sourceOf(s)) != key {
			continue
		}
		entries = append(entries, &cache.Entry{
			Name:    csv.Name,
			Version: &csv.Spec.Version.Version,
			SourceInfo: &cache.OperatorSourceInfo{
				Package: s.Spec.Package, Channel: s.Spec.Channel, Catalog: key,
			},
		})
	}
	return entries
}

func keyOf(s Source) cache.SourceKey { return cache.SourceKey{Name: s.Name, Namespace: s.Namespace} }
