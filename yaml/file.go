package yaml

import (
	"fmt"
	"io"
	"os"
)

// maxFile is how long a file may be that is read as a whole, in bytes. OLM takes no bundle above 4 MiB from a catalog.
const maxFile = 32 << 20

// ReadFile reads a file. It fails if that is a device, a pipe or the like, which may never end, or is longer than any
// file that is read as a whole.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := CheckRegular(path, info); err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1)) // it may grow meanwhile
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is longer than %d MiB; expected a shorter file", path, maxFile>>20)
	}
	return data, err
}

// CheckRegular fails if a file is a device, a pipe or the like.
func CheckRegular(path string, info os.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return fmt.Errorf("%s is no regular file (%s); expected files and folders only: remove it", path, info.Mode())
}
