// Package fix applies the mechanical corrections of findings to files, or shows them as a diff. The rest of a file stays unchanged.
package fix

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// File is a corrected file.
type File struct {
	// Name is the file's name in findings.
	Name          string
	Before, After []byte
	// Fixed are the corrected findings.
	Fixed []*findings.Finding
}

// Of returns the corrected files, by name. If edits of several findings overlap, only the first finding's edits are made. It fails if a
// file cannot be read, or has changed since its check.
func Of(found []*findings.Finding, read func(name string) ([]byte, error)) (files []File, err error) {
	byFile := map[string][]*findings.Finding{}
	for _, f := range found {
		if len(f.Fix) > 0 {
			byFile[f.File] = append(byFile[f.File], f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byFile)) {
		file := File{Name: name}
		if file.Before, err = read(name); err != nil {
			return nil, err
		}
		var edits []findings.Edit
		for _, f := range byFile[name] {
			if all, fit := together(edits, f.Fix); fit {
				edits, file.Fixed = all, append(file.Fixed, f)
			}
		}
		if file.After, err = edited(file.Before, edits); err != nil {
			return nil, fmt.Errorf("%s %w", name, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// together merges two lists of edits in order, or returns false if some overlap. The same edit counts once.
func together(edits, more []findings.Edit) ([]findings.Edit, bool) {
	all := slices.Concat(edits, more)
	slices.SortStableFunc(all, func(a, b findings.Edit) int { return cmp.Compare(a.Offset, b.Offset) })
	all = slices.Compact(all)
	for i := 1; i < len(all); i++ {
		if before := all[i-1]; before.Offset+int64(len(before.Old)) > all[i].Offset {
			return edits, false
		}
	}
	return all, true
}

// edited applies edits, which are in order, to a text.
func edited(text []byte, edits []findings.Edit) ([]byte, error) {
	var after bytes.Buffer
	at := int64(0)
	for _, e := range edits {
		if e.Offset < at || e.Offset > int64(len(text)) || !bytes.HasPrefix(text[e.Offset:], []byte(e.Old)) {
			return nil, fmt.Errorf("changed while it was being checked; try again when nothing writes to it")
		}
		after.Write(text[at:e.Offset])
		after.WriteString(e.New)
		at = e.Offset + int64(len(e.Old))
	}
	after.Write(text[at:])
	return after.Bytes(), nil
}

// Write writes the file below dir; the file's name begins with dir. It fails if the name leads out of the folder, or if the file is not
// regular.
func (f File) Write(dir string) error {
	name, err := filepath.Rel(dir, f.Name)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file (%s), so it is not written", f.Name, info.Mode())
	}
	// The file is replaced atomically.
	beside := name + ".berth-fix"
	if err := create(root, beside, f.After, info.Mode().Perm()); err != nil {
		return err
	}
	if err := root.Rename(beside, name); err != nil {
		_ = root.Remove(beside)
		return err
	}
	return nil
}

// create creates a file with a text. It fails if the name exists, for example as a link from a pull request.
func create(root *os.Root, name string, text []byte, mode os.FileMode) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; it is in the way of the corrected file: remove it if nobody needs it", err)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		_ = root.Remove(name)
	}
	return err
}

// context is the number of lines around a change in a diff.
const context = 3

// Diff returns the change as a unified diff for git apply and patch -p1. The diff has lines of the file as they are, so Diff fails if one
// of them is a command of a CI system: the system would run it when it logs the diff.
func (f File) Diff() (string, error) {
	before, after := lines(f.Before), lines(f.After)
	name := escape.Line(strings.TrimPrefix(filepath.ToSlash(f.Name), "/"))
	var text strings.Builder
	fmt.Fprintf(&text, "--- a/%s\n+++ b/%s\n", name, name)
	for _, h := range hunks(before, after) {
		h.write(&text, before, after)
	}
	for line := range strings.Lines(text.String()) {
		if line = strings.TrimRight(line, "\r\n"); escape.IsCommand(line) {
			return "", fmt.Errorf("%s: a line near a correction is one that CI systems take for a command: %s", f.Name, strings.TrimSpace(line[1:]))
		}
	}
	return text.String(), nil
}

// lines splits a text into its lines, with their ends.
func lines(text []byte) []string { return slices.Collect(strings.Lines(string(text))) }

// span is a range of differing lines: from begin to end in the old text, and in the new one.
type span struct{ begin, end, newBegin, newEnd int }

// hunk holds spans that share context.
type hunk []span

// differing returns the differences between two texts. Edits change or add single lines, so a difference ends at the next line that both
// texts have.
func differing(before, after []string) (all []span) {
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		if i < len(before) && j < len(after) && before[i] == after[j] {
			i, j = i+1, j+1
			continue
		}
		s := span{begin: i, newBegin: j}
		i, j = resume(before, after, i, j)
		s.end, s.newEnd = i, j
		all = append(all, s)
	}
	return all
}

// resume returns the nearest positions at which two texts are equal again.
func resume(before, after []string, i, j int) (int, int) {
	for distance := 1; i+distance <= len(before) || j+distance <= len(after); distance++ {
		for skipped := 0; skipped <= distance; skipped++ {
			for _, at := range [][2]int{{i + skipped, j + distance}, {i + distance, j + skipped}} {
				if at[0] < len(before) && at[1] < len(after) && before[at[0]] == after[at[1]] {
					return at[0], at[1]
				}
			}
		}
	}
	return len(before), len(after)
}

// hunks groups the spans of two texts whose context touches.
func hunks(before, after []string) (all []hunk) {
	for _, s := range differing(before, after) {
		if last := len(all) - 1; last >= 0 && s.begin-all[last][len(all[last])-1].end <= 2*context {
			all[last] = append(all[last], s)
			continue
		}
		all = append(all, hunk{s})
	}
	return all
}

func (h hunk) write(text *strings.Builder, before, after []string) {
	first, last := h[0], h[len(h)-1]
	begin, end := max(0, first.begin-context), min(len(before), last.end+context)
	newBegin, newEnd := first.newBegin-(first.begin-begin), last.newEnd+(end-last.end)
	fmt.Fprintf(text, "@@ -%s +%s @@\n", numbers(begin, end), numbers(newBegin, newEnd))
	at := begin
	for _, s := range h {
		write(text, " ", before[at:s.begin])
		write(text, "-", before[s.begin:s.end])
		write(text, "+", after[s.newBegin:s.newEnd])
		at = s.end
	}
	write(text, " ", before[at:end])
}

// numbers returns the first line and the number of lines for the head of a hunk.
func numbers(begin, end int) string {
	if begin == end {
		return fmt.Sprintf("%d,0", begin)
	}
	return fmt.Sprintf("%d,%d", begin+1, end-begin)
}

func write(text *strings.Builder, mark string, lines []string) {
	for _, line := range lines {
		whole, ended := strings.CutSuffix(line, "\n")
		text.WriteString(mark + whole + "\n")
		if !ended {
			text.WriteString("\\ No newline at end of file\n")
		}
	}
}
