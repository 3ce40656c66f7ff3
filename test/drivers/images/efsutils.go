package images

import (
	"fmt"
	"path"
	"path/filepath"

	"github.com/berth-csi/berth/lab/programs"
)

// efsUtilsFiles maps patterns of paths in the source of efs-utils to the folder in an image, or to the file if it has
// another name. The paths come from efs-utils' own package. Its files in /etc/amazon/efs are in another folder of the
// driver's images, from which the driver copies them.
//
// efs-proxy is missing: it is written in Rust, and its dependencies are not served. Images have a stand-in.
var efsUtilsFiles = []struct {
	pattern, folder, file string
	mode                  int64
}{
	{pattern: "src/mount_efs/__init__.py", file: "/usr/sbin/mount.efs", mode: 0o755},
	{pattern: "src/watchdog/__init__.py", file: "/usr/bin/amazon-efs-mount-watchdog", mode: 0o755},
	{pattern: "src/efs_utils_common/*.py", folder: "/usr/sbin/efs_utils_common", mode: 0o644},
	{pattern: "src/mount_efs/*.py", folder: "/usr/sbin/mount_efs", mode: 0o644},
	{pattern: "src/mount_s3files/*.py", folder: "/usr/sbin/mount_s3files", mode: 0o644},
	{pattern: "dist/efs-utils.conf", folder: efsStaticFiles, mode: 0o644},
	{pattern: "dist/s3files-utils.conf", folder: efsStaticFiles, mode: 0o644},
	{pattern: "dist/efs-utils.crt", folder: efsStaticFiles, mode: 0o444},
}

const efsStaticFiles = "/etc/amazon/efs-static-files"

// efsUtils returns the files of efs-utils, which mounts EFS file systems for the real driver, from the source that the user names.
func efsUtils() ([]file, error) {
	source, err := programs.Folder(programs.EFSUtilsVariable)
	if err != nil {
		return nil, err
	}
	if source == "" {
		return nil, fmt.Errorf("the real EFS driver mounts with efs-utils: %s", programs.WantEFSUtils)
	}
	files := []file{{target: "/var/log/amazon/efs"}}
	for _, f := range efsUtilsFiles {
		found, err := filepath.Glob(filepath.Join(source, f.pattern))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s=%s has no %s; %s", programs.EFSUtilsVariable, source, f.pattern, programs.WantEFSUtils)
		}
		for _, here := range found {
			target := f.file
			if target == "" {
				target = path.Join(f.folder, filepath.Base(here))
			}
			files = append(files, file{target: target, source: here, mode: f.mode})
		}
	}
	return files, nil
}
