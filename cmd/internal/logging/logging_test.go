package logging_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/berth-csi/berth/cmd/internal/logging"
)

// TestMessageIsALine logs untrusted text with each function of klog.
func TestMessageIsALine(t *testing.T) {
	const hostile = "/x\nI0101 00:00:00.000000       1 lock.go:1] forged \x1b[2K\u202e"
	var log bytes.Buffer
	logging.To(&log)
	for _, write := range []func(){
		func() { klog.Infof("GET %s", hostile) },
		func() { klog.Warning(hostile) },
		func() { klog.Errorf("GET: %v", errors.New(hostile)) },
		func() { klog.InfoS(hostile, "key", hostile) },
		func() { klog.ErrorS(errors.New(hostile), hostile, hostile, hostile) },
		func() { klog.Background().WithName(hostile).Info(hostile, "key", hostile) },
	} {
		log.Reset()
		write()
		klog.Flush()
		line, ended := strings.CutSuffix(log.String(), "\n")
		if !ended || strings.ContainsAny(line, "\n\x1b\u202e") || !strings.Contains(line, "forged") {
			t.Errorf("it logs %q, want one line of visible characters", log.String())
		}
	}
}
