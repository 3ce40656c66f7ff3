package listing

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	_, err := decode(strings.NewReader(`{"items":{}}`), func(named) error { return nil })
	assert.ErrorContains(t, err, "want [", "items that are not a list")
}

func TestSizeAfter(t *testing.T) {
	for _, test := range []struct{ objects, bytes, want int }{
		{50, 200, 500},
		{50, 50 * 20_000, 209},
		{500, 500 * 20_000, 209},
		{500, 500_000_000, 50},
		{50, 0, 500},
	} {
		if got := sizeAfter(test.objects, test.bytes); got != test.want {
			t.Errorf("after %d objects of %d bytes together, the next page has %d, want %d", test.objects, test.bytes, got, test.want)
		}
	}
}

// TestRenew: a list continues from the token that comes with the error, but not twice from the same place.
func TestRenew(t *testing.T) {
	expired := func(token string) error {
		err := apierrors.NewResourceExpired("too old")
		err.ErrStatus.Continue = token
		return fmt.Errorf("reading a page: %w", err)
	}
	for _, test := range []struct {
		name string
		err  error
		at   position
		want *position
	}{
		{"no error", nil, position{token: "a", size: 70}, nil},
		{"another error", apierrors.NewForbidden(schema.GroupResource{}, "", nil), position{token: "a", size: 70}, nil},
		{"expired", expired("b"), position{token: "a", size: 70}, &position{token: "b", renewed: true, size: 70}},
		{"without a token", expired(""), position{token: "a", size: 70}, nil},
		{"again", expired("c"), position{token: "b", renewed: true, size: 70}, nil},
	} {
		got := renew(test.err, test.at)
		if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
			t.Errorf("%s: the list continues at %+v, want %+v", test.name, got, test.want)
		}
	}
}
