package mirror

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// Files with objects for clusters.
const (
	digestMirrorsFile  = "imagedigestmirrorset.yaml"
	tagMirrorsFile     = "imagetagmirrorset.yaml"
	catalogSourceFile  = "catalogsource.yaml"
	clusterCatalogFile = "clustercatalog.yaml"
)

// pollMinutes is the interval at which clusters look for a new catalog under its tag.
const pollMinutes = 60

// objects returns the objects with which a cluster uses the mirror, by file: the places of images, and the catalog for
// OLM v0 and v1.
func (m *Mirror) objects() (map[string][]byte, error) {
	byDigest, byTag := map[string][]string{}, map[string][]string{}
	for _, i := range m.images {
		to, err := name.ParseReference(i.Destination)
		if err != nil {
			return nil, err
		}
		from, err := name.ParseReference(i.Source)
		if err != nil {
			return nil, err
		}
		into, places := byDigest, []string{to.Context().Name()}
		if _, is := from.(name.Tag); is {
			into = byTag
		} else if former := m.former()[from.Context().Name()]; former != "" {
			places = append(places, former) // the former place still has the versions that nobody chose this time
		}
		into[sourceName(from.Context())] = places
	}
	all := map[string]map[string]any{}
	if m.hasCatalog() {
		all = m.catalogObjects()
	}
	if len(byDigest) > 0 {
		all[digestMirrorsFile] = object("config.openshift.io/v1", "ImageDigestMirrorSet", m.Name, map[string]any{"imageDigestMirrors": mirrors(byDigest)})
	}
	if len(byTag) > 0 {
		all[tagMirrorsFile] = object("config.openshift.io/v1", "ImageTagMirrorSet", m.Name, map[string]any{"imageTagMirrors": mirrors(byTag)})
	}
	texts := map[string][]byte{}
	for file, o := range all {
		text, err := boundedyaml.Marshal(o)
		if err != nil {
			return nil, err
		}
		texts[file] = text
	}
	return texts, nil
}

// former returns the places where an earlier version of this program put images, by source repository.
func (m *Mirror) former() map[string]string {
	if m.record == nil {
		return nil
	}
	return m.record.Former
}

// catalogObjects returns the CatalogSource for OLM v0 and the ClusterCatalog for OLM v1, by file.
func (m *Mirror) catalogObjects() map[string]map[string]any {
	all := map[string]map[string]any{
		catalogSourceFile: object("operators.coreos.com/v1alpha1", "CatalogSource", m.Name, map[string]any{
			"sourceType": "grpc", "image": m.catalog.Destination, "displayName": m.Name,
			"updateStrategy": map[string]any{"registryPoll": map[string]any{"interval": "60m"}},
			"grpcPodConfig": map[string]any{"securityContextConfig": "restricted",
				"extractContent": map[string]any{"catalogDir": "/configs"}},
		}),
		clusterCatalogFile: object("olm.operatorframework.io/v1", "ClusterCatalog", m.Name, map[string]any{
			"source": map[string]any{"type": "Image", "image": map[string]any{"ref": m.catalog.Destination, "pollIntervalMinutes": pollMinutes}},
		}),
	}
	all[catalogSourceFile]["metadata"].(map[string]any)["namespace"] = m.Namespace
	return all
}

func object(version, kind, name string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}
}

// mirrors lists the mirrors of repositories.
func mirrors(of map[string][]string) (list []any) {
	for _, source := range slices.Sorted(maps.Keys(of)) {
		list = append(list, map[string]any{"source": source, "mirrors": of[source]})
	}
	return list
}

// places returns the paths of images' repositories in the destination, without its registry, by source repository.
func (m *Mirror) places() (map[string]string, error) {
	all := map[string]string{}
	for _, i := range m.images {
		to, err := name.ParseReference(i.Destination)
		if err != nil {
			return nil, err
		}
		from, err := name.ParseReference(i.Source)
		if err != nil {
			return nil, err
		}
		all[sourceName(from.Context())] = to.Context().RepositoryStr()
	}
	return all, nil
}

// sourceName returns the name that nodes use for a repository.
func sourceName(repo name.Repository) string {
	after, is := strings.CutPrefix(repo.Name(), name.DefaultRegistry+"/")
	if !is {
		return repo.Name()
	}
	return "docker.io/" + after
}
