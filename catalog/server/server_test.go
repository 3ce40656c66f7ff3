package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/berth-csi/berth/catalog/server"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/ports"
	"github.com/berth-csi/berth/test/catalogs"
)

// catalogDir holds a small catalog.
const catalogDir = "../testdata/catalog"

// modes are the ways to store a catalog while it is served. The answers are the same in all of them.
var modes = map[string]server.Options{
	"kept":                               {},
	"unchanging, in little memory":       {Unchanging: true, Memory: 50 << 20},
	"where nothing can be written":       {Folders: []string{"/nowhere"}},
	"in the second folder that is named": {Folders: []string{"/nowhere", os.TempDir()}},
}

// servedAs returns Serve with the options of a mode.
func servedAs(mode server.Options) func(context.Context, string, server.Options) error {
	return func(ctx context.Context, dir string, o server.Options) error {
		o.Unchanging, o.Memory, o.Folders = mode.Unchanging, mode.Memory, mode.Folders
		return server.Serve(ctx, dir, o)
	}
}

// TestServeAnswersLikeOpm asks our server and real "opm serve" the same questions about the same catalog, also questions without an
// answer.
func TestServeAnswersLikeOpm(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(catalogDir)))
	catalogs.Write(t, filepath.Join(dir, "tide", "depths.json"), `{"schema": "com.example.depth", "package": "tide", "metres": 12.5}`)
	require.NoError(t, os.CopyFS(filepath.Join(dir, "moon"), os.DirFS("testdata")))
	theirs := dial(t, serveByOpm(t, dir))
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Cleanup(func() { // after the servers have ended
		if left := catalogs.Tree(t, temp); len(left) > 0 {
			t.Errorf("the servers left %v", left)
		}
	})
	for name, mode := range modes {
		ours := dial(t, serveBy(t, servedAs(mode), dir))
		for _, q := range questions {
			t.Run(name+"/"+q.name, func(t *testing.T) {
				got, want := q.ask(t.Context(), ours), q.ask(t.Context(), theirs)
				require.NotEmpty(t, want, "opm gives no answer, nor an error")
				assert.Empty(t, cmp.Diff(want, got), "-opm +ours")
			})
		}
	}
}

// TestServeAnswersLikeOpmOnEveryKind requests everything in catalogs of the kinds that are public.
func TestServeAnswersLikeOpmOnEveryKind(t *testing.T) {
	for _, kind := range catalogs.Kinds {
		t.Run(kind.Name, func(t *testing.T) {
			dir := t.TempDir()
			kind.Packages, kind.Bundles = 4, 30
			require.NoError(t, catalogs.Generate(dir, kind))
			want := everything(t, dial(t, serveByOpm(t, dir)))
			require.GreaterOrEqual(t, len(want), 60, "answers that opm gives")
			for name, mode := range modes {
				assert.Emptyf(t, cmp.Diff(want, everything(t, dial(t, serveBy(t, servedAs(mode), dir)))), "%s: -opm +ours", name)
			}
		})
	}
}

// everything asks a server for all packages and bundles, and for every bundle by itself.
func everything(t *testing.T, conn *grpc.ClientConn) (all []string) {
	t.Helper()
	client := api.NewRegistryClient(conn)
	bundles, err := client.ListBundles(t.Context(), &api.ListBundlesRequest{})
	require.NoError(t, err)
	packages := map[string]bool{}
	for {
		b, err := bundles.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		all = append(all, text(b, nil))
		all = append(all, text(client.GetBundle(t.Context(), &api.GetBundleRequest{PkgName: b.PackageName, ChannelName: b.ChannelName, CsvName: b.CsvName})))
		if !packages[b.PackageName] {
			packages[b.PackageName] = true
			all = append(all, text(client.GetPackage(t.Context(), &api.GetPackageRequest{Name: b.PackageName})))
		}
	}
	sort.Strings(all)
	return all
}

// question is a request, and its answer or error as text.
type question struct {
	name string
	ask  func(context.Context, *grpc.ClientConn) string
}

var questions = []question{
	stream("packages", func(ctx context.Context, c api.RegistryClient) (grpc.ServerStreamingClient[api.PackageName], error) {
		return c.ListPackages(ctx, &api.ListPackageRequest{})
	}),
	stream("bundles", func(ctx context.Context, c api.RegistryClient) (grpc.ServerStreamingClient[api.Bundle], error) {
		return c.ListBundles(ctx, &api.ListBundlesRequest{})
	}),
	single("package", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		return c.GetPackage(ctx, &api.GetPackageRequest{Name: "tide"})
	}),
	single("no such package", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		return c.GetPackage(ctx, &api.GetPackageRequest{Name: "ebb"})
	}),
	single("bundle", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		return c.GetBundle(ctx, &api.GetBundleRequest{PkgName: "tide", ChannelName: "stable", CsvName: "tide.v0.1.0"})
	}),
	single("no such bundle", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		return c.GetBundle(ctx, &api.GetBundleRequest{PkgName: "tide", ChannelName: "preview", CsvName: "tide.v0.1.0"})
	}),
	single("head", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		//lint:ignore SA1019 older clients still ask this
		return c.GetBundleForChannel(ctx, &api.GetBundleInChannelRequest{PkgName: "tide", ChannelName: "stable"})
	}),
	single("replacement", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		return c.GetBundleThatReplaces(ctx, &api.GetReplacementRequest{CsvName: "tide.v0.1.0", PkgName: "tide", ChannelName: "stable"})
	}),
	stream("replacements", func(ctx context.Context, c api.RegistryClient) (grpc.ServerStreamingClient[api.ChannelEntry], error) {
		return c.GetChannelEntriesThatReplace(ctx, &api.GetAllReplacementsRequest{CsvName: "tide.v0.1.0"})
	}),
	stream("providers", func(ctx context.Context, c api.RegistryClient) (grpc.ServerStreamingClient[api.ChannelEntry], error) {
		return c.GetChannelEntriesThatProvide(ctx, &api.GetAllProvidersRequest{Group: "sea.example.com", Version: "v1", Kind: "Tide"})
	}),
	stream("latest providers", func(ctx context.Context, c api.RegistryClient) (grpc.ServerStreamingClient[api.ChannelEntry], error) {
		return c.GetLatestChannelEntriesThatProvide(ctx, &api.GetLatestProvidersRequest{Group: "sea.example.com", Version: "v1", Kind: "Tide"})
	}),
	single("package with deprecations", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		return c.GetPackage(ctx, &api.GetPackageRequest{Name: "moon"})
	}),
	single("inline bundle", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		return c.GetBundle(ctx, &api.GetBundleRequest{PkgName: "moon", ChannelName: "full", CsvName: "moon.v1.2.0"})
	}),
	single("described bundle", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		return c.GetBundle(ctx, &api.GetBundleRequest{PkgName: "moon", ChannelName: "full", CsvName: "moon.v1.1.0"})
	}),
	single("deprecated bundle", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		return c.GetBundle(ctx, &api.GetBundleRequest{PkgName: "moon", ChannelName: "new", CsvName: "moon.v1.0.0"})
	}),
	single("no such channel", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		return c.GetBundle(ctx, &api.GetBundleRequest{PkgName: "moon", ChannelName: "half", CsvName: "moon.v1.0.0"})
	}),
	single("no such replacement", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		return c.GetBundleThatReplaces(ctx, &api.GetReplacementRequest{CsvName: "moon.v7.0.0", PkgName: "moon", ChannelName: "full"})
	}),
	stream("replacements by skips", func(ctx context.Context, c api.RegistryClient) (grpc.ServerStreamingClient[api.ChannelEntry], error) {
		return c.GetChannelEntriesThatReplace(ctx, &api.GetAllReplacementsRequest{CsvName: "moon.v1.0.0"})
	}),
	stream("no replacements", func(ctx context.Context, c api.RegistryClient) (grpc.ServerStreamingClient[api.ChannelEntry], error) {
		return c.GetChannelEntriesThatReplace(ctx, &api.GetAllReplacementsRequest{CsvName: "moon.v7.0.0"})
	}),
	stream("providers with skips", func(ctx context.Context, c api.RegistryClient) (grpc.ServerStreamingClient[api.ChannelEntry], error) {
		return c.GetChannelEntriesThatProvide(ctx, &api.GetAllProvidersRequest{Group: "sky.example.com", Version: "v1", Kind: "Moon"})
	}),
	stream("latest providers with skips", func(ctx context.Context, c api.RegistryClient) (grpc.ServerStreamingClient[api.ChannelEntry], error) {
		return c.GetLatestChannelEntriesThatProvide(ctx, &api.GetLatestProvidersRequest{Group: "sky.example.com", Version: "v1", Kind: "Moon"})
	}),
	single("no such provider", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		return c.GetDefaultBundleThatProvides(ctx, &api.GetDefaultProviderRequest{Group: "sky.example.com", Version: "v2", Kind: "Moon"})
	}),
	single("default provider", func(ctx context.Context, c api.RegistryClient) (proto.Message, error) {
		return c.GetDefaultBundleThatProvides(ctx, &api.GetDefaultProviderRequest{Group: "sea.example.com", Version: "v1", Kind: "Tide"})
	}),
	{"other schemas", func(ctx context.Context, c *grpc.ClientConn) string {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-acknowledge-experimental", "true")
		return collect(api.NewExperimentalRegistryClient(c).ExperimentalListPackageCustomSchemas(ctx,
			&api.ExperimentalListPackageCustomSchemasRequest{Schema: "com.example.depth", PackageName: "tide"}))
	}},
	{"other schema by a wrong name", func(ctx context.Context, c *grpc.ClientConn) string {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-acknowledge-experimental", "true")
		answer := collect(api.NewExperimentalRegistryClient(c).ExperimentalListPackageCustomSchemas(ctx,
			&api.ExperimentalListPackageCustomSchemasRequest{Schema: "com/example"}))
		code, _, _ := strings.Cut(answer, "desc =") // the words are ours
		return code
	}},
	{"health", func(ctx context.Context, c *grpc.ClientConn) string {
		return text(grpc_health_v1.NewHealthClient(c).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "Registry"}))
	}},
	{"reflection", func(ctx context.Context, c *grpc.ClientConn) string {
		s, err := grpc_reflection_v1.NewServerReflectionClient(c).ServerReflectionInfo(ctx)
		if err != nil {
			return err.Error()
		}
		if err := s.Send(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}); err != nil {
			return err.Error()
		}
		answer := text(s.Recv())
		return errors.Join(s.CloseSend(), errors.New(answer)).Error()
	}},
}

func single(name string, ask func(context.Context, api.RegistryClient) (proto.Message, error)) question {
	return question{name, func(ctx context.Context, c *grpc.ClientConn) string { return text(ask(ctx, api.NewRegistryClient(c))) }}
}

func stream[T any](name string, ask func(context.Context, api.RegistryClient) (grpc.ServerStreamingClient[T], error)) question {
	return question{name, func(ctx context.Context, c *grpc.ClientConn) string {
		return collect(ask(ctx, api.NewRegistryClient(c)))
	}}
}

// collect reads a stream to its end, and sorts the messages: the servers promise no order.
func collect[T any](s grpc.ServerStreamingClient[T], err error) string {
	var all []string
	for err == nil {
		var answer *T
		if answer, err = s.Recv(); err == nil {
			all = append(all, text(any(answer).(proto.Message), nil))
		}
	}
	if !errors.Is(err, io.EOF) {
		all = append(all, "error: "+err.Error())
	}
	sort.Strings(all)
	return strings.Join(all, "\n")
}

func text[M proto.Message](answer M, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%T %s", answer, compact(protojson.Format(answer)))
}

// compact removes the random spaces that protojson adds so that nobody relies on its exact output.
func compact(text string) string { return strings.Join(strings.Fields(text), " ") }

// serveBy serves a catalog for the time of a test.
func serveBy(t *testing.T, serve func(context.Context, string, server.Options) error, dir string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan net.Addr, 1)
	done := make(chan error, 1)
	go func() {
		done <- serve(ctx, dir, server.Options{Address: "127.0.0.1:0", Report: listening(ready)})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			assert.NoError(t, err, "server ended with")
		case <-time.After(30 * time.Second):
			t.Error("server did not end")
		}
	})
	select {
	case address := <-ready:
		return address.String()
	case err := <-done:
		done <- err
		t.Fatalf("server ended: %v", err)
	}
	return ""
}

// listening reports the address that clients can connect to.
func listening(ready chan<- net.Addr) func(server.Event) {
	return func(e server.Event) {
		if e.Listening {
			ready <- e.Address
		}
	}
}

// serveByOpm runs real "opm serve" until the test ends. opm does not report its port, so it
// takes one that was free a moment ago.
func serveByOpm(t *testing.T, dir string) string {
	t.Helper()
	address := ports.Address(t)
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(catalogs.OPM(t), "serve", dir, "-p", port, "--pprof-addr", "", "-t", filepath.Join(t.TempDir(), "log"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	require.NoError(t, cmd.Start())
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
		if t.Failed() {
			t.Logf("opm serve: %s", stderr.String())
		}
	})
	return address
}

// dial connects to a server, and waits for it to come up.
func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	require.NoErrorf(t, err, "server on %s", address)
	return conn
}

// TestServeStops ends a server while a client holds a stream open that does not end by itself.
func TestServeStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan net.Addr, 1)
	done := make(chan error, 1)
	go func() {
		done <- server.Serve(ctx, catalogDir, server.Options{Address: "127.0.0.1:0", Report: listening(ready)})
	}()
	conn := dial(t, (<-ready).String())
	held, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(context.Background())
	require.NoError(t, err)
	require.NoError(t, held.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}))
	_, err = held.Recv()
	require.NoError(t, err)
	cancel()
	select {
	case err := <-done:
		assert.NoError(t, err, "server ended with")
	case <-time.After(30 * time.Second):
		t.Error("server waits for the stream to end")
	}
	_, err = held.Recv()
	assert.Error(t, err, "the stream has not ended")
}

func TestServeFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	empty := t.TempDir()
	broken := t.TempDir()
	catalogs.Write(t, filepath.Join(broken, "tide", "catalog.yaml"), "schema: olm.package\nname: tide\n---\nschema: olm.channel\n name: stable\n")
	onlyOthers := t.TempDir()
	catalogs.Write(t, filepath.Join(onlyOthers, "notes.yaml"), "schema: com.example.note\n")
	for _, tc := range []struct {
		name, dir, address, want string
	}{
		{"port in use", catalogDir, taken.Addr().String(),
			"address " + taken.Addr().String() + " is in use by another process; stop that one, or choose another address, such as 127.0.0.1:0"},
		{"no address", catalogDir, "50051", `cannot listen on "50051"; expected a host and port of this machine, such as 127.0.0.1:50051`},
		{"no such folder", filepath.Join(empty, "none"), taken.Addr().String(), "none: no such file or directory"},
		{"empty folder", empty, taken.Addr().String(), "catalog folder " + empty + " holds no package; expected"},
		{"no packages", onlyOthers, taken.Addr().String(), "catalog folder " + onlyOthers + " holds no package"},
		{"malformed", broken, taken.Addr().String(), filepath.Join(broken, "tide", "catalog.yaml") + ":5:2: malformed YAML"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			err := server.Serve(t.Context(), tc.dir, server.Options{Address: tc.address, Report: func(e server.Event) { t.Errorf("it reports %+v", e) }})
			assert.ErrorContains(t, err, tc.want, "got error")
			if left := catalogs.Tree(t, temp); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

// TestServeStopsAtOnce ends a server before it takes its first connection.
func TestServeStopsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := server.Serve(ctx, catalogDir, server.Options{Address: "127.0.0.1:0", Report: func(server.Event) {
		cancel()
		for range 1000 {
			runtime.Gosched() // to the goroutine that stops the server
		}
	}})
	assert.NoError(t, err)
}

// TestUnchangingCatalogChanges: if a supposedly unchanging catalog changes, requests for documents that were not requested before
// fail until it has been read again. Wrong documents are never sent.
func TestUnchangingCatalogChanges(t *testing.T) {
	dir := t.TempDir()
	kind := catalogs.Metadata
	kind.Packages, kind.Bundles = 1, 3
	require.NoError(t, catalogs.Generate(dir, kind))
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	mode := servedAs(modes["unchanging, in little memory"])
	before := everything(t, dial(t, serveBy(t, mode, dir)))
	conn := dial(t, serveBy(t, mode, dir))
	content, err := os.ReadFile(files[0])
	require.NoError(t, err)
	if err := os.WriteFile(files[0], append([]byte("\n\n"), content...), 0o600); err != nil { // all documents move
		t.Fatal(err)
	}
	refused := 0
	cluster.Eventually(t, longest, "the catalog to be read again", func(context.Context) error {
		now := everything(t, conn)
		if diff := cmp.Diff(before, now); diff != "" {
			if refused++; !strings.Contains(diff, "has changed, and is being read again") {
				t.Errorf("it sends something else:\n%s", diff)
			}
			return errors.New("not yet")
		}
		if refused == 0 {
			return errors.New("it does not know that the catalog has changed")
		}
		return nil
	})
}
