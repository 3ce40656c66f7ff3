package efs

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const point = "fsap-0123456789abcdef0"

// TestHandles: the volume handles that each version accepts and refuses.
func TestHandles(t *testing.T) {
	for id, want := range map[string]struct{ v2, v3 any }{ // a handle, or a part of the error
		"fs-01234567":                        {handle{typeEFS, "fs-01234567", "", ""}, handle{typeEFS, "fs-01234567", "", ""}},
		"fs-01234567:":                       {handle{typeEFS, "fs-01234567", "", ""}, handle{typeEFS, "fs-01234567", "", ""}},
		"fs-01234567:/a/../b/":               {handle{typeEFS, "fs-01234567", "/b", ""}, handle{typeEFS, "fs-01234567", "/b", ""}},
		"fs-01234567::" + point:              {handle{typeEFS, "fs-01234567", "", point}, handle{typeEFS, "fs-01234567", "", point}},
		"fs-01234567:a:" + point:             {handle{typeEFS, "fs-01234567", "a", point}, handle{typeEFS, "fs-01234567", "a", point}},
		"efs:fs-01234567::" + point:          {"Expected a file system ID", handle{typeEFS, "fs-01234567", "", point}},
		"efs:fs-01234567":                    {"Expected a file system ID", handle{typeEFS, "fs-01234567", "", ""}},
		"s3files:fs-01234567":                {"Expected a file system ID", handle{typeS3Files, "fs-01234567", "", ""}},
		"EFS:fs-01234567":                    {"Expected a file system ID", "Expected a file system ID"},
		"efs":                                {"Expected a file system ID", "Missing file system ID"},
		"fs-xyz":                             {handle{typeEFS, "fs-xyz", "", ""}, "Expected a file system ID of the form 'fs-[0-9a-f]{8,40}'"},
		"fs-01234567::fsap-xyz":              {handle{typeEFS, "fs-01234567", "", "fsap-xyz"}, "invalid access point ID 'fsap-xyz'"},
		"fs-01234567::ap-01234567":           {"invalid access point ID", "invalid access point ID"},
		"fs-01234567:/a:" + point + ":b":     {"at most three fields", "at most three fields"},
		"efs:fs-01234567:/a:" + point + ":b": {"Expected a file system ID", "at most four fields"},
		"":                                   {"Expected a file system ID", "Expected a file system ID"},
		"%s":                                 {"volume ID '%s' is invalid", "volume ID '%s' is invalid"},
	} {
		for version, want := range map[*Version]any{&V2: want.v2, &V3: want.v3} {
			got, err := version.parseHandle(id)
			if part, refused := want.(string); refused {
				// csi-sanity's volumes "do not exist" because the handle is wrong.
				if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %q is %+v, %v; want an error with %q", version.Number, id, got, err, part)
				}
			} else if err != nil || got != want {
				t.Errorf("%s: %q is %+v, %v; want %+v", version.Number, id, got, err, want)
			}
		}
	}
}

// TestTags: the syntax of --tags. Only version 3 supports spaces and colons.
func TestTags(t *testing.T) {
	for text, want := range map[string]struct{ v2, v3 map[string]string }{
		"":                    {map[string]string{}, map[string]string{}},
		"team:harbour a:b":    {map[string]string{"team": "harbour", "a": "b"}, map[string]string{"team": "harbour", "a": "b"}},
		"team":                {nil, map[string]string{"team": ""}},
		`path:a\:b`:           {map[string]string{"path": `a\`}, map[string]string{"path": "a:b"}},
		`name:big\ ship a:\\`: {nil, map[string]string{"name": "big ship", "a": `\`}},
		"a:b:c d:e":           {map[string]string{"a": "b", "d": "e"}, map[string]string{"d": "e"}},
	} {
		assert.Emptyf(t, cmp.Diff(want.v2, parseTags(text, V2.escapes)), "version 2, %q (-want +got)", text)
		assert.Emptyf(t, cmp.Diff(want.v3, parseTags(text, V3.escapes)), "version 3, %q (-want +got)", text)
	}
}

// TestSources: the mount source of a volume, by its attributes and mount options.
func TestSources(t *testing.T) {
	const id = "fs-01234567::" + point
	for name, test := range map[string]struct {
		version    Version
		id         string
		attributes map[string]string
		flags      []string
		readonly   bool
		want       string // the options after the path
		refuse     string
	}{
		"access point":            {version: V2, id: id, want: "/ accesspoint=" + point + ",tls"},
		"of a provisioner":        {version: V2, id: id, attributes: map[string]string{"storage.kubernetes.io/csiProvisionerIdentity": "x"}, want: "/ accesspoint=" + point + ",tls"},
		"directory":               {version: V2, id: "fs-01234567:/a", want: "/a tls"},
		"read-only":               {version: V2, id: "fs-01234567", readonly: true, want: "/ tls,ro"},
		"not encrypted":           {version: V2, id: "fs-01234567", attributes: map[string]string{"encryptInTransit": "false"}, want: "/ "},
		"an access point always":  {version: V3, id: id, attributes: map[string]string{"encryptInTransit": "false"}, want: "/ accesspoint=" + point + ",tls"},
		"no boolean":              {version: V2, id: id, attributes: map[string]string{"encryptInTransit": "no way"}, refuse: "must be a boolean value"},
		"path":                    {version: V2, id: "fs-01234567", attributes: map[string]string{"path": "/b"}, want: "/b tls"},
		"path, relative":          {version: V2, id: "fs-01234567", attributes: map[string]string{"path": "b"}, refuse: "must be an absolute path"},
		"path, later":             {version: V3, id: "fs-01234567", attributes: map[string]string{"path": "/b"}, refuse: "Volume context property path not supported."},
		"attribute":               {version: V3, id: id, attributes: map[string]string{"color": "red"}, refuse: "Volume context property color not supported."},
		"address":                 {version: V3, id: id, attributes: map[string]string{"mounttargetip": "10.0.0.1"}, want: "/ mounttargetip=10.0.0.1,accesspoint=" + point + ",tls"},
		"no address":              {version: V3, id: id, attributes: map[string]string{"mounttargetip": "10.0.0.1,ro"}, refuse: "is not a valid IP address"},
		"addresses":               {version: V3, id: id, attributes: map[string]string{"mounttargetipmap": `{"a":"10.0.0.1","b":"10.0.0.2"}`}, want: "/ mounttargetip=10.0.0.2,accesspoint=" + point + ",tls"},
		"addresses, earlier":      {version: V2, id: id, attributes: map[string]string{"mounttargetipmap": `{}`}, refuse: "not supported"},
		"another account":         {version: V2, id: id, attributes: map[string]string{"crossaccount": "true"}, want: "/ accesspoint=" + point + ",tls,crossaccount"},
		"options":                 {version: V2, id: id, flags: []string{"tls", "iam", "noAtime", "awscredsuri=/x"}, want: "/ accesspoint=" + point + ",tls,iam,noatime"},
		"access point, as before": {version: V2, id: "fs-01234567", flags: []string{"accesspoint=" + point}, want: "/ tls,accesspoint=" + point},
		"another access point":    {version: V2, id: id, flags: []string{"accesspoint=fsap-00000000000000000"}, refuse: "Found conflicting access point IDs"},
		"tls, not encrypted":      {version: V2, id: "fs-01234567", attributes: map[string]string{"encryptInTransit": "false"}, flags: []string{"tls"}, refuse: "Found tls in mountOptions"},
		"S3 Files":                {version: V3, id: "s3files:fs-01234567", refuse: "S3 Files"},
		"no handle":               {version: V2, id: "vol-1", refuse: "volume ID 'vol-1' is invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			request := &csi.NodePublishVolumeRequest{VolumeId: test.id, VolumeContext: test.attributes, Readonly: test.readonly, VolumeCapability: &csi.VolumeCapability{
				AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: test.flags}}}}
			got, err := test.version.sourceOf(request, "b")
			if test.refuse != "" {
				if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), test.refuse) {
					t.Errorf("got %+v, %v; want %q", got, err, test.refuse)
				}
				return
			}
			if mounted := got.path + " " + strings.Join(got.options, ","); err != nil || mounted != test.want || got.fileSystem != "fs-01234567" {
				t.Errorf("got %s of %s, %v; want %s", mounted, got.fileSystem, err, test.want)
			}
		})
	}
}
