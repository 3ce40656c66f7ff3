package main

import (
	"context"
	"fmt"

	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// maxNote is the maximum number of characters of an event's message.
const maxNote = 4 << 10

// escaping is a recorder whose events have only visible characters, whatever objects and errors they quote.
type escaping struct{ events.Recorder }

func (r escaping) Event(reason, message string) {
	r.Recorder.Event(reason, escape.Message(message, maxNote))
}

func (r escaping) Warning(reason, message string) {
	r.Recorder.Warning(reason, escape.Message(message, maxNote))
}

func (r escaping) Eventf(reason, format string, args ...any) {
	r.Event(reason, fmt.Sprintf(format, args...))
}

func (r escaping) Warningf(reason, format string, args ...any) {
	r.Warning(reason, fmt.Sprintf(format, args...))
}

func (r escaping) ForComponent(name string) events.Recorder {
	return escaping{r.Recorder.ForComponent(name)}
}

func (r escaping) WithComponentSuffix(suffix string) events.Recorder {
	return escaping{r.Recorder.WithComponentSuffix(suffix)}
}

func (r escaping) WithContext(ctx context.Context) events.Recorder {
	return escaping{r.Recorder.WithContext(ctx)}
}
