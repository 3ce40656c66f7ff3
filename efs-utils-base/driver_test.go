package base

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/berth-csi/berth/lab/aws/ec2"
	"github.com/berth-csi/berth/lab/aws/metadata"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/programs"
)

// checkDriver: the driver starts on the image, configures efs-utils in the node's folder, and runs the watchdog.
func checkDriver(t *testing.T, b *Builder, o Options) {
	const program = "aws-efs-csi-driver-v3.4.1"
	real, err := programs.Given(program)
	require.NoError(t, err)
	if real == "" {
		t.Skipf("our stand-in does not run efs-utils: want %s=DIR, a folder with the program %s", programs.GivenVariable, program)
	}
	folder := t.TempDir()
	copyFile(t, real, filepath.Join(folder, "aws-efs-csi-driver"))
	copyFile(t, filepath.Join("..", "LICENSE"), filepath.Join(folder, "LICENSE"))
	require.NoError(t, b.BuildDriver(t.Context(), "localhost/driver", image, folder, "v3.4.1", o))
	img, err := b.Image(t.Context(), "localhost/driver")
	require.NoError(t, err)
	config, err := img.ConfigFile()
	require.NoError(t, err)
	if config.Architecture != runtime.GOARCH || !slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/aws-efs-csi-driver"}) {
		t.Errorf("the image is for %s and runs %q", config.Architecture, config.Config.Entrypoint)
	}
	c := start(t, createRoot(t, b, "localhost/driver"))
	c.startDriver(t)

	node := filepath.Join(c.root, "var/amazon/efs")
	cluster.Eventually(t, limit, "the watchdog to start", func(context.Context) error {
		if logs := c.logs(); !strings.Contains(logs, "amazon-efs-mount-watchdog, version 3.2.0, is enabled and started") {
			return fmt.Errorf("the watchdog has logged %q; the driver:\n%s", logs, c.read(t, "test/driver.log"))
		}
		return nil
	})
	if to, err := os.Readlink(filepath.Join(c.root, "etc/amazon/efs")); err != nil || to != "/var/amazon/efs" {
		t.Errorf("/etc/amazon/efs leads to %q (%v), want the node's folder", to, err)
	}
	if authorities := c.read(t, "var/amazon/efs/efs-utils.crt"); authorities != c.read(t, "etc/amazon/efs-static-files/efs-utils.crt") {
		t.Errorf("%s has other certificate authorities than the image", node)
	}
	if configuration := c.read(t, "var/amazon/efs/efs-utils.conf"); !strings.Contains(configuration, "fips_mode_enabled = true\n") {
		t.Errorf("the configuration is\n%s\nwant FIPS mode", configuration)
	}
}

// startDriver starts the driver as the operator's DaemonSet does on a node in FIPS mode.
func (c container) startDriver(t *testing.T) {
	t.Helper()
	const address = "127.0.0.1:8080"
	instance := metadata.New(ec2.Instance{ID: "i-0123456789abcdef0", Zone: "eu-central-1a"}, metadata.Place{Partition: "aws", Region: "eu-central-1"})
	service := &http.Server{Handler: instance}
	listener := c.listen(t, address)
	go func() {
		assert.ErrorIs(t, service.Serve(listener), http.ErrServerClosed)
	}()
	t.Cleanup(func() { service.Close() })
	for _, folder := range []string{"csi", "etc/amazon/efs-legacy", "var/amazon/efs"} { // volumes
		require.NoError(t, os.MkdirAll(filepath.Join(c.root, folder), 0o755))
	}
	c.spawn(t, "/bin/sh", "-c", "FIPS_ENABLED=true DISABLE_TAINT_WATCHER=true AWS_EC2_METADATA_SERVICE_ENDPOINT=http://"+address+
		" exec aws-efs-csi-driver --endpoint=unix:/csi/csi.sock --efs-utils-static-files-path=/etc/amazon/efs-static-files >/test/driver.log 2>&1")
}

// read returns the content of a file of the container, or "" if it does not exist.
func (c container) read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(c.root, path))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(content)
}
