package listing

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	type named struct {
		Metadata struct{ Name string }
	}
	errEnough := errors.New("enough")
	for _, test := range []struct {
		name, body string
		most       int // 0 for no limit
		names      []string
		next       string
		err        error
	}{
		{name: "empty", body: `{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]}`},
		{name: "null", body: `{"metadata":{},"items":null}`},
		{name: "last page", body: `{"metadata":{},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"},"spec":{"x":[1,{}]}}]}`, names: []string{"a", "b"}},
		{name: "more pages", body: `{"metadata":{"continue":"c"},"items":[{"metadata":{"name":"a"}}]}`, names: []string{"a"}, next: "c"},
		{name: "metadata last", body: `{"items":[{"metadata":{"name":"a"}}],"other":[1],"metadata":{"continue":"c"}}`, names: []string{"a"}, next: "c"},
		{name: "enough", body: `{"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`, most: 1, names: []string{"a"}, err: errEnough},
		{name: "cut off in an object", body: `{"items":[{"metadata":{"name":"a"}},{"metada`, names: []string{"a"}, err: io.ErrUnexpectedEOF},
		{name: "cut off between objects", body: `{"items":[{"metadata":{"name":"a"}}`, names: []string{"a"}, err: io.ErrUnexpectedEOF},
		{name: "cut off at the end", body: `{"items":[{"metadata":{"name":"a"}}]`, names: []string{"a"}, err: io.ErrUnexpectedEOF},
	} {
		t.Run(test.name, func(t *testing.T) {
			var names []string
			next, err := decode(strings.NewReader(test.body), func(object named) error {
				names = append(names, object.Metadata.Name)
				if len(names) == test.most {
					return errEnough
				}
				return nil
			})
			if !errors.Is(err, test.err) || err == nil && next != test.next || !slices.Equal(names, test.names) {
				t.Errorf("names %q, next %q, error %v; want %q, %q, %v", names, next, err, test.names, test.next, test.err)
			}
		})
	}
	if _, err := decode(strings.NewReader(`{"items":{}}`), func(named) error { return nil }); err == nil || !strings.Contains(err.Error(), "want [") {
		t.Errorf("items that are not a list: %v", err)
	}
}
