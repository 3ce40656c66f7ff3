package server

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/model"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/api"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/fbc"
	"github.com/berth-csi/berth/yaml"
)

// isInline reports whether OLM can install a bundle from the catalog alone.
func isInline(b *fbc.Bundle) bool { return b.Image == "" }

// bundle returns an entry of a channel as OLM receives it, with its payload if that is wanted.
func (c *content) bundle(p *fbc.Package, channel *fbc.Channel, e *declcfg.ChannelEntry, withPayload func(*fbc.Bundle) bool) (*api.Bundle, error) {
	b := p.FindBundle(e.Name)
	m := model.Bundle{
		Package:   &model.Package{Name: p.Name, Description: p.Description},
		Channel:   &model.Channel{Name: channel.Name},
		Name:      b.Name,
		Image:     b.Image,
		Replaces:  e.Replaces,
		Skips:     e.Skips,
		SkipRange: e.SkipRange,
		Version:   *b.Number(),
	}
	if p.Icon != nil {
		m.Package.Icon = &model.Icon{Data: p.Icon.Data, MediaType: p.Icon.MediaType}
	}
	if said := deprecation(p, declcfg.SchemaBundle, b.Name); said != nil {
		m.Deprecation = &model.Deprecation{Message: said.Message}
	}
	for _, image := range b.RelatedImages {
		m.RelatedImages = append(m.RelatedImages, model.RelatedImage(image))
	}
	for _, p := range b.Properties {
		if !fbc.IsPayload(p.Type) {
			m.Properties = append(m.Properties, p)
		}
	}
	if withPayload(b) {
		if err := c.addPayload(&m, b); err != nil {
			return nil, fmt.Errorf("bundle %q: %w", b.Name, err)
		}
	}
	return api.ConvertModelBundleToAPIBundle(m)
}

// addPayload adds the objects of a bundle and the description of its ClusterServiceVersion.
func (c *content) addPayload(m *model.Bundle, b *fbc.Bundle) error {
	data, err := c.Load(nil, b.Span)
	if err != nil {
		return err
	}
	var whole declcfg.Bundle
	if err := json.Unmarshal(data, &whole); err != nil {
		return err
	}
	for _, p := range whole.Properties {
		switch p.Type {
		case property.TypeCSVMetadata:
			m.Properties = append(m.Properties, p)
		case property.TypeBundleObject:
			object, isCSV, err := bundleObject(p)
			if err != nil {
				return err
			}
			if m.Objects = append(m.Objects, object); isCSV && m.CsvJSON == "" {
				m.CsvJSON = object
			}
		}
	}
	return nil
}

// bundleObject returns the object that a property carries, as JSON, and whether it is a
// ClusterServiceVersion.
func bundleObject(p property.Property) (object string, isCSV bool, err error) {
	var carried property.BundleObject
	if err := json.Unmarshal(p.Value, &carried); err != nil {
		return "", false, err
	}
	data := carried.Data
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		if data, err = yaml.ToJSON(data); err != nil {
			return "", false, err
		}
	}
	var u unstructured.Unstructured
	if err := yaml.Unmarshal(data, &u); err != nil {
		return "", false, err
	}
	return string(data), u.GetKind() == v1alpha1.ClusterServiceVersionKind, nil
}
