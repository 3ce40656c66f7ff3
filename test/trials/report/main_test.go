package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-csi/berth/test/attacks"
)

func TestRead(t *testing.T) {
	got, err := read(strings.NewReader(`{"Action":"start","Package":"github.com/berth-csi/berth/operator"}
{"Action":"pass","Package":"github.com/berth-csi/berth/operator","Test":"TestForged/lock"}
{"Action":"fail","Package":"github.com/berth-csi/berth/operator","Test":"TestForged/label"}
{"Action":"skip","Package":"github.com/berth-csi/berth/operator","Test":"TestForged/skipped"}
{"Action":"fail","Package":"github.com/berth-csi/berth/internal/oci","Test":"TestSometimes"}
{"Action":"pass","Package":"github.com/berth-csi/berth/internal/oci","Test":"TestSometimes"}
`))
	want := map[string]attacks.Outcome{
		"operator TestForged/lock":  attacks.Stopped,
		"operator TestForged/label": attacks.NotStopped,
		"image TestSometimes":       attacks.NotStopped,
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := read(strings.NewReader("no JSON\n")); err == nil {
		t.Error("read accepted a line that is not an event")
	}
}
