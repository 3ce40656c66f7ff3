// Package logging says how programs write what libraries and they themselves log.
package logging

import (
	"flag"
	"io"

	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/internal/findings/escape"
)

// To has klog write to w, a line for each message: what a message quotes from requests and objects of others neither
// ends the line nor reaches a terminal as more than text.
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
