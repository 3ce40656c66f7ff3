// Package logging configures the logs of programs and their libraries.
package logging

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"

	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// To makes klog write to w, one line for each message: untrusted text in a message cannot end the line, and reaches
// a terminal only as text.
func To(w io.Writer) {
	flags := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true"} {
		if err := flags.Set(name, value); err != nil {
			panic(err) // klog has no such flag
		}
	}
	klog.SetOutput(escape.Messages(w))
}

// Level sets the highest level of verbosity at which klog writes messages.
func Level(n int) {
	var level klog.Level
	if err := level.Set(strconv.Itoa(n)); err != nil {
		panic(err) // klog accepts any number
	}
}

// LeaveOutBodies keeps the bodies of requests and responses out of messages: they may be Secrets.
func LeaveOutBodies() { klog.SetLogFilter(withoutBodies{}) }

// bodyKey is the key under which client-go logs the body of a request or a response.
const bodyKey = "body"

type withoutBodies struct{}

func (withoutBodies) Filter(args []any) []any                           { return args }
func (withoutBodies) FilterF(format string, args []any) (string, []any) { return format, args }

func (withoutBodies) FilterS(message string, pairs []any) (string, []any) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if text, is := pairs[i+1].(string); is && pairs[i] == bodyKey {
			pairs = slices.Clone(pairs)
			pairs[i+1] = fmt.Sprintf("%d characters, left out", len(text))
		}
	}
	return message, pairs
}
