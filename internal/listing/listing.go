// Package listing reads lists from the API server one object at a time. A client that decodes a page of objects holds
// all of them in memory twice, encoded and decoded, and their authors decide how large they are: up to 1.5 MiB each.
// This package holds at most one object, besides the data that the caller keeps.
package listing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// The API server holds one page in memory at a time. The first page is small, because the size of the objects is
// unknown; later ones request as many objects as fit into pageBytes, judging by the previous page.
const (
	minPage   = 50
	maxPage   = 500 // as in other clients
	pageBytes = 4 << 20
)

// List says which objects to read.
type List struct {
	// Resource is the plural name, such as "pods".
	Resource string
	// Namespace is the objects' namespace; "" for all namespaces and for cluster-scoped objects.
	Namespace string
	// Labels and Fields are selectors; "" selects all objects.
	Labels, Fields string
}

// Each reads objects page by page and calls do for each, until do returns an error. T has the fields to decode, with
// JSON names. The client is for the objects' API group and version.
//
// All pages show the objects at the time of the first page. But etcd forgets that state after five to ten minutes:
// later pages then show a newer one. In both cases, do gets each object once, if it exists throughout.
func Each[T any](ctx context.Context, client rest.Interface, list List, do func(T) error) error {
	at := position{size: minPage}
	for {
		next, err := page(ctx, client, list, at, do)
		if renewed := renew(err, at); renewed != nil {
			at = *renewed
			continue
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", list.Resource, err)
		}
		if next.token == "" {
			return nil
		}
		at = next
	}
}

// A position says which page is next.
type position struct {
	token   string // "" for the first page
	renewed bool   // the token is for a newer state than the first page
	size    int    // in objects
}

// renew returns the position from which a list with an expired token continues, or nil if err is another error.
func renew(err error, at position) *position {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) || at.renewed {
		return nil
	}
	token := status.Status().Continue
	if token == "" {
		return nil
	}
	return &position{token: token, renewed: true, size: at.size}
}

// page reads a page. It returns the position of the next one, without a token after the last one.
func page[T any](ctx context.Context, client rest.Interface, list List, at position, do func(T) error) (next position, err error) {
	request := client.Get().NamespaceIfScoped(list.Namespace, list.Namespace != "").Resource(list.Resource).
		SetHeader("Accept", "application/json").
		Param("limit", strconv.Itoa(at.size))
	for name, value := range map[string]string{"labelSelector": list.Labels, "fieldSelector": list.Fields, "continue": at.token} {
		if value != "" {
			request = request.Param(name, value)
		}
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return position{}, err
	}
	defer body.Close()
	counted := &counter{Reader: body}
	token, err := decode(counted, do)
	return position{token: token, size: sizeAfter(at.size, counted.bytes)}, err
}

// sizeAfter returns the number of objects to request after a page with this number of objects and bytes.
func sizeAfter(objects, bytes int) int {
	return min(max(objects*pageBytes/max(bytes, 1), minPage), maxPage)
}

// counter counts the bytes that are read.
type counter struct {
	io.Reader
	bytes int
}

func (c *counter) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	c.bytes += n
	return n, err
}

// decode reads a JSON list. It returns the token of the next page from the list's metadata.
func decode[T any](body io.Reader, do func(T) error) (next string, err error) {
	decoder := json.NewDecoder(body)
	if err := expect(decoder, '{'); err != nil {
		return "", err
	}
	for decoder.More() {
		field, err := decoder.Token()
		if err != nil {
			return "", err
		}
		switch field {
		case "metadata":
			var metadata metav1.ListMeta
			if err := decoder.Decode(&metadata); err != nil {
				return "", err
			}
			next = metadata.Continue
		case "items":
			if err := items(decoder, do); err != nil {
				return "", err
			}
		default:
			if err := decoder.Decode(&json.RawMessage{}); err != nil {
				return "", err
			}
		}
	}
	return next, expect(decoder, '}')
}

// items reads the objects of a list, which may be null.
func items[T any](decoder *json.Decoder, do func(T) error) error {
	switch first, err := decoder.Token(); {
	case err != nil:
		return err
	case first == nil:
		return nil
	case first != json.Delim('['):
		return fmt.Errorf("the list has %v at byte %d, want [", first, decoder.InputOffset())
	}
	for decoder.More() {
		var object T
		if err := decoder.Decode(&object); err != nil {
			return err
		}
		if err := do(object); err != nil {
			return err
		}
	}
	return expect(decoder, ']')
}

// expect reads a bracket or brace.
func expect(decoder *json.Decoder, want json.Delim) error {
	got, err := decoder.Token()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	if err == nil && got != want {
		err = fmt.Errorf("the list has %v at byte %d, want %v", got, decoder.InputOffset(), want)
	}
	return err
}
