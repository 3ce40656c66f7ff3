package boundedyaml

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxFile is the maximum size of a file that is read into memory, in bytes. OLM accepts no bundle above 4 MiB from a
// catalog.
const maxFile = 32 << 20

// ReadFile reads a file. It fails for devices, pipes and the like, which may never end, and for files above the
// limit.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(path, info); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Read(path, file)
}

// ReadFileIn reads a file by its path in a folder, like ReadFile. It fails if a symbolic link leads out of the folder: otherwise the author
// of the folder could get any local file into a report or an image.
func ReadFileIn(dir, path string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if _, err := StatIn(root, path); err != nil {
		return nil, err
	}
	file, err := root.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return Read(filepath.Join(dir, path), file)
}

// StatIn returns the file at a path in a folder. It fails if the file is outside of the folder or not a regular file.
func StatIn(root *os.Root, path string) (os.FileInfo, error) {
	shown := filepath.Join(root.Name(), path)
	info, err := root.Stat(path)
	if err != nil {
		if target, isLink := root.Readlink(path); isLink == nil {
			return nil, fmt.Errorf("%s is a symbolic link to %s, which is missing or outside of %s; expected files and folders only: put the file there itself",
				shown, target, root.Name())
		}
		return nil, err
	}
	return info, checkRegular(shown, info)
}

// Read reads a stream such as standard input, up to the limit of files. path names it in errors.
func Read(path string, from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxFile+1)) // a file may grow while it is read
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is longer than %d MiB; expected a shorter file", path, maxFile>>20)
	}
	return data, err
}

// checkRegular fails for devices, pipes and the like.
func checkRegular(path string, info os.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return fmt.Errorf("%s is a folder; expected a file", path)
	}
	return fmt.Errorf("%s is not a regular file (%s); expected files and folders only: remove it", path, info.Mode())
}
