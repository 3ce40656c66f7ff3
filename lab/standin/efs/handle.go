package efs

import (
	"path"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The types of file systems.
const (
	typeEFS     = "efs"
	typeS3Files = "s3files"
)

// handle is a volume handle.
type handle struct {
	kind, fileSystem, path, accessPoint string
}

var hexadecimal = regexp.MustCompile(`^[0-9a-f]{8,40}$`)

// parseHandle parses a volume handle: "fs-0123", "fs-0123:path" or "fs-0123:path:fsap-4567", and with types also one with the type in
// front. Empty fields count as absent.
func (v Version) parseHandle(id string) (handle, error) {
	h, fields, most, form := handle{kind: typeEFS}, strings.Split(id, ":"), "three", "..."
	if v.types {
		form = "[0-9a-f]{8,40}"
		if kind := fields[0]; kind == typeEFS || kind == typeS3Files {
			h.kind, fields, most = kind, fields[1:], "four"
		}
	}
	invalid := func(format string, a ...any) (handle, error) {
		return handle{}, status.Errorf(codes.InvalidArgument, "volume ID '"+strings.ReplaceAll(id, "%", "%%")+"' "+format, a...)
	}
	switch {
	case len(fields) == 0:
		return invalid("is invalid: Missing file system ID")
	case !v.isID(fields[0], "fs-"):
		return invalid("is invalid: Expected a file system ID of the form 'fs-%s'", form)
	case len(fields) > 3:
		return invalid("is invalid: Expected at most %s fields separated by ':'", most)
	}
	h.fileSystem = fields[0]
	if len(fields) > 1 && fields[1] != "" {
		h.path = path.Clean(fields[1])
	}
	if len(fields) > 2 && fields[2] != "" {
		if h.accessPoint = fields[2]; !v.isID(h.accessPoint, "fsap-") {
			return invalid("has an invalid access point ID '%s': Expected it to be of the form 'fsap-%s'", h.accessPoint, form)
		}
	}
	return h, nil
}

// isID reports whether the version accepts an ID that has to have a prefix.
func (v Version) isID(id, prefix string) bool {
	rest, has := strings.CutPrefix(id, prefix)
	return has && (!v.types || hexadecimal.MatchString(rest))
}

// handleOf returns the volume handle of an access point.
func (v Version) handleOf(p accessPoint) string {
	id := p.fileSystem + "::" + p.id
	if v.types {
		id = typeEFS + ":" + id
	}
	return id
}
