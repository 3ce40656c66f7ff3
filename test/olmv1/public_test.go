package olmv1_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/programs"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/olm/refusal"
	"github.com/berth-csi/berth/test/olmv1"
)

// publicPackages are packages of community operators, of many makers.
var publicPackages = strings.Fields(`ack-rds-controller ack-s3-controller apicurio-registry argocd-operator aws-efs-operator camel-k
cass-operator-community cert-manager cockroachdb datadog-operator eclipse-che etcd external-secrets-operator flux-operator
gitlab-operator-kubernetes grafana-operator group-sync-operator hive-operator infinispan jaeger keda kepler-operator keycloak-operator
konveyor-operator loki-operator mariadb-operator mongodb-atlas-kubernetes opentelemetry-operator percona-postgresql-operator
percona-server-mongodb-operator prometheus rabbitmq-cluster-operator redis-operator snapscheduler strimzi-kafka-operator tempo-operator
universal-crossplane vault-config-operator victoriametrics-operator zookeeper-operator`)

// latest is how many versions of each are tried.
const latest = 4

const publicFile = "testdata/public.json"

// public is a package of community operators: its latest versions. Each replaces the previous one.
type public struct {
	name     string
	versions []publicVersion
}

type publicVersion struct {
	number   semver.Version
	contents *registryv1.Contents
}

// readPublic reads the packages from the folder that OPERATORS names. It skips the test without one.
func readPublic(t *testing.T) []*public { return readPackages(t, publicPackages, latest) }

// readPackages is readPublic for some packages, and the last of their versions.
func readPackages(t *testing.T, packages []string, last int) (all []*public) {
	t.Helper()
	folder, err := programs.Folder(programs.OperatorsVariable)
	require.NoError(t, err)
	if folder == "" {
		t.Skipf("want %s=DIR, a clone of a repository of community operators", programs.OperatorsVariable)
	}
	for _, name := range packages {
		p := &public{name: name}
		folders, err := filepath.Glob(filepath.Join(folder, "operators", name, "*", "manifests"))
		require.NoError(t, err)
		for _, dir := range newest(folders, last) {
			contents, err := registryv1.Load(dir)
			if err != nil {
				continue // OLM's tools would not make a catalog of it
			}
			b, err := refusal.FromObjects("", objectsOf(contents))
			if err != nil {
				continue
			}
			number, err := semver.Parse(b.Version)
			if err != nil || slices.ContainsFunc(p.versions, func(v publicVersion) bool { return v.number.EQ(number) }) {
				continue
			}
			p.versions = append(p.versions, publicVersion{number, contents})
		}
		slices.SortFunc(p.versions, func(a, b publicVersion) int { return a.number.Compare(b.number) })
		if len(p.versions) > 0 {
			all = append(all, p)
		}
	}
	return all
}

// newest returns the bundle folders of the latest versions, by the folders' names. They are the folders with these manifests.
func newest(manifests []string, last int) (dirs []string) {
	numbers := map[string]semver.Version{}
	for _, folder := range manifests {
		dir := filepath.Dir(folder)
		if number, err := semver.ParseTolerant(filepath.Base(dir)); err == nil {
			numbers[dir], dirs = number, append(dirs, dir)
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return numbers[a].Compare(numbers[b]) })
	return dirs[max(0, len(dirs)-last):]
}

func objectsOf(contents *registryv1.Contents) (all []*unstructured.Unstructured) {
	for _, o := range contents.Objects {
		all = append(all, o.Unstructured)
	}
	return all
}

func (p *public) bundleName(v publicVersion) string {
	return p.name + ".v" + strings.ReplaceAll(v.number.String(), "+", "-")
}

// catalog returns the part of a catalog that is the package. Dependencies are left out.
func (p *public) catalog() (config declcfg.DeclarativeConfig) {
	config.Packages = []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: p.name, DefaultChannel: "stable"}}
	channel := declcfg.Channel{Schema: declcfg.SchemaChannel, Package: p.name, Name: "stable"}
	before := ""
	for _, v := range p.versions {
		name := p.bundleName(v)
		channel.Entries = append(channel.Entries, declcfg.ChannelEntry{Name: name, Replaces: before})
		config.Bundles = append(config.Bundles, declcfg.Bundle{Schema: declcfg.SchemaBundle, Package: p.name, Name: name, Image: "registry.example.com/" + p.name + ":v1",
			Properties: []property.Property{property.MustBuildPackage(p.name, v.number.String())}})
		before = name
	}
	config.Channels = []declcfg.Channel{channel}
	return config
}

// read returns the package's catalog.
func (p *public) read(t *testing.T) *fbc.Catalog {
	t.Helper()
	return load(t, p.catalog())
}

// content returns the parts of the package's bundles that OLM reads.
func (p *public) content(_ context.Context, listed *fbc.Bundle) (*refusal.Bundle, error) {
	i := slices.IndexFunc(p.versions, func(v publicVersion) bool { return p.bundleName(v) == listed.Name })
	contents := p.versions[i].contents
	b, err := refusal.FromObjects(contents.Metadata.Annotations[registryv1.PackageAnnotation], objectsOf(contents))
	if err != nil {
		return nil, err
	}
	return b.As(listed), nil
}

// folder writes a version as a bundle folder.
func (p *public) folder(t *testing.T, v publicVersion) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range v.contents.Files {
		path := filepath.Join(dir, f.Path)
		require.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, f.Data, 0o644)))
	}
	return dir
}

// TestPredictionsOfPublicOperators makes OLM v1 install the latest versions of public operators, one after the other, with the feature
// gates that are on by default. It records the verdicts with -update.
func TestPredictionsOfPublicOperators(t *testing.T) {
	if !*withOLM {
		t.Skip("without -olm-v1: see make prove SUITE=olm-v1-predictions")
	}
	packages := readPublic(t)
	c := cluster.Start(t, cluster.Options{RealNodes: 1, Images: olmv1.Images(t)})
	kubernetes, err := kubernetesVersion(c)
	require.NoError(t, err)
	olm := olmv1.Start(t, c, olmv1.Options{Experimental: true})
	var all declcfg.DeclarativeConfig
	folders := map[string]string{}
	for _, p := range packages {
		config := p.catalog()
		for i, v := range p.versions {
			folders[config.Bundles[i].Name] = p.folder(t, v)
		}
		all.Packages, all.Channels, all.Bundles = append(all.Packages, config.Packages...), append(all.Channels, config.Channels...), append(all.Bundles, config.Bundles...)
	}
	olm.Serve("public", 0, all, folders)
	live, err := prediction.ClusterOf(c.Config())
	require.NoError(t, err)
	found := &record{Date: time.Now().UTC().Format(time.DateOnly), OperatorController: "v1.11.0", Kubernetes: kubernetes}
	var recording sync.Mutex
	t.Run("packages", func(t *testing.T) {
		for _, p := range packages {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				given := p.walk(t, &extension{Cluster: c, name: p.name}, live)
				recording.Lock()
				defer recording.Unlock()
				found.Verdicts = append(found.Verdicts, given...)
			})
		}
	})
	if *update && (!t.Failed() || *updateFailed) {
		found.write(t, publicFile)
	}
}

// walk makes OLM install the earliest version, and update it to the next, and so on. An update that it refuses because of a CRD is made
// without that check, and other refused updates are left out.
func (p *public) walk(t *testing.T, x *extension, live refusal.Cluster) (all []verdict) {
	t.Helper()
	require.NoError(t, x.EnsureNamespace(t.Context(), x.name))
	catalog, installed := p.read(t), ""
	for _, v := range p.versions {
		wants := fields{"version": v.number.String()}
		tr := &trap{name: p.name}
		if installed != "" {
			wants["upgradeConstraintPolicy"] = "SelfCertified"
		}
		name := strings.TrimPrefix(installed+" to ", " to ") + v.number.String()
		said := false
		t.Run(name, func(t *testing.T) {
			object, err := x.wanting(t.Context(), p.name, wants)
			require.NoError(t, err)
			e, err := prediction.ExtensionOf(object)
			require.NoError(t, err)
			e.Cluster, e.Content = live, p.content
			predicted, err := e.Predict(t.Context(), catalog)
			require.NoError(t, err)
			x.write(t, tr, wants)
			before := ""
			if installed != "" {
				before = p.name + ".v" + installed
			}
			got := x.observe(t, predicted, of(predicted, before), before, tr.told)
			got.Setup, got.Case = "helm", p.name+" "+name
			all = append(all, got)
			said = strings.Contains(got.Message, "validating upgrade")
			if got.Reason == "Succeeded" {
				installed = v.number.String()
			}
		})
		if said {
			tr.unsafe = true
			x.write(t, tr, wants)
			x.await(t, "version "+v.number.String()+" to be installed without the check", func(object *unstructured.Unstructured) bool { return versionOf(object) == v.number.String() })
			installed = v.number.String()
		}
	}
	return all
}

// TestPublicRecord compares the predictions for public operators with the recorded verdicts, as far as no cluster is
// needed: the refusals of bundles, and of changed CRDs.
func TestPublicRecord(t *testing.T) {
	packages := readPublic(t)
	data, err := os.ReadFile(publicFile)
	require.NoError(t, err)
	var said record
	require.NoError(t, json.Unmarshal(data, &said))
	given := map[string]verdict{}
	for _, v := range said.Verdicts {
		given[v.Case] = v
	}
	compared := 0
	for _, p := range packages {
		catalog := p.read(t)
		for i, v := range p.versions {
			for _, from := range []string{"", p.before(i)} {
				name := p.name + " " + strings.TrimPrefix(from+" to ", " to ") + v.number.String()
				verdict, has := given[name]
				if !has {
					continue
				}
				compared++
				e := &prediction.Extension{Request: refusal.Request{Name: p.name, Namespace: p.name}, Package: p.name, Versions: v.number.String(), SelfCertified: true, Content: p.content}
				if from != "" {
					e.Installed.Name = p.bundleName(p.versions[i-1])
					e.Installed.Number = &p.versions[i-1].number
				}
				predicted, err := e.Predict(t.Context(), catalog)
				require.NoError(t, err)
				needsCluster := strings.Contains(verdict.Message, "server-side dry-run")
				if problem := verdict.agrees(predicted, of(predicted, e.Installed.Name), (&trap{}).told); problem != "" && !needsCluster {
					t.Errorf("%s: %s", name, problem)
				}
			}
		}
	}
	assert.NotZero(t, compared, "no verdict was compared")
	t.Logf("%d of %d verdicts compared", compared, len(given))
}

// before returns the version before one, or "".
func (p *public) before(i int) string {
	if i == 0 {
		return "none"
	}
	return p.versions[i-1].number.String()
}
