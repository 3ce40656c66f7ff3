package fbc

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/fbc/rawjson"
)

// Nearly all of a catalog is bundles, and nearly all of a bundle is payload. So bundles are scanned in place: one pass decodes a few fields
// and checks that the others could be decoded. It refuses bundles that have a fault or an unusual form. decodeDocument then decodes them.

var (
	metadataShape  = rawjson.ShapeOf[property.CSVMetadata]()
	metaShape      = rawjson.ShapeOf[identity]()
	topShape       = rawjson.ShapeOf[declcfg.Bundle]()
	propertyShape  = rawjson.ShapeOf[property.Property]()
	imageShape     = rawjson.ShapeOf[declcfg.RelatedImage]()
	dataShape      = rawjson.ShapeOf[struct{ Data string }]()
	objectKeyShape = rawjson.ShapeOf[metav1.TypeMeta]()
	csvShape       = rawjson.ShapeOf[v1alpha1.ClusterServiceVersion]()
)

// scanner reads bundles. It is not safe for concurrent use.
type scanner struct {
	keep    func(document.Document) error
	content []byte // of a document, as JSON
	object  []byte // of a bundle, decoded
	values  []byte // of the properties of a bundle, concatenated
	ends    []int  // where each value in values ends
	texts   texts
}

// bundle reads a bundle without its payload. It returns nil for all other documents, and for bundles that it refuses.
func (sc *scanner) bundle(content []byte) *declcfg.Bundle {
	s := rawjson.Scan(content)
	b := &declcfg.Bundle{}
	var keys uniqueKeys
	sc.values, sc.ends = sc.values[:0], sc.ends[:0]
	s.Object(func(key []byte) {
		keys.add(s, key)
		switch string(key) {
		case "schema":
			b.Schema = s.String()
		case "name":
			b.Name = s.String()
		case "package":
			b.Package = s.String()
		case "image":
			b.Image = s.String()
		case "properties":
			s.Array(func() {
				b.Properties = append(b.Properties, sc.property(s))
			})
		case "relatedImages":
			s.Array(func() {
				image := ScanRelatedImage(s)
				image.Name, image.Image = sc.texts.shared(image.Name), sc.texts.shared(image.Image)
				b.RelatedImages = append(b.RelatedImages, image)
			})
		default:
			s.Other(key, topShape)
		}
	})
	if !s.End() || b.Schema != declcfg.SchemaBundle || b.Package == "" {
		return nil
	}
	b.Schema = declcfg.SchemaBundle                                                           // a text that memory holds anyway
	b.Properties, b.RelatedImages = slices.Clone(b.Properties), slices.Clone(b.RelatedImages) // no larger than they need be
	sc.keepValues(b.Properties)
	return b
}

// keepValues gives properties their values, which stay in memory for as long as the catalog does.
func (sc *scanner) keepValues(properties []property.Property) {
	kept := bytes.Clone(sc.values)
	begin := 0
	for i, end := range sc.ends {
		if end > begin {
			properties[i].Value = kept[begin:end:end]
		}
		begin = end
	}
}

// texts has the texts that very many documents of a catalog repeat.
type texts struct{ known map[string]string }

// shared returns the first text with the same content, so that memory holds it once.
func (t *texts) shared(text string) string {
	if first, ok := t.known[text]; ok {
		return first
	}
	if t.known == nil {
		t.known = map[string]string{}
	}
	t.known[text] = text
	return text
}

// ScanMeta reads the fields that documents of every schema have, without the blob. It returns false for documents in an
// unusual form, such as with a repeated key, and for anything that is not a document.
func ScanMeta(content []byte) (meta declcfg.Meta, ok bool) {
	s := rawjson.Scan(content)
	var keys uniqueKeys
	s.Object(func(key []byte) {
		keys.add(s, key)
		switch string(key) {
		case "schema":
			meta.Schema = s.String()
		case "name":
			meta.Name = s.String()
		case "package":
			meta.Package = s.String()
		default:
			s.Other(key, metaShape)
		}
	})
	return meta, s.End()
}

// uniqueKeys are the keys of an object. OLM's tools reject two that differ only in case.
type uniqueKeys [][]byte

// maxComparedKeys is the maximum number of keys that are compared with each other. Documents with more keys count as being in an unusual form;
// no tool writes them.
const maxComparedKeys = 64

func (u *uniqueKeys) add(s *rawjson.Scanner, key []byte) {
	if len(*u) == maxComparedKeys {
		s.Fail()
		return
	}
	for _, other := range *u {
		if bytes.EqualFold(key, other) {
			s.Fail()
		}
	}
	*u = append(*u, key)
}

// ScanRelatedImage reads an element of a bundle's relatedImages. The scanner fails if the element is not a related image.
func ScanRelatedImage(s *rawjson.Scanner) (image declcfg.RelatedImage) {
	s.Object(func(key []byte) {
		switch string(key) {
		case "name":
			image.Name = s.String()
		case "image":
			image.Image = s.String()
		default:
			s.Other(key, imageShape)
		}
	})
	return image
}

// property reads a property. It appends its value to the scanner's values unless the property is payload.
func (sc *scanner) property(s *rawjson.Scanner) (p property.Property) {
	typed, valued := false, false
	s.Object(func(key []byte) {
		switch {
		case string(key) == "type" && !typed:
			p.Type, typed = sc.texts.shared(s.String()), true
			return
		case string(key) != "value":
			s.Other(key, propertyShape)
			return
		case !typed || valued: // keys in an unusual order, or one of them twice
			s.Fail()
			return
		}
		valued = true
		switch p.Type {
		case property.TypeBundleObject:
			sc.bundleObject(s)
		case property.TypeCSVMetadata:
			s.Fits(metadataShape)
		default:
			sc.values = s.Append(sc.values, rawjson.Style{})
		}
	})
	if !valued {
		s.Fail()
	}
	sc.ends = append(sc.ends, len(sc.values))
	return p
}

// bundleObject reads the value of a property that holds an object of the bundle, which must be a Kubernetes object in JSON.
func (sc *scanner) bundleObject(s *rawjson.Scanner) {
	held := false
	s.Object(func(key []byte) {
		if string(key) != "data" {
			s.Other(key, dataShape)
			return
		}
		held = true
		sc.object = s.Base64(sc.object[:0])
		var of metav1.TypeMeta
		object := rawjson.Scan(sc.object)
		object.Object(func(key []byte) {
			switch string(key) {
			case "kind":
				of.Kind = object.String()
			case "apiVersion":
				of.APIVersion = object.String()
			default:
				object.Other(key, objectKeyShape)
			}
		})
		if of.Kind == "" || !object.End() || !utf8.Valid(sc.object) { // readers of YAML refuse what is not UTF-8
			s.Fail()
		}
		if of.Kind == v1alpha1.ClusterServiceVersionKind && (of.APIVersion == "" || !rawjson.Fits(sc.object, csvShape)) {
			s.Fail()
		}
	})
	if !held {
		s.Fail()
	}
}
