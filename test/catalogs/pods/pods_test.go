// Package pods measures the pods of catalogs under real OLM, on a real node: Berth's program beside opm's, in the same run.
package pods

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-csi/berth/catalog/build"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/cluster"
	"github.com/berth-csi/berth/lab/cluster/tools"
	"github.com/berth-csi/berth/test/catalogs"
	"github.com/berth-csi/berth/test/catalogs/clients"
	"github.com/berth-csi/berth/test/drivers/images"
)

var (
	measured = flag.Bool("pods", false, "measure pods of catalogs on a real node")
	more     = flag.String("catalogs", "", "`FOLDERS` of catalogs, with commas between them, to measure as well")
)

func TestMain(m *testing.M) { cluster.Main(m) }

// The limits of the pods.
const (
	limit       = 50 << 20 // of the container, in bytes
	manyClients = 50
	// toAnswer is how long the first answer may take after the start of the container.
	toAnswer = 2 * time.Second
	// toStart is how long a pod of either program may take to answer, which is long enough for opm without a limit.
	toStart = 3 * time.Minute
	during  = 5 * time.Second
)

// bounds are the most that a pod of Berth may take, anonymous and kernel memory in MiB, by catalog.
var bounds = map[string]float64{"metadata": 46}

// otherBound is the bound of all other catalogs.
const otherBound = 40

// opmImage is OLM's name for the image that serves extracted catalogs.
const opmImage = "quay.io/berth-csi/berth-opm"

// program is an image with a program that serves catalogs.
type program struct {
	name string
	// on adds layers to the image: the catalog, and the program's cache of it.
	on func(t *testing.T, catalog string) v1.Image
}

// TestPods prints the resource use of catalogs' pods, and fails if one of Berth's exceeds its limits.
func TestPods(t *testing.T) {
	if !*measured {
		t.Skip("without -pods: see make prove SUITE=catalog-pods")
	}
	cluster.NeedRealNodes(t)
	base := berthBase(t)
	programs := []program{{"berth", func(t *testing.T, catalog string) v1.Image { return withCatalog(t, base, catalog, "") }}, {"opm", opmWith(t)}}
	archives := map[string]string{opmImage: layoutOf(t, base), images.OLMUtilities: archive(t, images.OLMUtilities)}
	folders := catalogFolders(t)
	for name, folder := range folders {
		for _, p := range programs {
			archives[imageOf(p.name, name)] = layoutOf(t, p.on(t, folder))
		}
		archives[imageOf("content", name)] = contentOnly(t, folder)
	}
	c := cluster.Start(t, cluster.Options{OLM: true, RealNodes: 1, OPMImage: opmImage + ":latest", ImageArchives: archives})
	b := bed{c}
	t.Log(header)
	for _, name := range sorted(folders) {
		for _, p := range programs {
			b.limitMemory(t, p.name == "berth")
			row := b.measure(t, p.name+" "+name, imageOf(p.name, name), nil)
			t.Log(row)
			if p.name == "berth" {
				row.check(t, name)
			}
		}
		b.limitMemory(t, true)
		row := b.measure(t, "opm within 50Mi "+name, imageOf("opm", name), nil)
		t.Log(row)
		row = b.measure(t, "extracted "+name, imageOf("content", name), &v1alpha1.ExtractContentConfig{CatalogDir: "/configs"})
		t.Log(row)
		row.check(t, name)
	}
}

func sorted(of map[string]string) (names []string) {
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// imageOf is the repository of the image of a catalog.
func imageOf(program, catalog string) string {
	return "quay.io/example/" + program + "-" + strings.ReplaceAll(catalog, ".", "-")
}

// catalogFolders generates catalogs, and adds the user's.
func catalogFolders(t *testing.T) map[string]string {
	t.Helper()
	folders := map[string]string{}
	kinds := []catalogs.Kind{catalogs.Metadata}
	if *more == "" {
		kinds = append(kinds, catalogs.Community) // which resembles public ones
	}
	for _, kind := range kinds {
		dir := t.TempDir()
		require.NoError(t, catalogs.Generate(dir, kind))
		folders[kind.Name] = dir
	}
	if *more != "" {
		for _, folder := range strings.Split(*more, ",") {
			folders[filepath.Base(folder)] = folder
		}
	}
	return folders
}

// berthBase is the image berth-opm of a release.
func berthBase(t *testing.T) v1.Image {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -tags=grpcnotrace -trimpath")
	require.NoError(t, tools.Build(t.Context(), dir, nil, "-ldflags=-s -w", "./cmd/opm"))
	layer, err := oci.Files{
		"bin/opm":               {Source: filepath.Join(dir, "opm"), Executable: true},
		"bin/grpc_health_probe": {Link: "opm"},
		"tmp":                   {SharedFolder: true},
	}.Layer()
	require.NoError(t, err)
	built, err := oci.Platform{Architecture: "amd64", User: "65532:65532", Entrypoint: []string{"/bin/opm"}, Layers: []v1.Layer{layer}}.Image()
	require.NoError(t, err)
	return built
}

func archive(t *testing.T, repository string) string {
	t.Helper()
	path, err := images.Archive(t.Context(), nil, repository+":latest")
	require.NoError(t, err)
	return path
}

// opmWith returns a function that puts a catalog on the image of the real opm, with the cache that opm's Dockerfile
// makes.
func opmWith(t *testing.T) func(*testing.T, string) v1.Image {
	t.Helper()
	base, err := tarball.ImageFromPath(archive(t, images.OPM), nil)
	require.NoError(t, err)
	return func(t *testing.T, catalog string) v1.Image {
		t.Helper()
		cache := filepath.Join(t.TempDir(), "cache")
		out, err := exec.CommandContext(t.Context(), catalogs.OPM(t), "serve", catalog, "--cache-dir="+cache, "--cache-only", "--pprof-addr=", "-t", os.DevNull).CombinedOutput()
		require.NoErrorf(t, err, "%s", out)
		return withCatalog(t, base, catalog, cache)
	}
}

// withCatalog puts a catalog, and optionally a cache, on an image, which serves it like opm's Dockerfile.
func withCatalog(t *testing.T, base v1.Image, catalog, cache string) v1.Image {
	t.Helper()
	layers := []v1.Layer{owned(t, catalog, "configs")}
	if cache != "" {
		layers = append(layers, owned(t, cache, "tmp/cache"))
	}
	built, err := mutate.AppendLayers(base, layers...)
	require.NoError(t, err)
	config, err := built.ConfigFile()
	require.NoError(t, err)
	config = config.DeepCopy()
	config.Config.Entrypoint, config.Config.Cmd = []string{"/bin/opm"}, []string{"serve", "/configs", "--cache-dir=/tmp/cache"}
	built, err = mutate.ConfigFile(built, config)
	require.NoError(t, err)
	return built
}

// contentOnly returns the layout of the image that `berth catalog image` makes.
func contentOnly(t *testing.T, catalog string) string {
	t.Helper()
	content, err := build.Image(t.Context(), catalog)
	require.NoError(t, err)
	index, err := content.Index()
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	img, err := index.Image(manifest.Manifests[0].Digest) // all have the same content
	require.NoError(t, err)
	return layoutOf(t, img)
}

func layoutOf(t *testing.T, of v1.Image) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	_, err := layout.Write(dir, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: of}))
	require.NoError(t, err)
	return dir
}

// bed is a cluster with a real node.
type bed struct{ *cluster.Cluster }

// limitMemory has containers that are created from now on have a limit, or none.
func (b bed) limitMemory(t *testing.T, limited bool) {
	t.Helper()
	r := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.CatalogNamespace, Name: "catalogs"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(limit, resource.BinarySI)}}}}}
	var err error
	if limited {
		err = b.Client().Create(t.Context(), r)
	} else {
		err = b.Client().Delete(t.Context(), r)
	}
	require.NoError(t, client.IgnoreAlreadyExists(client.IgnoreNotFound(err)))
}

// figures are the resources that a pod used. Memory is in bytes: anonymous, and the kernel's for the pod.
type figures struct {
	name            string
	answered, ready time.Duration
	idle, peak      memory
	bundles         int64
	listed          time.Duration
	perSecond       map[int]int64
	restarts        int32
	// failed is the number of failed probes, counted by kubelet's events.
	failed int32
	fault  string
}

const header = "pod | first answer | Ready | probes failed | idle anonymous+kernel | most with 50 clients | restarts | 50 lists of all bundles | answers a second with 1, 10, 50 clients"

func (f figures) String() string {
	if f.fault != "" {
		return fmt.Sprintf("%s | %s | restarts %d", f.name, f.fault, f.restarts)
	}
	return fmt.Sprintf("%s | %.2f s | %.0f s | %d | %s | %s | %d | %d in %.1f s | %d, %d, %d", f.name, f.answered.Seconds(), f.ready.Seconds(), f.failed, f.idle, f.peak, f.restarts,
		f.bundles, f.listed.Seconds(), f.perSecond[1], f.perSecond[10], f.perSecond[manyClients])
}

// check fails the test if a pod took more than it may.
func (f figures) check(t *testing.T, catalog string) {
	t.Helper()
	most := float64(otherBound)
	if bound, is := bounds[catalog]; is {
		most = bound
	}
	switch {
	case f.fault != "" || f.restarts > 0:
		t.Errorf("%s: %s, %d restarts", f.name, f.fault, f.restarts)
	case f.peak.mebibytes() > most:
		t.Errorf("%s: %s MiB, want at most %.0f", f.name, f.peak, most)
	case f.failed > 0:
		t.Errorf("%s: it was Ready after %s, when %d probes had failed; want it at the first", f.name, f.ready, f.failed)
	case f.answered > toAnswer:
		t.Errorf("%s: the first answer takes %s, want at most %s", f.name, f.answered, toAnswer)
	}
}

// measure serves a catalog's image by OLM, and removes it again.
func (b bed) measure(t *testing.T, name, repository string, extract *v1alpha1.ExtractContentConfig) (f figures) {
	t.Helper()
	f = figures{name: name, perSecond: map[int]int64{}}
	source := &v1alpha1.CatalogSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.CatalogNamespace, Name: "measured"},
		Spec: v1alpha1.CatalogSourceSpec{SourceType: v1alpha1.SourceTypeGrpc, Image: repository + ":latest", GrpcPodConfig: &v1alpha1.GrpcPodConfig{
			NodeSelector: map[string]string{corev1.LabelHostname: cluster.RealNode(0)}, SecurityContextConfig: v1alpha1.Restricted, ExtractContent: extract,
		}},
	}
	require.NoError(t, b.Client().Create(t.Context(), source))
	defer b.remove(t, source)
	inside, err := b.await(t)
	if err != nil {
		f.fault = err.Error()
		f.restarts = b.restarts(t)
		return f
	}
	defer inside.close()
	f.answered = inside.answered
	stop := inside.watch()
	packages, err := clients.Packages(t.Context(), inside.dial)
	f.idle = inside.now()
	if err == nil {
		began := time.Now()
		f.bundles, err = clients.List(t.Context(), inside.dial, manyClients)
		f.listed = time.Since(began)
	}
	for _, n := range []int{1, 10, manyClients} {
		if err == nil {
			var answers int64
			answers, err = clients.Ask(t.Context(), inside.dial, n, packages, during)
			f.perSecond[n] = int64(float64(answers) / during.Seconds())
		}
	}
	f.peak = stop()
	f.ready = b.becameReady(t)
	f.failed = b.failedProbes(t)
	if f.restarts = b.restarts(t); err != nil {
		f.fault = err.Error()
	}
	return f
}

// pod returns the pod of the catalog, or nil.
func (b bed) pod(ctx context.Context) (*corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := b.Client().List(ctx, pods, client.InNamespace(cluster.CatalogNamespace), client.MatchingLabels{"olm.catalogSource": "measured"}); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			return &pods.Items[i], nil
		}
	}
	return nil, nil
}

// container is the name of the container that serves.
const container = "registry-server"

// await waits until the server answers, and returns where it runs. It gives up if the container has ended three times.
func (b bed) await(t *testing.T) (*place, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), toStart)
	defer cancel()
	var found *place
	var ended error
	err := cluster.Until(ctx, "the catalog's server to answer", func(ctx context.Context) error {
		pod, err := b.pod(ctx)
		if err != nil || pod == nil {
			return fmt.Errorf("there is no pod: %w", err)
		}
		for _, s := range pod.Status.ContainerStatuses {
			if s.Name == container && s.RestartCount >= 3 && s.LastTerminationState.Terminated != nil {
				ended = fmt.Errorf("it has ended %d times: %s, exit code %d", s.RestartCount, s.LastTerminationState.Terminated.Reason, s.LastTerminationState.Terminated.ExitCode)
				return nil
			}
		}
		folder, err := b.ContainerProcess(pod, container)
		if err != nil {
			return err
		}
		found, err = enter(ctx, folder)
		return err
	})
	if err == nil {
		err = ended
	}
	return found, err
}

func (b bed) restarts(t *testing.T) (count int32) {
	t.Helper()
	pod, err := b.pod(t.Context())
	if err != nil || pod == nil {
		return 0
	}
	for _, s := range pod.Status.ContainerStatuses {
		count += s.RestartCount
	}
	return count
}

// failedProbes returns how often kubelet says that a probe of the pod failed.
func (b bed) failedProbes(t *testing.T) (count int32) {
	t.Helper()
	pod, err := b.pod(t.Context())
	require.NoError(t, err)
	require.NotNil(t, pod, "there is no pod")
	events := &corev1.EventList{}
	require.NoError(t, b.Client().List(t.Context(), events, client.InNamespace(pod.Namespace)))
	for _, e := range events.Items {
		if e.InvolvedObject.UID == pod.UID && e.Reason == "Unhealthy" {
			count += e.Count
		}
	}
	return count
}

// becameReady returns how long the pod took from the start of its container to be Ready, in whole seconds.
func (b bed) becameReady(t *testing.T) (taken time.Duration) {
	t.Helper()
	cluster.Eventually(t, time.Minute, "the pod to be Ready", func(ctx context.Context) error {
		pod, err := b.pod(ctx)
		if err != nil || pod == nil || !cluster.IsReady(pod) {
			return fmt.Errorf("it is not: %w", err)
		}
		for _, condition := range pod.Status.Conditions {
			for _, s := range pod.Status.ContainerStatuses {
				if condition.Type == corev1.PodReady && s.State.Running != nil {
					taken = condition.LastTransitionTime.Sub(s.State.Running.StartedAt.Time)
				}
			}
		}
		return nil
	})
	return taken
}

func (b bed) remove(t *testing.T, source client.Object) {
	t.Helper()
	assert.NoError(t, b.Client().Delete(context.Background(), source))
	cluster.Eventually(t, 2*time.Minute, "the catalog's pod to go", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := b.Client().List(ctx, pods, client.InNamespace(cluster.CatalogNamespace), client.MatchingLabels{"olm.catalogSource": "measured"}); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("%d pods are there", len(pods.Items))
		}
		return nil
	})
}

// owned returns a layer with a folder below a path, which belongs to the user that builds images of catalogs for opm.
func owned(t *testing.T, folder, at string) v1.Layer {
	t.Helper()
	layer, err := ownedLayer(folder, at)
	require.NoError(t, err)
	return layer
}
