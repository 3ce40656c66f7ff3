package prediction

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver/cache"
)

// sources are all catalogs that OLM looks at, as the resolver sees them.
type sources map[cache.SourceKey]cache.Source

// sources returns the catalogs of the world. In one that is made up, there is what Subscriptions name.
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

// source is what the resolver gets of a CatalogSource.
func (st *State) resolverSource(s *v1alpha1.CatalogSource) cache.Source {
	switch state := connectionOf(s); {
	case state == noConnection:
		return unreachable{fmt.Errorf("no registry client established for catalogsource %s/%s", s.Namespace, s.Name)}
	case !connected(state):
		return unreachable{errors.New("failed to list bundles: rpc error: code = Unavailable")}
	}
	return st.snapshot(Source{s.Namespace, s.Name})
}

// snapshot is what a catalog that can be reached has.
func (st *State) snapshot(source Source) *cache.Snapshot {
	if c := st.Catalogs[source]; c != nil {
		return &cache.Snapshot{Entries: entriesOf(c, keyOf(source))}
	}
	return &cache.Snapshot{Entries: installedEntries(st, keyOf(source))}
}

// unreachable is a catalog that OLM cannot ask. The error is how OLM begins to say so.
type unreachable struct{ error }

func (s unreachable) Snapshot(context.Context) (*cache.Snapshot, error) { return nil, s.error }

// noConnection is the state of one that OLM has never had.
const noConnection = "not made yet"

// connectionOf returns what OLM says of its connection to a catalog.
func connectionOf(s *v1alpha1.CatalogSource) string {
	if s.Status.GRPCConnectionState == nil || s.Status.GRPCConnectionState.LastObservedState == "" {
		return noConnection
	}
	return s.Status.GRPCConnectionState.LastObservedState
}

// cannotReach tells whether OLM has no connection to a catalog.
func (st *State) unreachableSource(source Source) bool {
	return slices.ContainsFunc(st.CatalogSources, func(s *v1alpha1.CatalogSource) bool {
		return Source{s.Namespace, s.Name} == source && !connected(connectionOf(s))
	})
}

// connected tells whether OLM can ask over a connection. It wakes one that is idle.
func connected(state string) bool { return state == "READY" || state == "IDLE" }

// Sources returns what there is to choose from. The resolver asks for the namespace of the Subscriptions,
// and for a second one, of global catalogs, unless the OperatorGroup does without these. All that are not
// of the namespace are global.
func (all sources) Sources(namespaces ...string) map[cache.SourceKey]cache.Source {
	found := map[cache.SourceKey]cache.Source{}
	for key, source := range all {
		if len(namespaces) > 1 || slices.Contains(namespaces, key.Namespace) {
			found[key] = source
		}
	}
	return found
}

// nothingNew makes entries of a catalog that nobody has read: it has what Subscriptions have installed
// from it, and nothing else.
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
