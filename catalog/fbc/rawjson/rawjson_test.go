package rawjson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/operator-registry/alpha/property"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/catalog/fbc/rawjson"
)

type (
	Parent struct {
		Inherited string `json:"inherited"`
	}
	Named struct {
		Below string `json:"below"`
	}
)

// sample has a field of every kind that a Shape knows, and a type that contains itself.
type sample struct {
	Text    string            `json:"text"`
	Truth   bool              `json:"truth"`
	Number  int32             `json:"number"`
	List    []string          `json:"list,omitempty"`
	Map     map[string]bool   `json:"map"`
	Raw     json.RawMessage   `json:"raw"`
	Pointer *sample           `json:"pointer"`
	Nested  []sample          `json:"nested"`
	Plain   map[string]string // no tag
	Bytes   []byte            `json:"bytes"`
	Version semver.Version    `json:"version"` // decodes itself
	Parent
	Named   `json:"named"`
	Ignored func() `json:"-"`
	_       func()
}

var sampleShape = rawjson.ShapeOf[sample]()

// texts are valid and almost valid JSON. fits says whether a sample can be decoded from it.
var texts = []struct {
	text        string
	valid, fits bool
}{
	{`{}`, true, true},
	{` { } `, true, true},
	{`null`, true, true},
	{`{"text":"a","truth":true,"list":["b",null],"map":{"c":false},"raw":[1,{}],"pointer":{"text":""},"nested":[{}]}`, true, true},
	{"{\n\t\"text\" : \"a\" ,\r\n \"other\" : 1e5\n}\n", true, true},
	{`{"text":null,"truth":null,"list":null,"map":null,"raw":null,"pointer":null}`, true, true},
	{`{"text":"\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00"}`, true, true},
	{`{"text":"long enough to be read eight bytes at a time é"}`, true, true},
	{`{"unknown":{"text":5}}`, true, true},
	{`{"Plain":{"a":"b"}}`, true, true},
	{`{"-":5,"Ignored":5,"_":5}`, true, true},
	{`{"bytes":"c2FsdA==","version":"1.0.0","inherited":"a","named":{"below":"b"},"below":5}`, true, true},
	{`{"bytes":"?"}`, true, false},
	{`{"version":"1"}`, true, false},
	{`{"inherited":5}`, true, false},
	{`{"named":{"below":5}}`, true, false},
	{`{"text":5}`, true, false},
	{`{"text":{}}`, true, false},
	{`{"truth":"true"}`, true, false},
	{`{"number":123456789}`, true, true},
	{`{"number":1.5}`, true, false},
	{`{"number":"1"}`, true, false},
	{`{"number":10000000000}`, true, false},
	{`{"list":"a"}`, true, false},
	{`{"list":[5]}`, true, false},
	{`{"map":{"a":"true"}}`, true, false},
	{`{"map":[]}`, true, false},
	{`{"pointer":{"truth":1}}`, true, false},
	{`{"nested":[{"nested":[{"text":[]}]}]}`, true, false},
	{`[]`, true, false},
	{`"text"`, true, false},
	{`5`, true, false},
	{`-0.5e+10`, true, false},
	{`[0,-1,2.5,1E3,10.25e-7]`, true, false},
	{`true`, true, false},
	{``, false, false},
	{` `, false, false},
	{`{`, false, false},
	{`{"text"`, false, false},
	{`{"text":`, false, false},
	{`{"text":"a"`, false, false},
	{`{"text":"a`, false, false},
	{`{"text":"a\`, false, false},
	{`{"text":"\u12"}`, false, false},
	{`{"text":"\u12g4"}`, false, false},
	{`{"text":"\x"}`, false, false},
	{"{\"text\":\"a\nb\"}", false, false},
	{"{\"text\":\"quite some text\x01 and more\"}", false, false},
	{`{"text":"a",}`, false, false},
	{`{"text":"a" "truth":true}`, false, false},
	{`{"text" "a"}`, false, false},
	{`{text:"a"}`, false, false},
	{`{5:"a"}`, false, false},
	{`{,}`, false, false},
	{`{"text":"a"}}`, false, false},
	{`{"text":"a"} {}`, false, false},
	{`{"list":["a" "b"]}`, false, false},
	{`{"list":["a",]}`, false, false},
	{`{"list":[,"a"]}`, false, false},
	{`{"list":["a"}`, false, false},
	{`{"raw":tru}`, false, false},
	{`{"raw":nul`, false, false},
	{`{"raw":falsehood}`, false, false},
	{`{"raw":01}`, false, false},
	{`{"raw":+1}`, false, false},
	{`{"raw":-}`, false, false},
	{`{"raw":1.}`, false, false},
	{`{"raw":.5}`, false, false},
	{`{"raw":1e}`, false, false},
	{`{"raw":1e+}`, false, false},
	{`{"raw":0x1}`, false, false},
	{`{"raw":'a'}`, false, false},
}

func TestValid(t *testing.T) {
	for _, tc := range texts {
		if got := rawjson.Valid([]byte(tc.text)); got != tc.valid {
			t.Errorf("Valid(%q) = %v", tc.text, got)
		}
		if stdlib := json.Valid([]byte(tc.text)); stdlib != tc.valid {
			t.Errorf("encoding/json says %v to %q", stdlib, tc.text)
		}
	}
}

// TestStringsOfAllLengths: a string is compared in blocks of 8 and 32 bytes, and what ends or breaks it may be at any place of one.
func TestStringsOfAllLengths(t *testing.T) {
	for _, fill := range []string{"a", "!", "\x7f", "é", "~"} {
		for length := range 100 {
			text := strings.Repeat(fill, length)
			for _, special := range []string{"", `\"`, `\\`, `"`, "\n", "\x1f", "\x00", `\x`} {
				for _, after := range []string{"", text} {
					whole := `"` + text + special + after + `"`
					assert.Equal(t, json.Valid([]byte(whole)), rawjson.Valid([]byte(whole)), whole)
				}
			}
		}
	}
}

func TestFits(t *testing.T) {
	for _, tc := range texts {
		assert.Equal(t, tc.fits, rawjson.Fits([]byte(tc.text), sampleShape), tc.text)
		if err := json.Unmarshal([]byte(tc.text), &sample{}); (err == nil) != tc.fits {
			t.Errorf("encoding/json says %v to %s", err, tc.text)
		}
	}
}

// Text that encoding/json accepts is refused if reading it would require decoding.
func TestRefuses(t *testing.T) {
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	for _, text := range []string{
		`{"Text":"a"}`, `{"liſt":[]}`, `{"number":-1}`, `{"number":1234567890}`, `{"\u0074ext":"a"}`, `{"raw":` + deep + `}`,
	} {
		assert.NoErrorf(t, json.Unmarshal([]byte(text), &sample{}), "encoding/json refuses %.40s, too", text)
		assert.Falsef(t, rawjson.Fits([]byte(text), sampleShape), "%.40s fits", text)
	}
	assert.False(t, rawjson.Valid([]byte(deep)), "values 600 deep are valid")
}

func TestScanner(t *testing.T) {
	s := rawjson.Scan([]byte(` {"a": "x\ty", "b": [1, "é\ud83d", null], "c": {"d": [ ] } , "e": "c2FsdA=="} `))
	got := ""
	s.Object(func(key []byte) {
		got += string(key) + "="
		switch string(key) {
		case "a":
			got += s.String()
		case "b":
			s.Array(func() {
				if s.Null() {
					got += "nothing"
					return
				}
				got += string(s.Raw()) + ";"
			})
		case "c":
			got += string(s.Raw())
		case "e":
			got += string(s.Base64([]byte("more ")))
		}
		got += "\n"
	})
	want := "a=x\ty\nb=1;\"é\\ud83d\";nothing\nc={\"d\": [ ] }\ne=more salt\n"
	if got != want || !s.End() {
		t.Errorf("got %q, want %q; all was read: %v", got, want, s.End())
	}
}

func TestScannerFails(t *testing.T) {
	for name, read := range map[string]func(*rawjson.Scanner){
		"object":    func(s *rawjson.Scanner) { s.Object(func([]byte) { t.Error("a key") }) },
		"array":     func(s *rawjson.Scanner) { s.Array(func() { t.Error("an element") }) },
		"string":    func(s *rawjson.Scanner) { _ = s.String() },
		"base64":    func(s *rawjson.Scanner) { s.Base64(nil) },
		"by caller": func(s *rawjson.Scanner) { s.Skip(); s.Fail() },
	} {
		s := rawjson.Scan([]byte("5"))
		read(s)
		if s.Skip(); s.End() {
			t.Errorf("a number was read as %s", name)
		}
		if s.Raw() != nil || s.String() != "" || s.Null() || len(s.Base64(nil)) > 0 {
			t.Errorf("%s: it goes on after a failure", name)
		}
	}
	for _, wrong := range []string{`"%"`, `"c2FsdA"`, `"c2Fs\ndA=="`, `"c2`} {
		s := rawjson.Scan([]byte(wrong))
		if s.Base64(nil); s.End() {
			t.Errorf("%s was read as base64", wrong)
		}
	}
}

func TestShapeOfPanics(t *testing.T) {
	for name, shape := range map[string]func(){
		"number":   func() { rawjson.ShapeOf[float64](); rawjson.ShapeOf[int8]() },
		"keys":     func() { rawjson.ShapeOf[map[int]string]() },
		"embedded": func() { rawjson.ShapeOf[struct{ *Parent }]() },
		"quoted": func() {
			rawjson.ShapeOf[struct {
				A bool `json:"a,string"`
			}]()
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if what := fmt.Sprint(recover()); !strings.HasPrefix(what, "rawjson: ") {
					t.Errorf("panic: %v", what)
				}
			}()
			shape()
		})
	}
}

// TestAppend compares the output with encoding/json's for the same value.
func TestAppend(t *testing.T) {
	for _, tc := range []string{
		`{}`, `[]`, `{"a":{},"b":[]}`, `{"b":1,"a":[true,false,null]}`, ` { "b" : { "d":1, "c":2 } , "a" : "x" } `,
		`{"a":1,"b":2,"a":3}`, `{"c":1,"b":2,"a":3,"c":{"f":1,"e":2},"b":[{}]}`, `{"a":1,"a!":2,"a b":3}`,
		`"plain"`, `"\n \t \\ \" \b \f \r"`, `"\/ \u0041 \u0001 \ud83d\ude00 \ud83d"`, `"<a href=\"x\">&amp;</a>"`, `"é 😀"`, `"\u2028"`,
		"\"\u2028 and \u2029\"", "\"\xff\"", "\"\x7f\"",
		`0`, `-1`, `12345678901`, `1.0`, `1.50`, `-0.0`, `1e3`, `1E-7`, `1e21`, `0.1`,
	} {
		for _, style := range []rawjson.Style{{}, {Indent: 4}, {Indent: 2, Level: 90}} {
			s := rawjson.Scan([]byte(tc))
			got := string(s.Append([]byte("before "), style))
			if !s.End() {
				t.Errorf("%s is refused", tc)
				continue
			}
			assert.Equal(t, "before "+canonical(t, tc, style), got, tc)
		}
	}
	if got := string(rawjson.Scan([]byte(`[12345678901234567890, -9007199254740993]`)).Append(nil, rawjson.Style{})); got != "[12345678901234567890,-9007199254740993]" {
		t.Errorf("long integers become %s", got)
	}
	for _, tc := range []string{`{"a":}`, `[1,`, `"\x"`, `1.5.5`, `1e999`, `{"\u0061":1}`, "{\"\xff\":1}", "{\"\u2028\":1}"} {
		s := rawjson.Scan([]byte(tc))
		if got := s.Append(nil, rawjson.Style{}); s.End() {
			t.Errorf("%q becomes %s", tc, got)
		}
	}
}

func TestCanonical(t *testing.T) {
	for _, tc := range []struct{ value, want string }{
		{` { "b" : [ 1 , 2.50 ] , "a" : null } `, `{"a":null,"b":[1,2.5]}`},
		{`12345678901234567891`, `12345678901234567891`},
		{"{\"line\u2028\": 12345678901234567891, \"a\": \"<b>\"}", `{"a":"<b>","line\u2028":12345678901234567891}`}, // which Append leaves to encoding/json
		{`{"a": `, `{"a": `},
	} {
		if got := string(rawjson.Canonical([]byte(tc.value))); got != tc.want {
			t.Errorf("%s becomes %s, want %s", tc.value, got, tc.want)
		}
	}
}

// canonical decodes and encodes a text with encoding/json.
func canonical(t *testing.T, text string, style rawjson.Style) string {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal([]byte(text), &value), text)
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent(strings.Repeat(" ", style.Indent*style.Level), strings.Repeat(" ", style.Indent))
	require.NoError(t, encoder.Encode(value))
	return strings.TrimSuffix(written.String(), "\n")
}

// FuzzAppend compares the output with encoding/json's for the same value.
func FuzzAppend(f *testing.F) {
	for _, tc := range texts {
		f.Add([]byte(tc.text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, style := range []rawjson.Style{{}, {Indent: 1}} {
			s := rawjson.Scan(data)
			got := s.Append(nil, style)
			if !s.End() || regexp.MustCompile(`\d{16}`).Match(data) {
				continue
			}
			assert.Equal(t, canonical(t, string(data), style), string(got))
		}
	})
}

// FuzzFits: Fits accepts only values that encoding/json accepts.
func FuzzFits(f *testing.F) {
	for _, tc := range texts {
		f.Add([]byte(tc.text))
	}
	f.Add([]byte(`{"annotations":{"a":"b"},"crdDescriptions":{"owned":[{"name":"a","version":"v1","kind":"A","specDescriptors":[{"path":"a","x-descriptors":["b"],"value":5}]}]},"installModes":[{"type":"AllNamespaces","supported":true}]}`))
	metadata := rawjson.ShapeOf[property.CSVMetadata]()
	f.Fuzz(func(t *testing.T, data []byte) {
		if rawjson.Valid(data) && !json.Valid(data) {
			t.Error("valid, says rawjson")
		}
		if rawjson.Fits(data, sampleShape) {
			assert.NoError(t, json.Unmarshal(data, &sample{}), "it fits a sample")
		}
		if rawjson.Fits(data, metadata) {
			assert.NoError(t, json.Unmarshal(data, &property.CSVMetadata{}), "it fits the metadata of a ClusterServiceVersion")
		}
	})
}
