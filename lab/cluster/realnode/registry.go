package realnode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Images are the images that nodes can pull, by their repositories. Any tag of a repository is the same image.
type Images struct {
	// Programs are paths of static programs. Each becomes an image that has only this program.
	Programs map[string]string
	// Archives are paths of whole images: a file as "docker save" writes it, or a folder with an OCI layout.
	Archives map[string]string
}

// registry serves images to the containerd of nodes, which asks it for the images of all registries.
type registry struct {
	images map[string]func() (v1.Image, error) // by repository, such as "quay.io/berth-csi/berth-operator"
}

// ServeImages lets all nodes pull images.
func (n *Network) ServeImages(images Images, pause string) error {
	programs := maps.Clone(images.Programs)
	if programs == nil {
		programs = map[string]string{}
	}
	programs[pauseImage] = pause
	r := registry{images: map[string]func() (v1.Image, error){}}
	if err := r.add(programs, programImage); err != nil {
		return err
	}
	if err := r.add(images.Archives, readImage); err != nil {
		return err
	}
	for _, place := range n.places {
		listener, err := n.Listen(place, registryAddress)
		if err != nil {
			return err
		}
		go http.Serve(listener, r) // until the network is closed
	}
	return nil
}

// add adds images that are made from files when they are first asked for.
func (r registry) add(files map[string]string, image func(path string) (v1.Image, error)) error {
	for repository, file := range files {
		parsed, err := name.NewRepository(repository)
		if err != nil {
			return err
		}
		r.images[key(parsed.RegistryStr(), parsed.RepositoryStr())] = sync.OnceValues(func() (v1.Image, error) { return image(file) })
	}
	return nil
}

func key(registry, repository string) string {
	if registry == name.DefaultRegistry {
		registry = "docker.io" // as containerd calls it
	}
	return registry + "/" + repository
}

// ServeHTTP answers the requests of a pull, as the OCI distribution specification describes them.
func (r registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	rest, isAPI := strings.CutPrefix(request.URL.Path, "/v2/")
	if !isAPI || request.Method != http.MethodGet && request.Method != http.MethodHead {
		http.Error(w, "want GET /v2/...", http.StatusNotFound)
		return
	}
	folder, reference := path.Split(rest)
	repository, kind := path.Split(strings.TrimSuffix(folder, "/"))
	repository = strings.TrimSuffix(repository, "/")
	if repository == "" {
		return // it is asked whether this is a registry
	}
	make, found := r.images[key(request.URL.Query().Get("ns"), repository)] // the registry that was meant
	if !found {
		http.Error(w, "the cluster has no image "+repository, http.StatusNotFound)
		return
	}
	image, err := make()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if kind == "manifests" {
		err = serveManifest(w, request, image, reference)
	} else {
		err = serveBlob(w, request, image, reference)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
	}
}

func serveManifest(w http.ResponseWriter, request *http.Request, image v1.Image, reference string) error {
	content, err := image.RawManifest()
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	if strings.Contains(reference, ":") && reference != digest.String() {
		return fmt.Errorf("the image has the digest %s", digest)
	}
	kind, err := image.MediaType()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", string(kind))
	w.Header().Set("Docker-Content-Digest", digest.String())
	return serve(w, request, int64(len(content)), bytes.NewReader(content))
}

func serveBlob(w http.ResponseWriter, request *http.Request, image v1.Image, reference string) error {
	digest, err := v1.NewHash(reference)
	if err != nil {
		return err
	}
	if config, err := image.ConfigName(); err == nil && config == digest {
		content, err := image.RawConfigFile()
		if err != nil {
			return err
		}
		return serve(w, request, int64(len(content)), bytes.NewReader(content))
	}
	layer, err := image.LayerByDigest(digest)
	if err != nil {
		return err
	}
	size, err := layer.Size()
	if err != nil {
		return err
	}
	content, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer content.Close()
	return serve(w, request, size, content)
}

func serve(w http.ResponseWriter, request *http.Request, size int64, content io.Reader) error {
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if request.Method == http.MethodGet {
		io.Copy(w, content) // a client that has gone needs no answer
	}
	return nil
}

// readImage reads a whole image.
func readImage(path string) (v1.Image, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return tarball.ImageFromPath(path, nil)
	}
	index, err := layout.ImageIndexFromPath(path)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s: found %d images, want one", path, len(manifest.Manifests))
	}
	return index.Image(manifest.Manifests[0].Digest)
}

// programFolder is the program's folder in an image of one program.
const programFolder = "/usr/bin"

// programImage makes an image of one program.
func programImage(program string) (v1.Image, error) {
	layer, err := newProgramLayer(program)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{path.Join(programFolder, filepath.Base(program))}
	config.Config.Env = []string{"PATH=" + programFolder}
	return mutate.ConfigFile(image, config)
}

// programLayer is a layer with one program and the folder /tmp. It is not compressed: it never leaves the machine. Its
// content is read from the program's file whenever it is needed.
type programLayer struct {
	program        string
	before, behind []byte // the parts of a tar archive before and after the program's content
	size           int64
	digest         v1.Hash
}

func newProgramLayer(program string) (*programLayer, error) {
	info, err := os.Stat(program)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, header := range []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777},
		{Typeflag: tar.TypeDir, Name: "usr/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "usr/bin/", Mode: 0o755},
		{Typeflag: tar.TypeReg, Name: path.Join(programFolder, filepath.Base(program))[1:], Mode: 0o755, Size: info.Size()},
	} {
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
	}
	// An archive consists of blocks of 512 bytes, and ends with two empty ones.
	const block = 512
	padding := (block - info.Size()%block) % block
	l := &programLayer{program: program, before: archive.Bytes(), behind: make([]byte, padding+2*block)}
	l.size = int64(len(l.before)) + info.Size() + int64(len(l.behind))
	content, err := l.Uncompressed()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	hash := sha256.New()
	if n, err := io.Copy(hash, content); err != nil || n != l.size {
		return nil, fmt.Errorf("read %s: found %d bytes of its layer, expected %d (%w)", program, n, l.size, err)
	}
	l.digest = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(hash.Sum(nil))}
	return l, nil
}

func (l *programLayer) Digest() (v1.Hash, error)            { return l.digest, nil }
func (l *programLayer) DiffID() (v1.Hash, error)            { return l.digest, nil }
func (l *programLayer) Size() (int64, error)                { return l.size, nil }
func (l *programLayer) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }
func (l *programLayer) Compressed() (io.ReadCloser, error)  { return l.Uncompressed() }
func (l *programLayer) Uncompressed() (io.ReadCloser, error) {
	file, err := os.Open(l.program)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(l.before), file, bytes.NewReader(l.behind)), file}, nil
}
