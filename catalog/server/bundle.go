package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/model"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/internal/boundedyaml"
)

// isInline reports whether OLM can install a bundle from the catalog alone.
func isInline(b *fbc.Bundle) bool { return b.Image == "" }

// bundle returns the bundle of a channel's entry as OLM receives it, with its payload if withPayload says so.
func (c *content) bundle(p *fbc.Package, channel *fbc.Channel, e *declcfg.ChannelEntry, withPayload func(*fbc.Bundle) bool) (*api.Bundle, error) {
	b := p.FindBundle(e.Name)
	made, err := c.lean(p, b)
	if err == nil && withPayload(b) {
		var with *api.Bundle
		if with, err = c.madePayload(p, b); err == nil {
			made.CsvJson, made.Object = with.CsvJson, with.Object
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bundle %q: %w", b.Name, err)
	}
	made.ChannelName, made.Replaces, made.Skips, made.SkipRange = channel.Name, e.Replaces, e.Skips, e.SkipRange
	return made, nil
}

// leanSpan returns the place in the store of the message about a bundle without its payload. No document has this place.
func leanSpan(b *fbc.Bundle) document.Span {
	return document.Span{File: b.File, Offset: ^b.Offset, Line: b.Line}
}

// keepLean stores the message about each bundle without its payload, and drops most of the bundle from memory.
func keepLean(c *fbc.Catalog, store *document.Store) error {
	for _, p := range c.Packages {
		for _, b := range p.Bundles {
			made, err := api.ConvertModelBundleToAPIBundle(modelOf(p, b, b.Properties))
			if err != nil {
				return fmt.Errorf("bundle %q: %w", b.Name, err)
			}
			text, err := proto.Marshal(made)
			if err != nil {
				return err
			}
			if err := store.Keep(leanSpan(b), text); err != nil {
				return err
			}
			b.Forget()
		}
	}
	return nil
}

// lean returns the message about a bundle without its payload and its channel.
func (c *content) lean(p *fbc.Package, b *fbc.Bundle) (*api.Bundle, error) {
	if _, in := c.payload.(inPlace); in {
		return api.ConvertModelBundleToAPIBundle(modelOf(p, b, b.Properties))
	}
	return c.stored(leanSpan(b))
}

// buffers are for the text of messages, which is needed only until it is decoded.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// stored returns a message that was made before.
func (c *content) stored(span document.Span) (*api.Bundle, error) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	text, err := c.Load((*buffer)[:0], span)
	if err != nil {
		return nil, err
	}
	*buffer = text
	made := &api.Bundle{}
	return made, proto.Unmarshal(text, made)
}

// modelOf returns a bundle in the types of opm's library, with the given properties, except payload.
func modelOf(p *fbc.Package, b *fbc.Bundle, properties []property.Property) model.Bundle {
	m := model.Bundle{
		Package: &model.Package{Name: p.Name, Description: p.Description},
		Channel: &model.Channel{},
		Name:    b.Name,
		Image:   b.Image,
		Version: *b.Number(),
	}
	if p.Icon != nil {
		m.Package.Icon = &model.Icon{Data: p.Icon.Data, MediaType: p.Icon.MediaType}
	}
	if said := deprecation(p, declcfg.SchemaBundle, b.Name); said != nil {
		m.Deprecation = &model.Deprecation{Message: said.Message}
	}
	for _, p := range properties {
		if !fbc.IsPayload(p.Type) {
			m.Properties = append(m.Properties, p)
		}
	}
	return m
}

// payloadSpan returns the place in the store of a bundle's payload in the form for OLM, which is there after the first request for it. No
// file has such a name.
func payloadSpan(b *fbc.Bundle) document.Span {
	return document.Span{File: b.File + "\x00", Offset: b.Offset, Line: b.Line}
}

// madePayload returns a message with only the payload of a bundle. It makes the message once and stores it: decoding the document
// takes far longer than reading the message again.
func (c *content) madePayload(p *fbc.Package, b *fbc.Bundle) (*api.Bundle, error) {
	if made, err := c.stored(payloadSpan(b)); err == nil {
		return made, nil
	}
	made, err := c.makePayload(p, b)
	if err != nil {
		return nil, err
	}
	if text, err := proto.Marshal(made); err == nil {
		_ = c.Keep(payloadSpan(b), text) // if this fails, for example on a full disk, the next request makes the message again
	}
	return made, nil
}

// makePayload makes a message from the objects in a bundle's document and the description of its ClusterServiceVersion.
func (c *content) makePayload(p *fbc.Package, b *fbc.Bundle) (*api.Bundle, error) {
	data, err := c.Load(nil, b.Span)
	if err != nil {
		return nil, err
	}
	var whole declcfg.Bundle
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, err
	}
	m := modelOf(p, b, whole.Properties)
	for _, image := range whole.RelatedImages {
		m.RelatedImages = append(m.RelatedImages, model.RelatedImage(image))
	}
	for _, p := range whole.Properties {
		switch p.Type {
		case property.TypeCSVMetadata:
			m.Properties = append(m.Properties, p)
		case property.TypeBundleObject:
			object, isCSV, err := bundleObject(p)
			if err != nil {
				return nil, err
			}
			if m.Objects = append(m.Objects, object); isCSV && m.CsvJSON == "" {
				m.CsvJSON = object
			}
		}
	}
	made, err := api.ConvertModelBundleToAPIBundle(m)
	if err != nil {
		return nil, err
	}
	return &api.Bundle{CsvJson: made.GetCsvJson(), Object: made.GetObject()}, nil
}

// bundleObject returns the object that a property carries, as JSON, and whether the object is a ClusterServiceVersion.
func bundleObject(p property.Property) (object string, isCSV bool, err error) {
	var carried property.BundleObject
	if err := json.Unmarshal(p.Value, &carried); err != nil {
		return "", false, err
	}
	data := carried.Data
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		if data, err = boundedyaml.ToJSON(data); err != nil {
			return "", false, err
		}
	}
	var u unstructured.Unstructured
	if err := boundedyaml.Unmarshal(data, &u); err != nil {
		return "", false, err
	}
	return string(data), u.GetKind() == v1alpha1.ClusterServiceVersionKind, nil
}
