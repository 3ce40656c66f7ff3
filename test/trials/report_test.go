package trials

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// events is an output of go test -json, with a test that passes only sometimes.
const events = `{"Action":"start","Package":"github.com/berth-csi/berth/house"}
{"Action":"pass","Package":"github.com/berth-csi/berth/house","Test":"TestDoor/knock"}
{"Action":"pass","Package":"github.com/berth-csi/berth/house","Test":"TestFire/F1:_smoke"}
{"Action":"pass","Package":"github.com/berth-csi/berth/house","Test":"TestFire/F1,_F2:_flames"}
{"Action":"pass","Package":"github.com/berth-csi/berth/house","Test":"TestOther"}
`

const sometimes = `{"Action":"fail","Package":"github.com/berth-csi/berth/house","Test":"TestWindow"}
{"Action":"pass","Package":"github.com/berth-csi/berth/house","Test":"TestWindow"}
{"Action":"fail","Package":"github.com/berth-csi/berth/house","Test":"TestFire/F2:_flames"}
`

const skip = `{"Action":"output","Package":"github.com/berth-csi/berth/house","Test":"TestCellar","Output":"no spade here\n"}
{"Action":"skip","Package":"github.com/berth-csi/berth/house","Test":"TestCellar"}
`

var (
	house = []Area{
		{"House", []Attack{{"knock", "the door", "house TestDoor/knock"}, {"break a window", "a bar", "house TestWindow"}}},
		{"Garden", []Attack{{"dig", "the cellar", "house TestCellar"}}},
	}
	fire = []Failure{{"`smoke`", "an alarm"}, {"flames", "[water](water.md)"}, {"rain", "a roof"}}
)

func TestReport(t *testing.T) {
	for name, tc := range map[string]struct{ events, want, attacks, failures string }{
		"some are tried": {events, `
House
  stopped      knock           the door
  not tried    break a window  a bar

Garden
  not tried    dig             the cellar

Failures
  2 passed     F1: smoke   an alarm
  1 passed     F2: flames  water
  not tried    F3: rain    a roof
`, "3 rows, 2 open", "3 rows, 1 open"},
		"some fail": {events + skip + sometimes, `
House
  stopped      knock           the door
  NOT STOPPED  break a window  a bar

Garden
  not tried    dig             the cellar

Failures
  2 passed     F1: smoke   an alarm
  FAILED       F2: flames  water
  not tried    F3: rain    a roof
`, "3 rows, 2 open", "3 rows, 2 open"},
		"some are skipped": {events + skip, `
House
  stopped      knock           the door
  not tried    break a window  a bar

Garden
  not tried    dig             the cellar

Failures
  2 passed     F1: smoke   an alarm
  1 passed     F2: flames  water
  not tried    F3: rain    a roof

1 not tried: no spade
`, "3 rows, 2 open", ""},
		"all are tried": {events + `{"Action":"pass","Package":"github.com/berth-csi/berth/house","Test":"TestWindow"}
{"Action":"pass","Package":"github.com/berth-csi/berth/house","Test":"TestCellar"}
{"Action":"pass","Package":"github.com/berth-csi/berth/house","Test":"TestFire/F3:_rain"}
`, `
House
  stopped      knock           the door
  stopped      break a window  a bar

Garden
  stopped      dig             the cellar

all 3

Failures
  2 passed     F1: smoke   an alarm
  1 passed     F2: flames  water
  1 passed     F3: rain    a roof

all 3
`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			run, err := Read(strings.NewReader(tc.events), "no spade")
			require.NoError(t, err)
			failures := run.failures(fire)
			failures[0].title = "Failures"
			var text strings.Builder
			for _, of := range []struct {
				sections      []section
				skipped, want string
			}{{run.attacks(house), "", tc.attacks}, {failures, run.skipped, tc.failures}} {
				got := ""
				if err := write(&text, of.sections, of.skipped, "all %d", "%d rows, %d open"); err != nil {
					got = err.Error()
				}
				assert.EqualValues(t, of.want, got, "got the error")
			}
			assert.Empty(t, cmp.Diff(tc.want, text.String()), "(-want +got)")
		})
	}
}

// TestReportOfAll: a run without tests shows no outcome of the lists.
func TestReportOfAll(t *testing.T) {
	var text strings.Builder
	err := (&Run{}).Report(&text)
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got the error %v, want one about attacks and one about failures", err)
	}
	if strings.Contains(text.String(), "stopped  ") || strings.ContainsAny(text.String()[strings.Index(text.String(), "\nWhat can go wrong"):], "`[") {
		t.Errorf("got\n%s\nwant nothing stopped, and failures without marks of Markdown", text.String())
	}
}

func TestReadNoEvents(t *testing.T) {
	_, err := Read(strings.NewReader("no JSON\n"), "-")
	assert.Error(t, err, "Read accepted a line that is not an event")
}
