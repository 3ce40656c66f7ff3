package main

import (
	"encoding/json"
	"maps"
	"runtime"
	"slices"
	"strings"
)

// statement is an in-toto statement with a provenance of SLSA, version 1. It does not use the types of the standard's Go module, because
// their JSON differs from build to build.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string         `json:"buildType"`
		ExternalParameters   map[string]any `json:"externalParameters"`
		ResolvedDependencies []subject      `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// provenance returns the provenance of an image in JSON: the commit, the version of Go, and others' images in the release.
func (r *release) provenance(p pushed) ([]byte, error) {
	s := statement{
		Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1",
		Subject: []subject{{Name: r.repository(p.name), Digest: sha256Of(p.digest)}},
	}
	build := &s.Predicate.BuildDefinition
	build.BuildType = "https://github.com/berth-csi/berth/release@v1"
	build.ExternalParameters = map[string]any{"registry": r.registry, "architectures": r.architectures}
	build.ResolvedDependencies = []subject{
		{URI: "git+https://github.com/berth-csi/berth", Digest: map[string]string{"gitCommit": r.source.commit}},
		{URI: "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")},
	}
	for _, pullSpec := range slices.Compact(slices.Sorted(maps.Values(r.pins))) {
		repository, digest, _ := strings.Cut(pullSpec, "@")
		if !r.isOwn(repository) {
			build.ResolvedDependencies = append(build.ResolvedDependencies, subject{URI: "docker://" + repository, Digest: sha256Of(digest)})
		}
	}
	s.Predicate.RunDetails.Builder.ID = "https://github.com/berth-csi/berth/release"
	return json.Marshal(s)
}

func sha256Of(digest string) map[string]string {
	return map[string]string{"sha256": strings.TrimPrefix(digest, "sha256:")}
}
