package images

import (
	"context"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/berth-csi/berth/lab/cluster/tools"
)

// Base makes the archive of a base image.
type Base func(context.Context, func(tools.Progress)) (string, error)

// Debian returns the path of an archive with the small Debian of drivers' images.
func Debian(ctx context.Context, report func(tools.Progress)) (string, error) {
	return debian(ctx, report)
}

// BusyBox returns the path of an image with only Debian's static BusyBox.
func BusyBox(ctx context.Context, report func(tools.Progress)) (string, error) {
	return archiveOf(ctx, report, busyBox)
}

// Pack returns the path of an archive of an image as the function Archive does, for an image that tests bring with
// them. Its entrypoint is a program of this machine, at a path in the image; both are "" without an entrypoint.
func Pack(ctx context.Context, report func(tools.Progress), reference string, on Base, program, entrypoint string) (string, error) {
	tag, err := name.NewTag(reference, name.StrictValidation)
	if err != nil {
		return "", err
	}
	base, err := on(ctx, report)
	if err != nil {
		return "", err
	}
	files := []file{{target: "/tmp"}}
	if program != "" {
		files = append(files, file{target: entrypoint, source: program, mode: 0o755})
	}
	return content{entrypoint: entrypoint}.packOnce(ctx, report, tag, base, files)
}
