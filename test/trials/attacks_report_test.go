package attacks

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	stopped := Attack{"knock", "the door", "house TestDoor/knock"}
	broken := Attack{"break a window", "nothing", "house TestWindow"}
	forgotten := Attack{"dig", "the cellar", "house TestCellar"}
	text, open := table{{"House", []Attack{stopped, broken}}, {"Empty", nil}, {"Garden", []Attack{forgotten}}}.report(
		map[string]Outcome{stopped.Test: Stopped, broken.Test: NotStopped, "house TestOther": Stopped})
	if diff := cmp.Diff([]Attack{broken, forgotten}, open); diff != "" {
		t.Errorf("open (-want +got):\n%s", diff)
	}
	const want = `
House
  stopped      knock           the door
  NOT STOPPED  break a window  nothing

Garden
  not tried    dig             the cellar
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}
