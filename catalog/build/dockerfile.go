package build

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-csi/berth/catalog/source"
)

// BaseImage is the base of images that serve a catalog: it has Berth's opm as /bin/opm, and grpc_health_probe.
const BaseImage = "quay.io/berth-csi/berth-opm:latest"

// noProgram is the base of images that hold only a catalog.
const noProgram = "scratch"

// cacheFolder holds opm's cache in images of catalogs.
const cacheFolder = "/tmp/cache"

// Dockerfile describes the Dockerfile for the image of a catalog.
type Dockerfile struct {
	// Base is the base image, or scratch. Builder is an image with opm, which checks the catalog.
	Base, Builder string
	Labels        map[string]string
}

// plainName matches folder names that need no escaping in a Dockerfile: a space would end the name, and a line break the instruction.
var plainName = regexp.MustCompile(`^[\pL\pM\pN._+~@,=][\pL\pM\pN._+~@,=-]*$`)

// Write writes the Dockerfile beside the folder of a catalog, as DIR.Dockerfile, and returns its path. It fails if the file exists.
func (d Dockerfile) Write(dir string) (name string, err error) {
	dir = filepath.Clean(dir)
	if base := filepath.Base(dir); base == "." || base == ".." {
		if dir, err = filepath.Abs(dir); err != nil {
			return "", err
		}
	}
	if info, err := os.Stat(dir); err != nil {
		return "", err
	} else if !info.IsDir() {
		return "", fmt.Errorf("%s is a file; expected the folder of a catalog", dir)
	}
	if !plainName.MatchString(filepath.Base(dir)) {
		return "", fmt.Errorf("the folder's name is %q; expected letters, digits and ._+~@,=- alone, not with - first: others mean something else in a Dockerfile", filepath.Base(dir))
	}
	name = dir + ".Dockerfile"
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%s exists already; remove it first: %w", name, fs.ErrExist)
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.WriteString(d.text(filepath.Base(dir)))
	return name, err
}

// text returns the Dockerfile for a folder beside it.
func (d Dockerfile) text(folder string) string {
	lines := []string{
		"# This stage checks the catalog and builds the server's cache. Its image has /bin/opm.",
		"FROM " + d.Builder + " AS builder",
		"ADD " + folder + " /" + source.ConfigsFolder,
		fmt.Sprintf(`RUN ["/bin/opm", "serve", "/%s", "--cache-dir=%s", "--cache-only"]`, source.ConfigsFolder, cacheFolder),
		"",
		"FROM " + d.Base,
	}
	if d.Base == noProgram {
		lines = append(lines,
			"# There is no program in this image. A CatalogSource of OLM v0 needs, in spec.grpcPodConfig:",
			"#   extractContent: {catalogDir: /"+source.ConfigsFolder+", cacheDir: "+cacheFolder+"}")
	} else {
		lines = append(lines,
			"# This image has /bin/opm, and grpc_health_probe, which OLM runs.",
			`ENTRYPOINT ["/bin/opm"]`,
			fmt.Sprintf(`CMD ["serve", "/%s", "--cache-dir=%s"]`, source.ConfigsFolder, cacheFolder))
	}
	for _, path := range []string{"/" + source.ConfigsFolder, cacheFolder} {
		lines = append(lines, "COPY --from=builder "+path+" "+path)
	}
	lines = append(lines, "LABEL "+source.ConfigsLabel+"=/"+source.ConfigsFolder)
	for _, key := range slices.Sorted(maps.Keys(d.Labels)) {
		lines = append(lines, fmt.Sprintf("LABEL %q=%q", key, d.Labels[key]))
	}
	return strings.Join(lines, "\n") + "\n"
}
