// Package logging configures the logs of programs and their libraries.
package logging

import (
	"flag"
	"io"

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
