package render

import (
	"slices"
	"sort"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"

	"github.com/berth-csi/berth/catalog/fbc"
	"github.com/berth-csi/berth/catalog/fbc/rawjson"
)

// Nearly all of a catalog is bundles, so bundles in the usual form are rendered without decoding.

var (
	bundleShape   = rawjson.ShapeOf[declcfg.Bundle]()
	propertyShape = rawjson.ShapeOf[property.Property]()
)

// bundle renders a bundle in the usual form. It returns false for all other documents.
func (on *scratch) bundle(content []byte) (part, []byte, bool) {
	s := rawjson.Scan(content)
	var schema, name, pkg, image string
	on.rest, on.payload = on.rest[:0], on.payload[:0]
	var images []declcfg.RelatedImage
	seen := map[string]bool{}
	s.Object(func(key []byte) {
		if seen[string(key)] {
			s.Fail()
		}
		seen[string(key)] = true
		switch string(key) {
		case "schema":
			schema = s.String()
		case "name":
			name = s.String()
		case "package":
			pkg = s.String()
		case "image":
			image = s.String()
		case "properties":
			on.properties(s)
		case "relatedImages":
			s.Array(func() { images = append(images, fbc.ScanRelatedImage(s)) })
		default:
			s.Other(key, bundleShape)
		}
	})
	if !s.End() || schema != declcfg.SchemaBundle {
		return part{}, nil, false
	}
	text := append(on.text[:0], "{\n    \"schema\": \"olm.bundle\""...)
	text = field(text, "name", name)
	text = field(text, "package", pkg)
	text = append(text, ",\n    \"image\": "...)
	text = rawjson.AppendString(text, image)
	separator := ",\n    \"properties\": [" // before the first property; a comma before all others
	for _, properties := range [][]byte{on.rest, on.payload} {
		if len(properties) > 0 {
			text = append(append(text, separator...), properties[len(comma):]...)
			separator = comma
		}
	}
	if separator == comma {
		text = append(text, "\n    ]"...)
	}
	text = relatedImages(text, images)
	on.text = append(text, "\n}\n"...)
	return part{pkg: pkg, kind: kindBundle, name: name}, on.text, true
}

// comma stands before each property.
const comma = ","

// field appends a field, unless its value is empty.
func field(text []byte, name, value string) []byte {
	if value == "" {
		return text
	}
	text = append(text, ",\n    \""+name+"\": "...)
	return rawjson.AppendString(text, value)
}

// properties renders properties with a comma before each, and puts payload into a buffer of its own.
func (on *scratch) properties(s *rawjson.Scanner) {
	rest, payload := on.rest, on.payload
	s.Array(func() {
		begin := len(payload)
		payload = append(payload, comma+"\n        {\n            \"type\": "...)
		propertyType, typed, valued := "", false, false
		s.Object(func(key []byte) {
			switch {
			case string(key) == "type" && !typed:
				propertyType, typed = s.String(), true
				payload = rawjson.AppendString(payload, propertyType)
			case string(key) == "value" && typed && !valued:
				valued = true
				payload = append(payload, ",\n            \"value\": "...)
				payload = s.Append(payload, rawjson.Style{Indent: indent, Level: 3})
			case string(key) == "type" || string(key) == "value":
				s.Fail() // in another order, or twice
			default:
				s.Other(key, propertyShape)
			}
		})
		if !valued {
			s.Fail()
		}
		payload = append(payload, "\n        }"...)
		if !fbc.IsPayload(propertyType) {
			rest = append(rest, payload[begin:]...)
			payload = payload[:begin]
		}
	})
	on.rest, on.payload = rest, payload
}

// sortImages sorts related images by pull spec. Like opm, it uses sort.Slice, because another sort would order images with equal pull
// specs differently.
func sortImages(images []declcfg.RelatedImage) {
	sort.Slice(images, func(i, j int) bool { return images[i].Image < images[j].Image })
}

func relatedImages(text []byte, images []declcfg.RelatedImage) []byte {
	if len(images) == 0 {
		return text
	}
	sortImages(images)
	text = append(text, ",\n    \"relatedImages\": ["...)
	for i, image := range images {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, "\n        {\n            \"name\": "...)
		text = rawjson.AppendString(text, image.Name)
		text = append(text, ",\n            \"image\": "...)
		text = rawjson.AppendString(text, image.Image)
		text = append(text, "\n        }"...)
	}
	return append(text, "\n    ]"...)
}

// payloadLast moves payload behind all other properties, and otherwise keeps their order.
func payloadLast(properties []property.Property) []property.Property {
	slices.SortStableFunc(properties, func(a, b property.Property) int {
		rank := map[bool]int{true: 1}
		return rank[fbc.IsPayload(a.Type)] - rank[fbc.IsPayload(b.Type)]
	})
	return properties
}
