package move

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/internal/findings"
)

// moved is an operator that was moved to OLM v1 and can be moved back.
func moved() *back {
	was := healthy()
	in := &back{request: Request{Package: "boat", Namespace: "harbour", To: ToV0}, moved: was.plan(), namespaceUID: "n-1"}
	in.extension = in.moved.extension()
	in.extension.SetUID("e-1")
	installed(in.extension, "boat.v1.0.0", "Succeeded", "")
	for _, o := range was.present {
		in.installed = append(in.installed, *o.PartialObjectMetadata)
	}
	var err error
	in.source, _, err = fbc.Parse("quay", &declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "boat", DefaultChannel: "stable"}},
		Channels: []declcfg.Channel{{Schema: declcfg.SchemaChannel, Package: "boat", Name: "stable", Entries: []declcfg.ChannelEntry{{Name: "boat.v1.0.0"}}}},
		Bundles: []declcfg.Bundle{{Schema: declcfg.SchemaBundle, Package: "boat", Name: "boat.v1.0.0", Image: "registry.example.com/boat:1",
			Properties: []property.Property{property.MustBuildPackage("boat", "1.0.0")}}},
	})
	if err != nil {
		panic(err)
	}
	return in
}

// TestChecksBack: the checks that refuse to move an operator back.
func TestChecksBack(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*back)
		code   string
		what   string // a fragment of it; "" if it is safe
	}{
		{"as it was moved", func(*back) {}, "", ""},
		{"never moved", func(in *back) { in.moved = nil }, movedBefore, "no journal"},
		{"no ClusterExtension", func(in *back) { in.extension = nil }, movedBefore, "does not exist"},
		{"moved back already", func(in *back) { in.extension, in.subscribed = nil, new(other("harbour", "boats", "boat", "")) }, movedBefore, "OLM v0 has the operator already, for Subscription harbour/boats"},
		{"another ClusterExtension", func(in *back) { in.extension.SetAnnotations(nil) }, movedBefore, "not the one"},
		{"a ClusterExtension that is being deleted", func(in *back) { in.extension.SetDeletionTimestamp(&metav1.Time{Time: time.Now()}) }, extensionProgress, "being deleted"},
		{"OLM v1 tries again", func(in *back) { installed(in.extension, "boat.v1.0.0", "Retrying", "no") }, extensionProgress, "Retrying"},
		{"another Subscription", func(in *back) { in.subscribed = new(other("harbour", "boats", "boat", "")) }, namespaceTaken, "harbour/boats"},
		{"a ClusterServiceVersion of the name", func(in *back) { in.versions = healthy().versions }, namespaceTaken, "boat.v1.0.0"},
		{"OLM v0 does not have what it needs", func(in *back) { in.moved.Needs, in.has = []string{"rope", "sail"}, []string{"sail"} }, needed, "needs package rope"},
		{"OLM v0 has what it needs", func(in *back) { in.moved.Needs, in.has = []string{"rope"}, []string{"rope"} }, "", ""},
		{"what it needs moves in the same run", func(in *back) { in.moved.Needs, in.request.With = []string{"rope"}, []string{"boat", "rope"} }, "", ""},
		{"no catalog", func(in *back) { in.source, in.unread = nil, errors.New("no CatalogSource") }, sourceVersion, "no CatalogSource"},
		{"no such package", func(in *back) { in.source = &fbc.Catalog{} }, sourceVersion, "no package boat"},
		{"OLM v1 has a later version than the catalog", func(in *back) { installed(in.extension, "boat.v1.1.0", "Succeeded", "") }, sourceVersion, "does not have boat.v1.1.0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := moved()
			tc.change(in)
			p := in.plan()
			if tc.what == "" {
				if !p.Checks.Safe() || len(p.TakenOver) != 3 || p.Subject.UID != "e-1" || p.Subscription.UID != "s-1" || p.Version.UID != "" {
					t.Errorf("got %+v, want a safe plan", p)
				}
				return
			}
			if !slices.ContainsFunc(p.Checks, func(c findings.Check) bool {
				return c.Code == tc.code && c.Verdict == findings.Refused && strings.Contains(c.What, tc.what) && c.Do != ""
			}) {
				t.Errorf("got %+v, want %s with %q", p.Checks, tc.code, tc.what)
			}
		})
	}
}
