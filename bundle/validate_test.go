package bundle

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValidateFinds(t *testing.T) {
	const csv, crd = "manifests/widget-operator.clusterserviceversion.yaml", "manifests/widgets.example.com_widgetboxes.yaml"
	for _, tc := range []struct {
		name, file, old, new string
		want                 []Finding
	}{{
		name: "unknown capability level",
		file: csv, old: "capabilities: Seamless Upgrades", new: "capabilities: Magic",
		want: []Finding{{SeverityError, "standardcapabilities/CSVFileNotValid",
			`(widget-operator.v1.0.0) csv.Metadata.Annotations.Capabilities "Magic" is not a valid capabilities level`, csv}},
	}, {
		name: "unknown category",
		file: csv, old: "categories: Storage", new: "categories: Widgets",
		want: []Finding{{SeverityError, "standardcategories/CSVFileNotValid",
			`(widget-operator.v1.0.0) csv.Metadata.Annotations["categories"] value "Widgets" is not in the set of standard categories`, csv}},
	}, {
		name: "custom resource without a definition, and a definition nobody owns",
		file: crd, old: "kind: WidgetBox\n", new: "kind: Other\n",
		want: []Finding{
			{SeverityError, "bundle/BundleNotValid", `owned CRD "widgets.example.com/v1, Kind=WidgetBox" not found in bundle "widget-operator.v1.0.0"`, csv},
			{SeverityError, "bundle/BundleNotValid", `CRD "widgets.example.com/v1, Kind=Other" is present in bundle "widget-operator.v1.0.0" but not defined in CSV`, csv},
			{SeverityError, "bundle/BundleNotValid", `CRD "widgets.example.com/v1alpha1, Kind=Other" is present in bundle "widget-operator.v1.0.0" but not defined in CSV`, csv},
		},
	}, {
		name: "broken definition",
		file: crd, old: "scope: Namespaced", new: "scope: Everywhere",
		want: []Finding{{SeverityError, "customresourcedefinition/FieldValueNotSupported",
			`spec.scope: Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced"`, crd}},
	}, {
		name: "unusual channel",
		file: annotationsPath, old: "channels.v1: stable", new: "channels.v1: weekly",
		want: []Finding{{SeverityWarning, "good-practices/ValidationFailed",
			`channel(s) ["weekly"] are not following the recommended naming convention: https://olm.operatorframework.io/docs/best-practices/channel-naming`, csv}},
	}, {
		name: "example of a foreign API",
		file: csv, old: `"kind": "WidgetBox"`, new: `"kind": "Gadget"`,
		want: []Finding{
			{SeverityError, "clusterserviceversion/OperationFailed", "example must have a provided API: widgets.example.com/v1, Kind=Gadget", csv},
			{SeverityWarning, "clusterserviceversion/OperationFailed", "provided API should have an example annotation: widgets.example.com/v1, Kind=WidgetBox", csv},
		},
	}} {
		t.Run(tc.name, func(t *testing.T) {
			b := mustGenerate(t, widget(), version1)
			for i, f := range b.Files {
				if f.Path != tc.file {
					continue
				}
				b.Files[i].Data = bytes.Replace(f.Data, []byte(tc.old), []byte(tc.new), 1)
				if bytes.Equal(b.Files[i].Data, f.Data) {
					t.Fatalf("%s has no %q to replace", tc.file, tc.old)
				}
			}
			got, err := Validate(written(t, b))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(ordered(tc.want), got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrdered(t *testing.T) {
	got := ordered([]Finding{
		{SeverityWarning, "b/X", "same", "f"},
		{SeverityWarning, "a/X", "same", "f"},
		{SeverityWarning, "a/X", "other", "f"},
		{SeverityError, "z/X", "same", "f"},
	})
	want := []Finding{
		{SeverityError, "z/X", "same", "f"},
		{SeverityWarning, "a/X", "other", "f"},
		{SeverityWarning, "b/X", "same", "f"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestValidateNeedsABundle(t *testing.T) {
	dir := folder(t, map[string]string{"manifests/crd.yaml": crdManifest, "metadata/annotations.yaml": gadget})
	if _, err := Validate(dir); err == nil || !strings.Contains(err.Error(), dir+" is not a bundle folder") {
		t.Errorf("error %v, want one that says that %s is no bundle", err, dir)
	}
}
