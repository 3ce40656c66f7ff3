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

// A Point identifies one request of a client by its content. Its position in time would not do: a client's
// controllers run concurrently, so the order of their requests varies.
type Point struct {
	// Verb is the API server's verb: create, update, patch, delete, deletecollection or watch.
	Verb string
	// Resource is the plural, with the subresource, if any: "deployments", "pods/status". It has no API group: requests
	// for objects with the same name in resources with the same name of different groups differ in Occurrence.
	Resource string
	// Namespace and Name identify the object. A name that the API server generates is "web-*". An event's name, which ends
	// in a time, is "web.*". The name of a watch is the name of the single object that it selects, or "".
	Namespace, Name string
	// Manager is the field manager of a write, if it has one. It distinguishes controllers of a client that apply
	// parts of the same object.
	Manager string
	// Occurrence counts requests with the same fields above, from 1.
	Occurrence int
}

// String returns the point for a subtest's name: "patch_pods.status_default_web-0_2".
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

// Rename returns the point with other names: clients of several runs at once have to differ in them.
func (p Point) Rename(names *strings.Replacer) Point {
	p.Namespace, p.Name, p.Manager = names.Replace(p.Namespace), names.Replace(p.Name), names.Replace(p.Manager)
	return p
}

// IsWatch reports whether the point is a watch, not a write.
func (p Point) IsWatch() bool { return p.Verb == "watch" }

// DependsOnTiming reports whether a client with concurrent controllers may miss the point because their relative speed
// has changed since it was recorded: watch events, statuses, and writes to objects that the client has written before.
func (p Point) DependsOnTiming() bool {
	return p.Occurrence > 1 || p.IsWatch() || p.Verb == "update" || strings.HasSuffix(p.Resource, "/status")
}

// A Target names objects whose requests are not points: they are neither recorded nor disturbed.
type Target struct {
	// Resource is the plural without a subresource. It includes all subresources.
	Resource string
	// Name is the name of one object; "" means all.
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

// pointOf returns the point of a request, without its occurrence, and false if the request is neither a write nor a
// watch. A dry run is not a write.
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

// The media types between a client and the API server.
const (
	mediaTypeJSON     = "application/json"
	mediaTypeProtobuf = "application/vnd.kubernetes.protobuf"
)

// protobufMagic is the prefix of every object in protobuf.
const protobufMagic = "k8s\x00"

// metadataOf reads the metadata of an object of any type.
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
		// Metadata is the first field of all API types. The other fields are skipped.
		err := partial.Unmarshal(envelope.Raw)
		return partial.ObjectMeta, err
	default:
		return partial.ObjectMeta, fmt.Errorf("content type %q is not known here, want %s or %s", contentType, mediaTypeJSON, mediaTypeProtobuf)
	}
}
