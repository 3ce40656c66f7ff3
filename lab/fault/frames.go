package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

// format is an encoding of a watch's events.
type format struct {
	mediaType string
	framer    runtime.Framer
	decode    func(frame []byte, into *metav1.WatchEvent) error
}

var formats = []format{
	{mediaTypeJSON, jsonserializer.Framer, func(frame []byte, into *metav1.WatchEvent) error { return json.Unmarshal(frame, into) }},
	{mediaTypeProtobuf, protobuf.LengthDelimitedFramer, func(frame []byte, into *metav1.WatchEvent) error { return into.Unmarshal(frame) }},
}

// frames reads the encoded events of a watch one by one.
type frames struct {
	format
	reader io.Reader
	buffer []byte
}

func newFrames(contentType string, body io.ReadCloser) (*frames, error) {
	mediaType, _, _ := strings.Cut(contentType, ";")
	for _, f := range formats {
		if f.mediaType == mediaType {
			return &frames{format: f, reader: f.framer.NewFrameReader(body), buffer: make([]byte, 64<<10)}, nil
		}
	}
	return nil, fmt.Errorf("a watch has the content type %q, want %s or %s", contentType, mediaTypeJSON, mediaTypeProtobuf)
}

func (f *frames) writer(sink io.Writer) io.Writer { return f.framer.NewFrameWriter(sink) }

// next returns the next frame, which is valid until the following call. The error is io.EOF at the end.
func (f *frames) next() ([]byte, error) {
	for length := 0; ; {
		n, err := f.reader.Read(f.buffer[length:])
		length += n
		switch {
		case errors.Is(err, io.ErrShortBuffer):
			f.buffer = append(f.buffer, make([]byte, len(f.buffer))...)
		case err != nil:
			return nil, err
		default:
			return f.buffer[:length], nil
		}
	}
}

// event is the part of a frame that matters here.
type event struct {
	kind watch.EventType
	meta metav1.ObjectMeta
}

func (f *frames) event(frame []byte) (event, error) {
	var decoded metav1.WatchEvent
	if err := f.decode(frame, &decoded); err != nil {
		return event{}, fmt.Errorf("an event of a watch: %w", err)
	}
	found := event{kind: watch.EventType(decoded.Type)}
	if found.kind != watch.Bookmark {
		return found, nil
	}
	var err error
	found.meta, err = metadataOf(f.mediaType, decoded.Object.Raw)
	return found, err
}

// endsList reports whether the initial list is complete.
func (e event) endsList() bool {
	return e.kind == watch.Bookmark && e.meta.Annotations[metav1.InitialEventsAnnotationKey] == "true"
}

// isChange reports whether the event is about a change of an object.
func (e event) isChange() bool {
	return e.kind == watch.Added || e.kind == watch.Modified || e.kind == watch.Deleted
}
