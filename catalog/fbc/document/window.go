package document

import (
	"bytes"
	"errors"
	"io"
)

// maxLength is the greatest length of a document, in bytes.
const maxLength = 32 << 20

// usualChunk is the number of bytes read at a time.
const usualChunk = 256 << 10

// window is the part of a file that is being split.
type window struct {
	file   io.Reader
	chunk  int    // number of bytes to read at a time
	buffer []byte // from start on: read but not consumed
	start  int
	offset int64 // of buffer[start] in the file
	line   int   // of buffer[start], counted from 1
	err    error // the error that ended reading

	lineBegin int64 // offset of that line in the file
}

// newWindow returns a window on a file. It reuses the memory of the buffer, which may be nil.
func newWindow(file io.Reader, buffer []byte) *window {
	return &window{file: file, chunk: usualChunk, line: 1, buffer: buffer[:0]}
}

// text returns the bytes that were read but not consumed.
func (w *window) text() []byte { return w.buffer[w.start:] }

// more reads on. It returns false at the end of the file, and if the text is longer than a document may be.
func (w *window) more() bool {
	if w.err != nil || len(w.text()) > maxLength {
		return false
	}
	if w.start > 0 {
		w.buffer = w.buffer[:copy(w.buffer, w.text())]
		w.start = 0
	}
	length := len(w.buffer)
	if cap(w.buffer)-length < w.chunk {
		w.buffer = append(make([]byte, 0, 2*length+w.chunk), w.buffer...)
	}
	n, err := io.ReadFull(w.file, w.buffer[length:length+w.chunk])
	w.buffer = w.buffer[:length+n]
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	w.err = err
	return n > 0
}

// take consumes n bytes. They are valid until the next call of more.
func (w *window) take(n int) []byte {
	taken := w.text()[:n]
	if last := bytes.LastIndexByte(taken, '\n'); last >= 0 {
		w.line += bytes.Count(taken, newline)
		w.lineBegin = w.offset + int64(last) + 1
	}
	w.start += n
	w.offset += int64(n)
	return taken
}

// skipSpace consumes white space and returns the byte after it, or 0 at the end of the file.
func (w *window) skipSpace() byte {
	for {
		text := w.text()
		rest := bytes.TrimLeft(text, " \t\r\n")
		w.take(len(text) - len(rest))
		if len(rest) > 0 {
			return rest[0]
		}
		if !w.more() {
			return 0
		}
	}
}

// failure returns the error that kept the file from being read to its end, or nil.
func (w *window) failure() error {
	if errors.Is(w.err, io.EOF) {
		return nil
	}
	return w.err
}

var newline = []byte("\n")
