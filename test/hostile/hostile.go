// Package hostile puts hostile texts into all fields that a program has read, one after the other, and judges what it then shows. The
// list of fields is made from the values by reflection, so none is forgotten when there are more.
package hostile

import (
	"fmt"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// The texts. The first starts a program in a shell that does not take it for one word, the second controls terminals and gives commands
// to CI systems, and the third is long.
var (
	shell  = "x; started & $(started) || started # '; started; '\n started"
	screen = "\x1b[31mred\x1b]8;;http://sea.example.com\a \u202etxt\u2066 \u200b\u00ad\r\n::error::x\n##[error]x ##vso[task.x] \x00\x7f\u009b \xff"
	long   = strings.Repeat("x", 100<<10)
)

// Texts returns the hostile texts.
func Texts() []string { return []string{shell, screen, long} }

// Short returns the short hostile texts, joined into one. It is UTF-8.
func Short() string { return strings.ToValidUTF8(shell+screen, "?") }

// Long returns the long hostile text.
func Long() string { return long }

// ownPackages are the packages whose types are walked with their unexported fields.
const ownPackages = "github.com/berth-csi/berth/"

// Each calls f once for each text that a pointer leads to, including the keys of maps, with a hostile text in its place. It skips values
// that have the type of one of others, for values that were not read from anywhere. It returns the number of these texts and keys.
func Each(pointer any, text string, f func(path string), others ...any) int {
	w := &walk{text: text, f: f, seen: map[unsafe.Pointer]bool{}}
	for _, other := range others {
		w.others = append(w.others, reflect.TypeOf(other))
	}
	w.value(reflect.ValueOf(pointer), "", func() {})
	return w.count
}

type walk struct {
	text   string
	f      func(string)
	others []reflect.Type
	seen   map[unsafe.Pointer]bool
	count  int
}

// value walks a value. changed has to be called after a change of it.
func (w *walk) value(v reflect.Value, path string, changed func()) {
	if !v.IsValid() || slices.Contains(w.others, v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.String:
		w.try(v, path, changed)
	case reflect.Pointer:
		if !v.IsNil() && !w.seen[v.UnsafePointer()] {
			w.seen[v.UnsafePointer()] = true
			w.value(v.Elem(), path, func() {})
		}
	case reflect.Interface:
		w.held(v, path, changed)
	case reflect.Struct:
		w.fields(v, path, changed)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			w.value(v.Index(i), fmt.Sprintf("%s[%d]", path, i), changed)
		}
	case reflect.Map:
		w.entries(v, path)
	}
}

// try calls f while the text is in the place of another.
func (w *walk) try(v reflect.Value, path string, changed func()) {
	if !v.CanSet() {
		return
	}
	w.count++
	was := v.String()
	v.SetString(w.text)
	changed()
	w.f(path)
	v.SetString(was)
	changed()
}

// held walks what an interface holds.
func (w *walk) held(v reflect.Value, path string, changed func()) {
	if v.IsNil() {
		return
	}
	if v.Elem().Kind() == reflect.Pointer || v.Elem().Kind() == reflect.Map {
		w.value(v.Elem(), path, changed)
		return
	}
	held := reflect.New(v.Elem().Type()).Elem()
	held.Set(v.Elem())
	w.value(held, path, func() { v.Set(held); changed() })
}

func (w *walk) fields(v reflect.Value, path string, changed func()) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		at := v.Field(i)
		if !field.IsExported() && !field.Anonymous {
			if !strings.HasPrefix(v.Type().PkgPath(), ownPackages) || !at.CanAddr() {
				continue
			}
			at = reflect.NewAt(at.Type(), unsafe.Pointer(at.UnsafeAddr())).Elem()
		} else if !field.IsExported() && at.CanAddr() {
			at = reflect.NewAt(at.Type(), unsafe.Pointer(at.UnsafeAddr())).Elem()
		}
		w.value(at, path+"."+field.Name, changed)
	}
}

func (w *walk) entries(v reflect.Value, path string) {
	for _, key := range v.MapKeys() {
		of := reflect.New(v.Type().Elem()).Elem()
		of.Set(v.MapIndex(key))
		at := fmt.Sprintf("%s[%v]", path, key)
		w.value(of, at, func() { v.SetMapIndex(key, of) })
		if key.Kind() != reflect.String {
			continue
		}
		w.count++
		hostile := reflect.ValueOf(w.text).Convert(key.Type())
		v.SetMapIndex(key, reflect.Value{})
		v.SetMapIndex(hostile, of)
		w.f(at + " as the key")
		v.SetMapIndex(hostile, reflect.Value{})
		v.SetMapIndex(key, of)
	}
}

// Check fails a test unless a text is harmless on a terminal and in a log: its lines have no characters that are not visible, give CI
// systems no commands, and are of at most limit bytes; and no command in it starts the program of the hostile text.
func Check(t testing.TB, what, text string, limit int) {
	t.Helper()
	assert.Truef(t, utf8.ValidString(text), "%s: %.300q is not UTF-8", what, text)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.ContainsFunc(line, isHidden):
			t.Errorf("%s: %.500q has characters that are not visible", what, line)
		case strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") || strings.Contains(line, "##vso["):
			t.Errorf("%s: %.500q has a command for a CI system", what, line)
		case len(line) > limit:
			t.Errorf("%s: a line has %d bytes, want at most %d: %.100q", what, len(line), limit, line)
		}
		if strings.Contains(line, "started") {
			checkCommands(t, what, line)
		}
	}
}

func isHidden(r rune) bool {
	return r != '\t' && (!unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector))
}

// begins is where a message tells people to run a program.
var begins = regexp.MustCompile("(?:^|[ `(:;])((?:oc|kubectl|berth) [a-z-])")

// checkCommands makes a shell run each command in a line, from the command's name to a backquote or the end.
func checkCommands(t testing.TB, what, line string) {
	t.Helper()
	for _, at := range begins.FindAllStringSubmatchIndex(line, -1) {
		command, _, _ := strings.Cut(line[at[2]:], "`")
		if strings.Contains(command, "started") && starts(t, command) {
			t.Errorf("%s: %.500q starts a program", what, command)
		}
	}
}

// stubs are the programs for a shell: what messages tell people to run does nothing, and what must not start says that it has.
const stubs = `oc() { :; }; kubectl() { :; }; berth() { :; }; started() { echo "has started" >&2; }
`

// started holds the commands that a shell has run, and whether they start the program of the hostile text.
var started sync.Map

// starts reports whether a shell that runs a command starts the program of the hostile text.
func starts(t testing.TB, command string) bool {
	t.Helper()
	if known, ok := started.Load(command); ok {
		return known.(bool)
	}
	run := exec.CommandContext(t.Context(), "/bin/sh", "-c", stubs+command)
	run.Dir, run.Env = t.TempDir(), []string{"PATH="}
	said, _ := run.CombinedOutput() // that it fails is no matter: only what it starts counts
	starts := strings.Contains(string(said), "has started")
	started.Store(command, starts)
	return starts
}
