package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/connectivity"

	"github.com/berth-csi/berth/catalog/server"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/test/catalogs"
)

// TestServeFollowsChanges changes a catalog while it is served, to a valid one, to an invalid one and back, over one
// connection. A stream that began before the first change is answered completely from the old catalog.
func TestServeFollowsChanges(t *testing.T) {
	dir := t.TempDir()
	const many = 3000 // more than connections buffer
	write := func(versions int) { catalogs.WriteConfig(t, dir, tide(versions)) }
	write(many)
	events := make(chan server.Event, 10)
	address, metrics := serveWithEvents(t, dir, events)
	conn := dial(t, address)
	client := api.NewRegistryClient(conn)
	conn.Connect()
	cluster.Eventually(t, 30*time.Second, "the connection", func(context.Context) error {
		if state := conn.GetState(); state != connectivity.Ready {
			return fmt.Errorf("it is %v", state)
		}
		return nil
	})
	held, err := client.ListBundles(t.Context(), &api.ListBundlesRequest{})
	require.NoError(t, err)
	_, err = held.Recv()
	require.NoError(t, err)

	write(2)
	if e := next(t, events); e.Err != nil || len(e.Catalog.Packages[0].Bundles) != 2 || e.Size == 0 {
		t.Errorf("after the first change it reports %+v", e)
	}
	expectHead(t, client, "tide.v2.0.0")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tide", "catalog.json"), []byte("{"), 0o644))
	if e := next(t, events); e.Err == nil || !strings.Contains(e.Err.Error(), "malformed JSON") {
		t.Errorf("after the second change it reports %+v", e)
	}
	expectHead(t, client, "tide.v2.0.0")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "tide")))
	if e := next(t, events); e.Err == nil || !strings.Contains(e.Err.Error(), "holds no package") {
		t.Errorf("after the third change it reports %+v", e)
	}
	write(3)
	if e := next(t, events); e.Err != nil {
		t.Errorf("after the last change it reports %+v", e)
	}
	expectHead(t, client, "tide.v3.0.0")

	count := 1
	for ; ; count++ {
		if _, err := held.Recv(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	assert.Equal(t, many, count, "bundles of the stream")
	if state := conn.GetState(); state != connectivity.Ready {
		t.Errorf("the connection is %v", state)
	}
	page := get(t, "http://"+metrics+"/metrics")
	for _, want := range []string{"berth_catalog_packages 1\n", "berth_catalog_bundles 3\n", "berth_catalog_cache_bytes ",
		`berth_catalog_loads_total{outcome="invalid"} 2`, `berth_catalog_loads_total{outcome="served"} 3`, "berth_catalog_loaded_timestamp_seconds ",
		`grpc_server_handled_total{grpc_code="OK",grpc_method="GetPackage",grpc_service="api.Registry",grpc_type="unary"} 3`} {
		assert.Contains(t, page, want, "the metrics")
	}
	if got := get(t, "http://"+metrics+"/healthz"); got != "ok\n" {
		t.Errorf("health is %q", got)
	}
}

// tide is a catalog with a number of versions of a package in one chain.
func tide(versions int) declcfg.DeclarativeConfig {
	channel := declcfg.Channel{Schema: declcfg.SchemaChannel, Package: "tide", Name: "stable"}
	config := declcfg.DeclarativeConfig{Packages: []declcfg.Package{{Schema: declcfg.SchemaPackage, Name: "tide", DefaultChannel: "stable"}}}
	before := ""
	for i := range versions {
		name := fmt.Sprintf("tide.v%d.0.0", i+1)
		channel.Entries = append(channel.Entries, declcfg.ChannelEntry{Name: name, Replaces: before})
		config.Bundles = append(config.Bundles, catalogs.Bundle("tide", name))
		before = name
	}
	config.Channels = append(config.Channels, channel)
	return config
}

// serveWithEvents serves a catalog until the test ends, and returns the addresses for gRPC and for metrics.
func serveWithEvents(t *testing.T, dir string, events chan<- server.Event) (address, metrics string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan server.Event, 1)
	done := make(chan error, 1)
	go func() {
		done <- server.Serve(ctx, dir, server.Options{Address: "127.0.0.1:0", MetricsAddress: "127.0.0.1:0", Report: func(e server.Event) {
			if e.Listening {
				ready <- e
				return
			}
			events <- e
		}})
	}()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-done, "server ended with")
	})
	select {
	case e := <-ready:
		return e.Address.String(), e.MetricsAddress.String()
	case err := <-done:
		done <- err
		t.Fatalf("server ended: %v", err)
	}
	return "", ""
}

func next(t *testing.T, events <-chan server.Event) server.Event {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not notice")
	}
	return server.Event{}
}

func expectHead(t *testing.T, client api.RegistryClient, want string) {
	t.Helper()
	p, err := client.GetPackage(t.Context(), &api.GetPackageRequest{Name: "tide"})
	require.NoError(t, err)
	if got := p.Channels[0].CsvName; got != want {
		t.Errorf("the head is %s, want %s", got, want)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equalf(t, http.StatusOK, response.StatusCode, "%s: %s", url, response.Status)
	return string(body)
}

// TestServeNeedsTheMetricsPort checks that nothing is listening anymore after Serve failed to serve metrics.
func TestServeNeedsTheMetricsPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	err = server.Serve(t.Context(), catalogDir, server.Options{Address: "127.0.0.1:0", MetricsAddress: taken.Addr().String()})
	assert.ErrorContains(t, err, taken.Addr().String()+" is in use")
}
