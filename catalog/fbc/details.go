package fbc

import (
	"encoding/json"
	"fmt"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/boundedyaml"
)

// Details are the payload of a bundle.
type Details struct {
	// CSV is the bundle's ClusterServiceVersion. If the catalog only describes it, CSV has no install strategy: permissions and
	// Deployments are only in the bundle's image. CSV is nil if the catalog does not even describe it.
	CSV *v1alpha1.ClusterServiceVersion
	// Objects are the other objects that the bundle carries. It is empty if the bundle is only described.
	Objects []*unstructured.Unstructured
	// Carried says that the bundle carries its objects, and is not only described.
	Carried bool
	// Undecodable says why OLM cannot decode the ClusterServiceVersion that the bundle carries. There is no CSV then, and the bundle
	// does not count as carried.
	Undecodable error
}

// Details returns the payload of a bundle. For a bundle that was read, it reads the payload from the bundle's document.
func (b *Bundle) Details() (*Details, error) {
	whole := b.Bundle
	if !b.whole {
		var err error
		if whole, err = b.load(); err != nil {
			return nil, err
		}
	}
	details := &Details{}
	for _, p := range whole.Properties {
		parsed, err := ParseProperty(p)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: property of type %s: %w", b.File, b.Line, p.Type, err)
		}
		for _, object := range parsed.BundleObjects {
			if err := details.add(object.Data); err != nil {
				return nil, fmt.Errorf("%s:%d: property of type %s: %w", b.File, b.Line, p.Type, err)
			}
		}
		for _, described := range parsed.CSVMetadatas {
			if details.CSV == nil && details.Undecodable == nil {
				details.CSV = describedCSV(whole.Name, described)
			}
		}
	}
	return details, nil
}

// load reads a bundle with its payload from its document.
func (b *Bundle) load() (whole declcfg.Bundle, err error) {
	content := b.content
	if content == nil {
		d, err := document.Load(b.Span)
		if err != nil {
			return whole, err
		}
		content = d.Content
	}
	if err := json.Unmarshal(content, &whole); err != nil {
		return whole, fmt.Errorf("%s:%d: %w", b.File, b.Line, err)
	}
	return whole, nil
}

// add adds an object that the bundle carries.
func (d *Details) add(data []byte) error {
	var object unstructured.Unstructured
	if err := boundedyaml.Unmarshal(data, &object); err != nil {
		return err
	}
	if object.GetKind() != v1alpha1.ClusterServiceVersionKind || d.Carried || d.Undecodable != nil {
		d.Objects = append(d.Objects, &object)
		return nil
	}
	if d.Undecodable = checkCSV(data); d.Undecodable != nil {
		return nil
	}
	d.CSV, d.Carried = &v1alpha1.ClusterServiceVersion{}, true
	return boundedyaml.Unmarshal(data, d.CSV)
}

// describedCSV returns a ClusterServiceVersion made from its description.
func describedCSV(name string, m property.CSVMetadata) *v1alpha1.ClusterServiceVersion {
	return &v1alpha1.ClusterServiceVersion{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: m.Annotations, Labels: m.Labels},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			APIServiceDefinitions:     m.APIServiceDefinitions,
			CustomResourceDefinitions: m.CustomResourceDefinitions,
			Description:               m.Description,
			DisplayName:               m.DisplayName,
			InstallModes:              m.InstallModes,
			Keywords:                  m.Keywords,
			Links:                     m.Links,
			Maintainers:               m.Maintainers,
			Maturity:                  m.Maturity,
			MinKubeVersion:            m.MinKubeVersion,
			NativeAPIs:                m.NativeAPIs,
			Provider:                  m.Provider,
		},
	}
}
