package openstack_test

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/snapshots"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/openstack"
)

// TestFiles: a share has files as long as it exists, for clients with an access rule. A snapshot keeps the share's
// files, and a share that is created from it begins with them.
func TestFiles(t *testing.T) {
	folder := t.TempDir()
	cloud := openstack.StartWith(t, openstack.Options{ShareTypes: []string{"default"}, Files: folder})
	c := mustConnect(t, cloud.Login())
	// export makes a share and returns its folder.
	export := func(name string, change ...func(*shares.CreateOpts)) (share *shares.Share, files string) {
		t.Helper()
		share = c.newShare(t, name, change...)
		made := cloud.Shares()
		path := made[slices.IndexFunc(made, func(s openstack.Share) bool { return s.ID == share.ID })].ExportPath()
		_, err := cloud.Export(path)
		assert.ErrorIs(t, err, syscall.EACCES, "without an access rule")
		must[*shares.AccessRight](t)(shares.GrantAccess(c.ctx, c.manila, share.ID, shares.GrantAccessOpts{AccessType: "ip", AccessTo: "0.0.0.0/0"}).Extract())
		return share, must[string](t)(cloud.Export(path))
	}
	write := func(folder, content string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "file"), []byte(content), 0o600))
	}
	share, files := export("one")
	write(files, "before")
	snapshot := must[*snapshots.Snapshot](t)(snapshots.Create(c.ctx, c.manila, snapshots.CreateOpts{ShareID: share.ID, Name: "snapshot"}).Extract())
	cloud.ShareSnapshots() // it is taken
	write(files, "after")
	restored, again := export("two", func(o *shares.CreateOpts) { o.SnapshotID = snapshot.ID })
	assert.EqualValues(t, "before", string(must[[]byte](t)(os.ReadFile(filepath.Join(again, "file")))), "the restored share has")
	for _, err := range []error{snapshots.Delete(c.ctx, c.manila, snapshot.ID).ExtractErr(), shares.Delete(c.ctx, c.manila, restored.ID).ExtractErr()} {
		require.NoError(t, err)
	}
	if remaining, left := cloud.Shares(), must[[]os.DirEntry](t)(os.ReadDir(folder)); len(remaining) != 1 || len(left) != 1 || left[0].Name() != share.ID {
		t.Errorf("left %v, want the first share %s", left, share.ID)
	}
	_, err := cloud.Export("/shares/none")
	assert.ErrorIs(t, err, syscall.ENOENT, "an unknown path")
}
