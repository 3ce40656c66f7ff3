// Package listing reads lists from the API server one object at a time. A client that decodes a page of objects has
// all of them in memory twice, encoded and decoded, and whoever writes the objects decides how large they are: up to
// 1.5 MiB each. This package has at most one object in memory, plus what the caller keeps of the others.
package listing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// pageSize is the number of objects in a page, which the API server has in memory at a time.
const pageSize = 50

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
func Each[T any](ctx context.Context, client rest.Interface, list List, do func(T) error) error {
	for next := ""; ; {
		var err error
		if next, err = page(ctx, client, list, next, do); err != nil {
			return fmt.Errorf("listing %s: %w", list.Resource, err)
		}
		if next == "" {
			return nil
		}
	}
}

// page reads a page. It returns the token of the next one.
func page[T any](ctx context.Context, client rest.Interface, list List, from string, do func(T) error) (next string, err error) {
	request := client.Get().NamespaceIfScoped(list.Namespace, list.Namespace != "").Resource(list.Resource).
		SetHeader("Accept", "application/json").
		Param("limit", strconv.Itoa(pageSize))
	for name, value := range map[string]string{"labelSelector": list.Labels, "fieldSelector": list.Fields, "continue": from} {
		if value != "" {
			request = request.Param(name, value)
		}
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return "", err
	}
	defer body.Close()
	return decode(body, do)
}

// decode reads a JSON list. It returns its metadata about the next page.
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
