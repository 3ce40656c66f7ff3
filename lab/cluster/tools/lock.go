package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Slot takes one of n slots of a kind, which all processes of this user share, and returns the function that releases
// it. The kernel also releases it when the process ends or is killed. waiting is called once if all are taken.
func Slot(ctx context.Context, kind string, n int, waiting func()) (release func(), err error) {
	folder, err := CacheFolder(kind)
	if err != nil {
		return nil, err
	}
	slots := make([]string, n)
	for i := range slots {
		slots[i] = filepath.Join(folder, strconv.Itoa(i))
	}
	return lockOne(ctx, slots, waiting)
}

// lock takes an exclusive lock on a file and returns the function that releases it. The kernel also releases it when
// the process ends or is killed. waiting is called once if another process holds the lock.
func lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	return lockOne(ctx, []string{path}, waiting)
}

// lockOne does the same with the first free one of several files.
func lockOne(ctx context.Context, paths []string, waiting func()) (unlock func(), err error) {
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for told := false; ; {
		for _, path := range paths {
			if unlock, err := tryLock(path); err != nil || unlock != nil {
				return unlock, err
			}
		}
		if !told {
			told = true
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the lock %s: %w", strings.Join(paths, " or "), context.Cause(ctx))
		case <-retry.C:
		}
	}
}

// tryLock returns nil if somebody else holds the lock.
func tryLock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return func() { file.Close() }, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
