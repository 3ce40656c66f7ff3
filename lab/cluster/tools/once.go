package tools

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

const (
	// partialSuffix is the suffix of folders that are not complete.
	partialSuffix = ".partial"
	// keptUnused is how long an unused folder is kept. Images have hundreds of MB, and each version of a program makes new
	// ones.
	keptUnused = 7 * 24 * time.Hour
)

// Once returns a folder in the user's cache, below the folder of a kind such as "images". If it does not exist, fill creates it under
// another name, and it is renamed when fill has succeeded. key is the folder's name, a hash of all that goes into it. If several processes
// need the folder at the same time, one fills it and the others wait. report, which may be nil, is told so.
//
// If fill fails, the folder is removed. When it has succeeded, Once removes folders of that kind that nobody has
// requested for a week.
func Once(ctx context.Context, kind, key string, report func(Progress), fill func(folder string) error) (string, error) {
	cache, err := CacheFolder(kind)
	if err != nil {
		return "", err
	}
	if report == nil {
		report = func(Progress) {}
	}
	return once(ctx, cache, key, isFolder, report, fill)
}

// once is Once in a given cache. complete reports whether an existing folder is complete.
func once(ctx context.Context, cache, key string, complete func(folder string) bool, report func(Progress), fill func(partial string) error) (_ string, err error) {
	folder := filepath.Join(cache, key)
	if complete(folder) {
		return folder, markUsed(folder)
	}
	unlock, err := lock(ctx, filepath.Join(cache, "lock"), func() {
		report(Progress{Phase: "waiting for another process that builds " + filepath.Base(cache)})
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if complete(folder) { // while we waited
		return folder, markUsed(folder)
	}
	if err := sweepPartial(cache); err != nil {
		return "", err
	}
	partial := folder + partialSuffix
	defer func() {
		if err != nil {
			os.RemoveAll(partial)
		}
	}()
	if err := fill(partial); err != nil {
		return "", err
	}
	if err := os.RemoveAll(folder); err != nil { // an incomplete one
		return "", err
	}
	if err := os.Rename(partial, folder); err != nil {
		return "", err
	}
	return folder, removeUnused(cache, time.Now().Add(-keptUnused))
}

// markUsed sets a folder's time of change, which says when somebody requested it.
func markUsed(folder string) error {
	now := time.Now()
	return os.Chtimes(folder, now, now)
}

// removeUnused removes the folders of a cache that nobody has requested since a time.
func removeUnused(cache string, since time.Time) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.IsDir() && info.ModTime().Before(since) {
			if err := os.RemoveAll(filepath.Join(cache, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepPartial removes the folders of builds that were killed. The caller holds the lock, so no other build is
// running.
func sweepPartial(cache string) error {
	left, err := filepath.Glob(filepath.Join(cache, "*"+partialSuffix))
	if err != nil {
		return err
	}
	for _, folder := range left {
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	return nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
