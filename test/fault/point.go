package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// A Point is one request of a client, known by what it is. It is not known by its place in the
// conversation, because a client's controllers run side by side and their requests mix.
type Point struct {
	// Verb is that of the API server: create, update, patch, delete, deletecollection or watch.
	Verb string
	// Resource is the plural, with the subresource if there is one: "deployments", "pods/status". The API
	// group is left out; a client that writes two resources of one name and different groups at objects
	// of one name has points with different occurrences.
	Resource string
	// Namespace and Name are those of the object. A name that the API server is to choose reads "web-*", and
	// that of an event, which ends in the time when it happened, "web.*". A watch has the name of the one
	// object that it selects, or none.
	Namespace, Name string
	// Manager is the field manager of a write, if the request names one: the controllers of a client that
	// apply parts of one object tell themselves apart by it.
	Manager string
	// Occurrence counts the requests that are the same in all of the above, from 1.
	Occurrence int
}

// String returns the point as it stands in a subtest's name: "patch_pods.status_default_web-0_2".
func (p Point) String() string {
	parts := []string{p.Verb, strings.ReplaceAll(p.Resource, "/", "."), p.Namespace, p.Name, p.Manager, strconv.Itoa(p.Occurrence)}
	present := parts[:0]
	for _, part := range parts {
		if part != "" {
			present = append(present, part)
		}
	}
	return strings.Join(present, "_")
}

// IsWatch tells a watch from a write.
func (p Point) IsWatch() bool { return p.Verb == "watch" }

// A Target names objects whose requests are no points: they are neither recorded nor disturbed.
type Target struct {
	// Resource is the plural without a subresource, and stands for all subresources too.
	Resource string
	// Name is that of one object; "" stands for all.
	Name string
}

func (t Target) matches(p Point) bool {
	resource, _, _ := strings.Cut(p.Resource, "/")
	return t.Resource == resource && (t.Name == "" || t.Name == p.Name)
}

var requests = apirequest.RequestInfoFactory{
	APIPrefixes:          sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api"),
}

var writeVerbs = sets.New("create", "update", "patch", "delete", "deletecollection")

// pointOf returns the point of a request, without its occurrence, and false if the request is neither a
// write nor a watch. A dry run writes nothing.
func pointOf(request *http.Request, body []byte) (Point, bool, error) {
	info, err := requests.NewRequestInfo(request)
	if err != nil {
		return Point{}, false, fmt.Errorf("%s %s: %w", request.Method, request.URL, err)
	}
	if !info.IsResourceRequest || request.URL.Query().Has("dryRun") || info.Verb != "watch" && !writeVerbs.Has(info.Verb) {
		return Point{}, false, nil
	}
	p := Point{Verb: info.Verb, Resource: info.Resource, Namespace: info.Namespace, Name: info.Name,
		Manager: request.URL.Query().Get("fieldManager")}
	if info.Subresource != "" {
		p.Resource += "/" + info.Subresource
	}
	if p.Verb == "create" && p.Name == "" {
		meta, err := metadataOf(request.Header.Get("Content-Type"), body)
		if err != nil {
			return Point{}, false, fmt.Errorf("%s %s: the object's name: %w", request.Method, request.URL, err)
		}
		p.Name = meta.Name
		if p.Name == "" && meta.GenerateName != "" {
			p.Name = meta.GenerateName + "*"
		}
	}
	if p.Resource == "events" {
		p.Name = p.Name[:strings.LastIndex(p.Name, ".")+1] + "*"
	}
	return p, true, nil
}

// The media types that a client speaks with the API server.
const (
	mediaTypeJSON     = "application/json"
	mediaTypeProtobuf = "application/vnd.kubernetes.protobuf"
)

// protobufMagic stands before every object in protobuf.
const protobufMagic = "k8s\x00"

// metadataOf reads the metadata of an object, whatever its type.
func metadataOf(contentType string, object []byte) (metav1.ObjectMeta, error) {
	var partial metav1.PartialObjectMetadata
	switch mediaType, _, _ := strings.Cut(contentType, ";"); mediaType {
	case mediaTypeJSON:
		err := json.Unmarshal(object, &partial)
		return partial.ObjectMeta, err
	case mediaTypeProtobuf:
		encoded, found := bytes.CutPrefix(object, []byte(protobufMagic))
		if !found {
			return partial.ObjectMeta, errors.New("no object in protobuf: the magic number is missing")
		}
		var envelope runtime.Unknown
		if err := envelope.Unmarshal(encoded); err != nil {
			return partial.ObjectMeta, fmt.Errorf("the envelope of an object in protobuf: %w", err)
		}
		// In all types of the API the metadata is the first field; the others are skipped.
		err := partial.Unmarshal(envelope.Raw)
		return partial.ObjectMeta, err
	default:
		return partial.ObjectMeta, fmt.Errorf("content type %q is not known here, want %s or %s", contentType, mediaTypeJSON, mediaTypeProtobuf)
	}
}
