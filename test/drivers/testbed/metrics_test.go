package testbed

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

func TestHasCrashed(t *testing.T) {
	for name, c := range map[string]struct {
		restarts int32
		words    string
		want     bool
	}{
		"it never ended":             {},
		"nothing is known":           {restarts: 1, want: true},
		"it crashed":                 {restarts: 1, words: "panic: nil map", want: true},
		"no certificate yet":         {restarts: 2, words: "F1129 main.go:1] open /etc/tls/private/tls.crt: no such file or directory"},
		"the driver answered late":   {restarts: 1, words: "ask the driver for its name: rpc error: code = DeadlineExceeded desc = context deadline exceeded"},
		"the driver cannot be asked": {restarts: 1, words: "ask the driver for its name: rpc error: code = Unimplemented desc = unknown service", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			status := corev1.ContainerStatus{RestartCount: c.restarts}
			if c.words != "" {
				status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Message: c.words}
			}
			assert.Equal(t, c.want, HasCrashed(status))
		})
	}
}
