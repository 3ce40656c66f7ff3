package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
)

// containerLog is the log file of all runs of a container, one after the other.
type containerLog struct {
	path string

	// mu guards the offsets at which the last run and the one before it begin.
	mu                sync.Mutex
	current, previous int64
	runs              int
}

// open opens the log for another run.
func (l *containerLog) open() (*os.File, error) {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.previous, l.current = l.current, info.Size()
	l.runs++
	return file, nil
}

// tail returns the end of the last run's output.
func (l *containerLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tail(l.path, l.current)
}

// tailSize is how many bytes of a log kubelet shows at most as a termination message.
const tailSize = 2048

// tail returns the end of a file after an offset.
func tail(path string, offset int64) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil {
		offset = max(offset, info.Size()-tailSize)
	}
	content, err := io.ReadAll(io.NewSectionReader(file, offset, tailSize))
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// read returns the log of the last run, or of the one before it.
func (l *containerLog) read(ctx context.Context, opts api.ContainerLogOpts, ended <-chan struct{}) (io.ReadCloser, error) {
	if opts.SinceSeconds > 0 || !opts.SinceTime.IsZero() || opts.Timestamps {
		return nil, errdefs.InvalidInput("the process node keeps no time for each line of a log: leave out --since, --since-time and --timestamps")
	}
	l.mu.Lock()
	from, to, runs := l.current, int64(-1), l.runs
	if opts.Previous {
		from, to = l.previous, l.current
	}
	l.mu.Unlock()
	if opts.Previous && runs < 2 {
		return nil, errdefs.InvalidInput("the container has not been restarted: leave out --previous")
	}
	file, err := os.Open(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(bytes.NewReader(nil)), nil
	}
	if err != nil {
		return nil, err
	}
	if to < 0 {
		info, err := file.Stat()
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		to = info.Size()
	}
	if opts.Tail > 0 {
		if from, err = lastLines(file, from, to, opts.Tail); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	var reader io.Reader = io.NewSectionReader(file, from, to-from)
	if opts.Follow && !opts.Previous {
		if _, err := file.Seek(from, io.SeekStart); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		reader = &follower{ctx: ctx, file: file, ended: ended}
	}
	if opts.LimitBytes > 0 {
		reader = io.LimitReader(reader, int64(opts.LimitBytes))
	}
	return struct {
		io.Reader
		io.Closer
	}{reader, file}, nil
}

// lastLines returns the offset of the last n lines between two offsets.
func lastLines(file io.ReaderAt, from, to int64, n int) (int64, error) {
	content := make([]byte, to-from)
	if _, err := file.ReadAt(content, from); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	end := len(bytes.TrimSuffix(content, []byte("\n")))
	for ; n > 0 && end >= 0; n-- {
		end = bytes.LastIndexByte(content[:max(end, 0)], '\n')
	}
	return from + int64(end+1), nil
}

// followPeriod is the interval at which a follower checks for more output.
const followPeriod = 200 * time.Millisecond

// follower reads the content of a file and everything that is appended, until the writer has ended.
type follower struct {
	ctx   context.Context
	file  *os.File
	ended <-chan struct{}
}

func (f *follower) Read(p []byte) (int, error) {
	for {
		var over bool
		select {
		case <-f.ended:
			over = true
		case <-f.ctx.Done():
			return 0, f.ctx.Err()
		default:
		}
		// The log is complete only if nothing new comes after the writer's end.
		if n, err := f.file.Read(p); n > 0 || over || !errors.Is(err, io.EOF) {
			return n, err
		}
		select {
		case <-time.After(followPeriod):
		case <-f.ended:
		case <-f.ctx.Done():
		}
	}
}
