package rawjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Shape describes the JSON that encoding/json decodes into a Go type.
type Shape struct {
	kind   kind
	fields []field      // of an object
	elem   *Shape       // of a list or a map
	of     reflect.Type // of a value that decodes itself
}

type kind int

const (
	anything kind = iota
	text
	boolean
	integer // of 32 bits or more
	list
	dictionary
	object
	itself // it has a method that decodes it
)

type field struct {
	name  []byte
	shape *Shape
}

// ShapeOf returns the shape of a type. It panics for types that it does not support, such as maps whose keys are not strings.
func ShapeOf[T any]() *Shape {
	return shapeOf(reflect.TypeFor[T](), map[reflect.Type]*Shape{})
}

var (
	rawMessage       = reflect.TypeFor[json.RawMessage]()
	unmarshalerTypes = []reflect.Type{reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()}
)

func shapeOf(t reflect.Type, known map[reflect.Type]*Shape) *Shape {
	if shape, found := known[t]; found {
		return shape
	}
	shape := &Shape{}
	known[t] = shape
	if t == rawMessage {
		return shape
	}
	for _, unmarshaler := range unmarshalerTypes {
		if reflect.PointerTo(t).Implements(unmarshaler) {
			shape.kind, shape.of = itself, t
			return shape
		}
	}
	switch t.Kind() {
	case reflect.String:
		shape.kind = text
	case reflect.Bool:
		shape.kind = boolean
	case reflect.Int, reflect.Int32, reflect.Int64:
		shape.kind = integer
	case reflect.Pointer:
		*shape = *shapeOf(t.Elem(), known)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			shape.kind, shape.of = itself, t // from base64
			return shape
		}
		shape.kind, shape.elem = list, shapeOf(t.Elem(), known)
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic(fmt.Sprintf("rawjson: keys of %v are not strings", t))
		}
		shape.kind, shape.elem = dictionary, shapeOf(t.Elem(), known)
	case reflect.Struct:
		shape.kind = object
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-" && options == "" || !f.IsExported():
				continue
			case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
				shape.fields = append(shape.fields, shapeOf(f.Type, known).fields...)
				continue
			case f.Anonymous && name == "" || slices.Contains(strings.Split(options, ","), "string"):
				panic(fmt.Sprintf("rawjson: field %s of %v is not supported", f.Name, t))
			case name == "":
				name = f.Name
			}
			shape.fields = append(shape.fields, field{[]byte(name), shapeOf(f.Type, known)})
		}
	default:
		panic(fmt.Sprintf("rawjson: %v is of an unsupported kind", t))
	}
	return shape
}

// Fits reports whether data is one value that encoding/json would decode into the shape's type. It may refuse a few such values.
func Fits(data []byte, shape *Shape) bool {
	s := Scan(data)
	s.Fits(shape)
	return s.End()
}

// Fits reads a value and fails unless encoding/json would decode it into the shape's type. It also refuses some that
// encoding/json accepts, such as keys in a different case.
func (s *Scanner) Fits(shape *Shape) {
	if s.failed || s.Null() {
		return
	}
	switch shape.kind {
	case anything:
		s.Skip()
	case text:
		if s.space() != '"' {
			s.failed = true
			return
		}
		s.text()
	case boolean:
		if c := s.space(); c != 't' && c != 'f' {
			s.failed = true
			return
		}
		s.Skip()
	case integer:
		// Any nine digits fit into 32 bits.
		if number := s.Raw(); len(number) > 9 || bytes.ContainsFunc(number, func(r rune) bool { return r < '0' || r > '9' }) {
			s.failed = true
		}
	case list:
		s.Array(func() { s.Fits(shape.elem) })
	case dictionary:
		s.Object(func([]byte) { s.Fits(shape.elem) })
	case itself:
		if raw := s.Raw(); !s.failed && json.Unmarshal(raw, reflect.New(shape.of).Interface()) != nil {
			s.failed = true
		}
	case object:
		s.Object(func(key []byte) {
			if known := shape.field(key); known != nil {
				s.Fits(known)
			} else {
				s.Other(key, shape)
			}
		})
	}
}

func (shape *Shape) field(name []byte) *Shape {
	for i := range shape.fields {
		if bytes.Equal(shape.fields[i].name, name) {
			return shape.fields[i].shape
		}
	}
	return nil
}

// Other reads the value of a key that the shape does not have. It fails if the key differs from one of the shape's only in
// case, because encoding/json ignores case.
func (s *Scanner) Other(key []byte, shape *Shape) {
	for i := range shape.fields {
		if bytes.EqualFold(shape.fields[i].name, key) {
			s.failed = true
		}
	}
	s.Skip()
}
