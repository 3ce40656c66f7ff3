package folders

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// copyFolder copies a folder to one that does not exist yet: files, folders and symbolic links, with their owners and
// modes. Pods may change the source meanwhile: nothing that they put there makes it read outside of the source.
func copyFolder(source, target string) error {
	from, err := os.OpenRoot(source)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.Mkdir(target, 0o700); err != nil {
		return err
	}
	to, err := os.OpenRoot(target)
	if err != nil {
		return err
	}
	defer to.Close()
	return fs.WalkDir(from.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name != "." {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		return copyEntry(from, to, name)
	})
}

// copyEntry copies a file, a symbolic link, or a folder without its content. Sockets, pipes and devices are left out.
func copyEntry(from, to *os.Root, name string) error {
	info, err := from.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		link, err := from.Readlink(name)
		if err != nil {
			return err
		}
		return errors.Join(to.Symlink(link, name), to.Lchown(name, int(owner.Uid), int(owner.Gid)))
	case info.IsDir() && name == ".":
	case info.IsDir():
		if err := to.Mkdir(name, 0o700); err != nil {
			return err
		}
	case info.Mode().IsRegular():
		if err := copyFile(from, to, name); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	default:
		return nil
	}
	// A change of the owner resets mode bits, so the mode comes last.
	return errors.Join(to.Lchown(name, int(owner.Uid), int(owner.Gid)), to.Chmod(name, info.Mode()))
}

func copyFile(from, to *os.Root, name string) error {
	in, err := from.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
