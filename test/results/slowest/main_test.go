package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRun(t *testing.T) {
	var events strings.Builder
	event := func(action, name, test string, seconds float64) {
		fmt.Fprintf(&events, `{"Action":%q,"Package":"github.com/berth-csi/berth/%s","Test":%q,"Elapsed":%g}`+"\n", action, name, test, seconds)
	}
	event("run", "olm", "TestA", 0)
	event("pass", "olm", "TestA/part", 9)
	event("pass", "olm", "TestA", 3)
	event("fail", "olm", "TestB", 4)
	event("fail", "olm", "", 8)
	for i := range 11 {
		event("pass", fmt.Sprintf("p%02d", i), "TestC", 1)
		event("pass", fmt.Sprintf("p%02d", i), "", 2)
	}
	file := filepath.Join(t.TempDir(), "test.json")
	if err := os.WriteFile(file, []byte(events.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run([]string{file}, &out); err != nil {
		t.Fatal(err)
	}
	want := "The slowest packages:\n     8.0 s  olm                          of which 4.0 s TestB\n"
	for i := range 9 {
		want += fmt.Sprintf("     2.0 s  p%02d                          of which 1.0 s TestC\n", i)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRunRefusesWhatIsNoJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "test.json")
	if err := os.WriteFile(file, []byte("ok\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{file}, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), `found "ok"`) {
		t.Errorf("got error %v", err)
	}
}
