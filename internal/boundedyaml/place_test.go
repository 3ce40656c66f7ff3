package boundedyaml_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	kubernetes "sigs.k8s.io/yaml"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// faults are documents with a caret before the fault. The caret is not part of the document.
var faults = []struct{ name, text, want string }{
	{"an open quote", "a: 1\nb: ^\"x\nc: 2\n", "found unexpected end of stream"},
	{"an open bracket", "a: 1\nb: ^[x,\n  y\nc: 2\n", "did not find expected ',' or ']'"},
	{"an open brace", "a: 1\nb:\n- ^{c: d,\n   e: f\n- g\n", "did not find expected ',' or '}'"},
	{"a tab", "a: 1\nb:\n- c: d\n^\te: f\n", "found a tab character that violates indentation"},
	{"a tab in a text", "a: |\n  b\n  c\n^\td\n", "found a tab character where an indentation space is expected"},
	{"no colon", "a: 1\n^b\nc: 2\n", "could not find expected ':'"},
	{"a second colon", "a: 1\nb: c^: d\n", "mapping values are not allowed in this context"},
	{"a key that is not indented enough", "a:\n  b: 1\n ^c: 2\n", "did not find expected key"},
	{"a word that cannot begin so", "a: 1\nb: ^@c\n", "found character that cannot start any token"},
	{"a control character", "a: 1\nb: x^\x01\n", "control characters are not allowed"},
	{"Latin-1", "a: 1\nb: \"gr^\xfcn\"\n", "invalid leading UTF-8 octet"},
	{"an alias", "a: the *moon* and\nb: ^*moon\n", "unknown anchor 'moon' referenced"},
	{"a list as a key", "a: 1\n? ^[b]\n: 2\n", "a key must be plain text, and not null, a mapping or a list"},
	{"an anchor as a key", "a: 1\n^&b: 2\n", "a key must be plain text, and not null, a mapping or a list"},
	{"the first line", "^\t- a\n", "found character that cannot start any token"},
	{"in other letters", "a: 1\n\"ü\": { ö: 1, ? ^[b] : 2}\n", "a key must be plain text, and not null, a mapping or a list"},
}

func TestFault(t *testing.T) {
	for _, tc := range faults {
		t.Run(tc.name, func(t *testing.T) {
			before, after, _ := strings.Cut(tc.text, "^")
			source := []byte(before + after)
			var ignored any
			err := kubernetes.Unmarshal(source, &ignored)
			require.Error(t, err, "the decoder accepts it")
			offset, message := boundedyaml.Fault(source, err)
			got := string(source[:offset]) + "^" + string(source[offset:])
			if got != tc.text || !strings.HasPrefix(message, tc.want) {
				t.Errorf("got %q at %q, want %q at %q", message, got, tc.want, tc.text)
			}
		})
	}
}

// FuzzFault: every fault has a message and an offset within the document.
func FuzzFault(f *testing.F) {
	for _, tc := range faults {
		f.Add([]byte(tc.text))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		var ignored any
		err := kubernetes.Unmarshal(source, &ignored)
		if err == nil {
			return
		}
		if offset, message := boundedyaml.Fault(source, err); offset < 0 || offset > len(source) || message == "" {
			t.Errorf("got %q at %d, want a message and an offset of at most %d", message, offset, len(source))
		}
	})
}
