package catalogs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/berth-csi/berth/catalog/fbc/document"
	"github.com/berth-csi/berth/catalog/fbc/rawyaml"
	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/findings"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/lab/memory"
	"github.com/berth-csi/berth/lab/ports"
	"github.com/berth-csi/berth/lab/registry"
	"github.com/berth-csi/berth/test/catalogs"
)

// rounds is how often each program runs, alternating with its peer. The best run of each counts.
const rounds = 3

// The benchmarks compare with real opm in the same run. x-faster is opm's time divided by ours, rss-of-opm our peak
// memory divided by opm's, and grown-of-opm the same after subtracting each program's memory for printing its version,
// which is mapped parts of the program. Peak memory says more about the page cache than about a program; MiB-anonymous
// is without mapped files. cache-of-catalog is the disk space to serve a catalog divided by the catalog's size.

func BenchmarkValidate(b *testing.B) { compareCommands(b, "validate") }

func BenchmarkRender(b *testing.B) { compareCommands(b, "render") }

func compareCommands(b *testing.B, command string) {
	p := build(b)
	idle, theirIdle := p.measure(b, p.berth, "version", "-o", "json"), p.measure(b, p.opm, "version") // not as it answers before it is initialized
	for _, kind := range catalogs.Kinds {
		b.Run(kind.Name, func(b *testing.B) {
			dir := generate(b, kind)
			for b.Loop() {
				ours, theirs := best(), best()
				for range rounds {
					ours.improve(p.measure(b, p.berth, "catalog", command, dir))
					theirs.improve(p.measure(b, p.opm, command, dir))
				}
				b.ReportMetric(theirs.Wall/ours.Wall, "x-faster")
				b.ReportMetric(theirs.CPU/ours.CPU, "x-less-cpu")
				b.ReportMetric(float64(ours.PeakRSS)/float64(theirs.PeakRSS), "rss-of-opm")
				b.ReportMetric(float64(ours.PeakRSS-idle.PeakRSS)/float64(theirs.PeakRSS-theirIdle.PeakRSS), "grown-of-opm")
				b.ReportMetric(float64(ours.PeakRSS)/(1<<20), "MiB-rss")
				b.ReportMetric(float64(ours.PeakAnonymous)/(1<<20), "MiB-anonymous")
				b.ReportMetric(float64(ours.PeakAnonymous)/float64(theirs.PeakAnonymous), "anonymous-of-opm")
				b.ReportMetric(ours.Wall, "s")
				b.ReportMetric(0, "ns/op") // it would be of both programs together
			}
		})
	}
}

// BenchmarkVersion measures the start of a program: berth, which answers before it is initialized, and the one of the base image of catalogs.
func BenchmarkVersion(b *testing.B) {
	p := build(b)
	for name, program := range map[string]string{"berth": p.berth, "opm of berth": p.face, "opm": p.opm} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				took := best()
				for range 3 * rounds {
					took.improve(p.measure(b, program, "version"))
				}
				b.ReportMetric(took.Wall, "s")
				b.ReportMetric(float64(took.PeakRSS)/(1<<20), "MiB-rss")
				b.ReportMetric(float64(took.PeakAnonymous)/(1<<20), "MiB-anonymous")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// BenchmarkTemplate builds the catalog of a template of opm. anonymous-of-opm is our peak anonymous memory divided by opm's, and
// x-faster-again is with the images in the cache. A registry on loopback answers at once; the one that is remote takes as long as one
// in the same region of a cloud.
func BenchmarkTemplate(b *testing.B) {
	p := build(b)
	for _, kind := range catalogs.TemplateKinds {
		for name, delay := range map[string]time.Duration{"loopback": 0, "remote": 20 * time.Millisecond} {
			b.Run(kind.Name+"/"+name, func(b *testing.B) { p.compareTemplates(b, kind, delay) })
		}
	}
}

func (p programs) compareTemplates(b *testing.B, kind catalogs.TemplateKind, delay time.Duration) {
	var slow atomic.Bool
	address := registry.Start(b, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if slow.Load() {
				time.Sleep(delay)
			}
			next.ServeHTTP(w, r)
		})
	})
	file := catalogs.GenerateTemplate(b, address, kind)
	slow.Store(true)
	home := b.TempDir()
	catalogs.Write(b, filepath.Join(home, ".config", "containers", "policy.json"), `{"default": [{"type": "insecureAcceptAnything"}]}`)
	b.Setenv("HOME", home)
	ours := func(cache string) usage {
		b.Setenv("XDG_CACHE_HOME", cache)
		return p.measure(b, p.berth, "catalog", "build", file, "--output-dir", filepath.Join(b.TempDir(), "catalog"))
	}
	for b.Loop() {
		first, again, theirs := best(), best(), best()
		for range rounds {
			cache := b.TempDir()
			first.improve(ours(cache))
			again.improve(ours(cache))
			theirs.improve(p.measure(b, p.opm, "alpha", "render-template", "--use-http", "-o", "yaml", file))
		}
		b.ReportMetric(theirs.Wall/first.Wall, "x-faster")
		b.ReportMetric(theirs.Wall/again.Wall, "x-faster-again")
		b.ReportMetric(theirs.CPU/first.CPU, "x-less-cpu")
		b.ReportMetric(float64(first.PeakAnonymous)/float64(theirs.PeakAnonymous), "anonymous-of-opm")
		b.ReportMetric(float64(first.PeakAnonymous)/(1<<20), "MiB-anonymous")
		b.ReportMetric(float64(first.PeakRSS)/float64(theirs.PeakRSS), "rss-of-opm")
		b.ReportMetric(first.Wall, "s")
		b.ReportMetric(0, "ns/op") // it would be of both programs together
	}
}

// BenchmarkServe measures the time from the start to the first answer.
func BenchmarkServe(b *testing.B) {
	p := build(b)
	for _, kind := range catalogs.Kinds {
		b.Run(kind.Name, func(b *testing.B) {
			dir := generate(b, kind)
			for b.Loop() {
				ours, theirs := best(), best()
				var kept int64
				for range rounds {
					address, metrics := ports.Address(b), ports.Address(b)
					ours.improve(firstAnswer(b, address, func() { kept = cacheBytes(b, metrics) },
						p.berth, "catalog", "serve", dir, "--address", address, "--metrics-address", metrics))
					address = ports.Address(b)
					_, port, _ := net.SplitHostPort(address)
					theirs.improve(firstAnswer(b, address, func() {}, p.opm, "serve", dir, "-p", port, "--pprof-addr", "", "-t", os.DevNull))
				}
				b.ReportMetric(theirs.Wall/ours.Wall, "x-faster")
				b.ReportMetric(float64(kept)/float64(size(b, dir)), "cache-of-catalog")
				b.ReportMetric(ours.Wall, "s")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// BenchmarkRawYAML compares package rawyaml with the library that it replaces, on the catalog in YAML. The document
// part converts every document of the catalog to JSON, in this process. The validate part runs the command, and a build
// of it where rawyaml refuses everything. of-library is the ratio of the library's figure to rawyaml's.
func BenchmarkRawYAML(b *testing.B) {
	b.Run("documents", func(b *testing.B) {
		sources := documents(b, generate(b, catalogs.Community))
		convert := func(convert func([]byte) bool) (seconds float64, allocated uint64, done int) {
			runtime.GC()
			allocated = memory.Allocated(func() {
				start := time.Now()
				for _, source := range sources {
					if convert(source) {
						done++
					}
				}
				seconds = time.Since(start).Seconds()
			})
			return seconds, allocated, done
		}
		for b.Loop() {
			fast, plain := math.Inf(1), math.Inf(1)
			var fastBytes, plainBytes uint64
			var accepted int
			for range rounds {
				var buffer []byte
				seconds, bytes, done := convert(func(source []byte) (ok bool) {
					buffer, ok = rawyaml.AppendJSON(buffer[:0], source)
					return ok
				})
				fast, fastBytes, accepted = min(fast, seconds), bytes, done
				seconds, bytes, done = convert(func(source []byte) bool {
					_, err := boundedyaml.ToJSON(source)
					return err == nil
				})
				plain, plainBytes = min(plain, seconds), bytes
				require.Equal(b, len(sources), done, "documents that the library reads")
			}
			b.ReportMetric(fast, "s")
			b.ReportMetric(plain/fast, "s-of-library")
			b.ReportMetric(float64(fastBytes)/(1<<20), "MiB-allocated")
			b.ReportMetric(float64(plainBytes)/float64(fastBytes), "allocated-of-library")
			b.ReportMetric(float64(accepted)/float64(len(sources)), "accepted")
			b.ReportMetric(0, "ns/op")
		}
	})
	b.Run("validate", func(b *testing.B) {
		p := build(b)
		library := withoutRawYAML(b)
		dir := generate(b, catalogs.Community)
		for b.Loop() {
			fast, plain := best(), best()
			for range rounds {
				fast.improve(p.measure(b, p.berth, "catalog", "validate", dir))
				plain.improve(p.measure(b, library, "catalog", "validate", dir))
			}
			b.ReportMetric(fast.Wall, "s")
			b.ReportMetric(plain.Wall/fast.Wall, "s-of-library")
			b.ReportMetric(plain.CPU/fast.CPU, "cpu-of-library")
			b.ReportMetric(float64(fast.PeakRSS)/(1<<20), "MiB-rss")
			b.ReportMetric(float64(plain.PeakRSS)/float64(fast.PeakRSS), "rss-of-library")
			b.ReportMetric(0, "ns/op")
		}
	})
}

// documents returns the sources of all documents of a catalog.
func documents(b *testing.B, dir string) (sources [][]byte) {
	b.Helper()
	files, err := document.List(dir)
	require.NoError(b, err)
	splitter := document.Splitter{
		Yield: func(s document.Section) bool {
			sources = append(sources, bytes.Clone(s.Source))
			return true
		},
		Fault: func(fault *findings.Finding) { b.Fatal(fault) },
	}
	for _, f := range files {
		file, err := os.Open(f.Path)
		if err == nil {
			err = errors.Join(splitter.Split(f.Path, file), file.Close())
		}
		require.NoError(b, err)
	}
	return sources
}

// withoutRawYAML builds berth with a rawyaml that leaves every document to the library.
func withoutRawYAML(b *testing.B) string {
	b.Helper()
	path, err := filepath.Abs("../../catalog/fbc/rawyaml/rawyaml.go")
	require.NoError(b, err)
	source, err := os.ReadFile(path)
	require.NoError(b, err)
	const accepts = "if !isReadable(source) {"
	require.Truef(b, bytes.Contains(source, []byte(accepts)), "%s does not say %q", path, accepts)
	dir := b.TempDir()
	refusing := filepath.Join(dir, "rawyaml.go")
	catalogs.Write(b, refusing, strings.Replace(string(source), accepts, "if true {", 1))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: refusing}})
	require.NoError(b, err)
	catalogs.Write(b, filepath.Join(dir, "overlay.json"), string(overlay))
	b.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -overlay="+filepath.Join(dir, "overlay.json"))
	require.NoError(b, tools.Build(b.Context(), dir, nil, "./cmd/berth"))
	return filepath.Join(dir, "berth")
}

// programs are the programs that are compared, and the one that measures them.
// face is the program of the base image of catalogs.
type programs struct{ berth, face, opm, measurer string }

func build(b *testing.B) programs {
	b.Helper()
	dir := b.TempDir()
	b.Setenv("GOFLAGS", "-tags=grpcnotrace") // as in make build
	require.NoError(b, tools.Build(b.Context(), dir, nil, "./cmd/berth", "./cmd/opm", "./lab/measure"))
	return programs{filepath.Join(dir, "berth"), filepath.Join(dir, "opm"), catalogs.OPM(b), filepath.Join(dir, "measure")}
}

func generate(b *testing.B, kind catalogs.Kind) string {
	b.Helper()
	dir := b.TempDir()
	require.NoError(b, catalogs.Generate(dir, kind))
	b.Logf("%s: %d MB, %d packages, %d bundles", kind.Name, size(b, dir)/1e6, kind.Packages, kind.Bundles)
	return dir
}

func size(b *testing.B, dir string) (bytes int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		bytes += info.Size()
		return err
	})
	require.NoError(b, err)
	return bytes
}

// usage holds the resources that a command used, as program measure prints them.
type usage struct {
	Wall, CPU              float64
	PeakRSS, PeakAnonymous int64
	Exit                   int
}

func best() usage {
	return usage{Wall: math.Inf(1), CPU: math.Inf(1), PeakRSS: math.MaxInt64, PeakAnonymous: math.MaxInt64}
}

func (u *usage) improve(by usage) {
	u.Wall, u.CPU = min(u.Wall, by.Wall), min(u.CPU, by.CPU)
	u.PeakRSS, u.PeakAnonymous = min(u.PeakRSS, by.PeakRSS), min(u.PeakAnonymous, by.PeakAnonymous)
}

func (p programs) measure(b *testing.B, command ...string) (u usage) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), p.measurer, command...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2", "TMPDIR="+b.TempDir())
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &u)
	}
	require.NoError(b, err)
	require.Zerof(b, u.Exit, "%s: %+v", strings.Join(command, " "), u)
	return u
}

// firstAnswer starts a server and asks it for its packages until it answers.
func firstAnswer(b *testing.B, address string, answered func(), command ...string) usage {
	b.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2", "TMPDIR="+b.TempDir())
	start := time.Now()
	require.NoError(b, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	require.NoError(b, awaitPackages(b.Context(), address))
	taken := time.Since(start).Seconds()
	answered()
	return usage{Wall: taken}
}

// awaitPackages asks a server for its packages as soon as it listens.
func awaitPackages(ctx context.Context, address string) error {
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(5 * time.Millisecond) // nothing reports that another process listens
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := api.NewRegistryClient(conn).ListPackages(ctx, &api.ListPackageRequest{})
	if err != nil {
		return err
	}
	for count := 0; ; count++ {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) && count > 0 {
			return nil
		} else if err != nil {
			return fmt.Errorf("after %d packages: %w", count, err)
		}
	}
}

var cacheMetric = regexp.MustCompile(`(?m)^berth_catalog_cache_bytes (\S+)$`)

func cacheBytes(b *testing.B, metrics string) int64 {
	b.Helper()
	response, err := http.Get("http://" + metrics + "/metrics")
	require.NoError(b, err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	require.NoError(b, err)
	found := cacheMetric.FindSubmatch(page)
	require.NotNilf(b, found, "no metric of the cache's size in %s", page)
	bytes, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(b, err)
	return int64(bytes)
}
