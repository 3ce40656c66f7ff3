package olmv1_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/rules"
	"github.com/berth-csi/berth/olm/crdsafety"
	"github.com/berth-csi/berth/olm/prediction"
	"github.com/berth-csi/berth/olm/refusal"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestRecord compares the prediction for every trap with OLM v1's verdict, as suite olm-v1-predictions recorded it.
func TestRecord(t *testing.T) {
	data, err := os.ReadFile(recordFile)
	require.NoError(t, err)
	var said record
	require.NoError(t, json.Unmarshal(data, &said))
	given := map[string]verdict{}
	for _, v := range said.Verdicts {
		given[v.Setup+" "+v.Case] = v
	}
	traps := allTraps()
	if want := len(setups) * len(traps); len(given) != want || want < 300 {
		t.Errorf("%s has %d verdicts, want %d; record them with make prove SUITE=olm-v1-predictions", recordFile, len(given), want)
	}
	for _, tr := range traps {
		catalog, content := tr.read(t), tr.content(t)
		for _, s := range setups {
			t.Run(s.name+"/"+tr.name, func(t *testing.T) {
				v, has := given[s.name+" "+tr.name]
				require.Truef(t, has, "%s has no verdict of it", recordFile)
				object := tr.object(t, &s)
				e, err := prediction.ExtensionOf(object)
				require.NoError(t, err)
				e.Gates, e.Content, e.Cluster = s.on(t), content, tr.cluster(t, &s)
				p, err := e.Predict(t.Context(), catalog)
				require.NoError(t, err)
				assert.Emptyf(t, v.agrees(p, of(p, bundleNameOf(object)), tr.told), "on %s", said.Date)
			})
		}
	}
}

// object returns the ClusterExtension, in the namespace of the trap's name, with the installed version in its status.
func (tr *trap) object(t *testing.T, s *setup) *unstructured.Unstructured {
	t.Helper()
	catalog := fields{"packageName": tr.name}
	for key, value := range tr.wants {
		catalog[key] = value
	}
	object := &unstructured.Unstructured{Object: fields{"spec": fields{"namespace": tr.name, "source": fields{"sourceType": "Catalog", "catalog": catalog}}}}
	object.SetName(tr.name)
	tr.configure(t, object, tr.name)
	if tr.installed != "" {
		object.Object["status"] = fields{"install": fields{"bundle": tr.installedAs(t, s.on(t))}}
	}
	return object
}

// read returns the trap's catalog.
func (tr *trap) read(t *testing.T) *fbc.Catalog {
	t.Helper()
	return load(t, tr.catalog())
}

// load returns a catalog as berth reads it.
func load(t *testing.T, config declcfg.DeclarativeConfig) *fbc.Catalog {
	t.Helper()
	dir := t.TempDir()
	catalogs.WriteConfig(t, dir, config)
	c, err := rules.Load(t.Context(), dir)
	require.NoError(t, err)
	return c
}

// sceneCluster is the cluster of a trap: the existing objects, and the CRDs of the installed bundle.
type sceneCluster struct {
	objects     []*unstructured.Unstructured
	certManager bool
}

// unserved are the kinds that the cluster of the suite does not serve.
var unserved = map[schema.GroupKind]bool{
	{Group: "monitoring.coreos.com", Kind: "PodMonitor"}:       true,
	{Group: "console.openshift.io", Kind: "ConsoleYAMLSample"}: true,
}

func (c *sceneCluster) Serves(_ context.Context, kind schema.GroupVersionKind) (bool, error) {
	if kind.Group == "cert-manager.io" {
		return c.certManager, nil
	}
	return !unserved[kind.GroupKind()] && kind.Version != "v1beta1", nil
}

func (c *sceneCluster) Find(_ context.Context, o refusal.Object) (*unstructured.Unstructured, error) {
	for _, has := range c.objects {
		if has.GroupVersionKind() == o.GroupVersionKind && has.GetNamespace() == o.Namespace && has.GetName() == o.Name {
			return has, nil
		}
	}
	return nil, nil
}

// cluster returns the cluster where OLM decides.
func (tr *trap) cluster(t *testing.T, s *setup) refusal.Cluster {
	t.Helper()
	c := &sceneCluster{certManager: s.certManager}
	for _, o := range tr.existing(t, tr.name) {
		c.objects = append(c.objects, withDefaults(t, o))
	}
	for _, b := range tr.bundles {
		if b.version != tr.installed {
			continue
		}
		for _, o := range tr.parts(b).unstructured(t) {
			if o.GetKind() == "CustomResourceDefinition" {
				c.objects = append(c.objects, withDefaults(t, o))
			}
		}
		break
	}
	return c
}

// withDefaults returns an object as the API server stores it, if it is a CRD.
func withDefaults(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	if o.GetKind() != "CustomResourceDefinition" {
		return o
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, definition))
	installed, err := crdsafety.Installed(definition)
	require.NoError(t, err)
	stored := &unstructured.Unstructured{}
	require.NoError(t, json.Unmarshal(marshal(t, installed), &stored.Object))
	return stored
}
