package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-csi/berth/bundle/registryv1"
	"github.com/berth-csi/berth/internal/findings/escape"
)

// Wanted names the inputs that a command takes.
type Wanted string

// All values of Wanted.
const (
	WantCatalog    Wanted = "a catalog"
	WantBundle     Wanted = "a bundle"
	WantEither     Wanted = "a catalog or a bundle"
	WantContent    Wanted = "a template, or folders of bundles" // from which a catalog is built
	WantRepository Wanted = "a repository of operators"
)

// forms describe the inputs in messages.
var forms = map[Wanted]string{
	WantCatalog:    "a folder or a file with documents of the schemas olm.package, olm.channel and olm.bundle, or an image",
	WantBundle:     "a folder with manifests/ and metadata/, or an image",
	WantEither:     "a folder with documents of the schemas olm.package, olm.channel and olm.bundle, one with manifests/ and metadata/, or an image",
	WantContent:    "a bundle is a folder with manifests/ and metadata/",
	WantRepository: "a folder with operators/NAME/VERSION",
}

// kind describes a file or a folder that the command line names.
type kind struct {
	is string
	// fits lists the inputs that it can be.
	fits []Wanted
	// bundle is the folder of a bundle in it, or around it.
	bundle string
	// build is a command that makes a catalog from it. take is another command that takes it, and does says what take does.
	build, take, does string
	// advice is for kinds that no command takes.
	advice string
}

// Mistaken returns an error that says what a path is, and which command takes it. It returns nil if the command takes the path, or if
// Berth does not know what it is. It reads little, and is for paths that a command could not read.
func Mistaken(path string, want Wanted) error {
	k := kindOf(path)
	if k.is == "" && (want == WantBundle || want == WantRepository) && isFile(path) {
		k.is = "a file"
	}
	if k.is == "" || slices.Contains(k.fits, want) {
		return nil
	}
	text := fmt.Sprintf("%s is %s; want %s", path, k.is, want)
	switch {
	case want == WantCatalog && k.build != "":
		text += fmt.Sprintf(", such as `%s` makes from it", k.build)
	case want == WantBundle && k.bundle != "":
		text += ", such as " + k.bundle
	case want == WantContent && k.build != "":
		text += fmt.Sprintf(": `%s`", k.build)
	case k.take == "":
		text += ": " + forms[want]
	}
	if k.take != "" {
		text += fmt.Sprintf("; `%s` %s", k.take, k.does)
	}
	if k.advice != "" {
		text += "; " + k.advice
	}
	return errors.New(text)
}

// kindOf returns what a path is, or nothing.
func kindOf(path string) kind {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return kindOfFolder(path)
	}
	return kindOfFile(path)
}

func kindOfFolder(dir string) kind {
	if registryv1.IsFolder(dir) {
		return bundleKind("the folder of a bundle", dir)
	}
	if around := bundleAround(dir); around != "" {
		return bundleKind("a part of the bundle "+around, around)
	}
	if exists(filepath.Join(dir, chartFile)) {
		return chart()
	}
	if exists(filepath.Join(dir, "operators")) {
		return kind{is: "a repository of operators", fits: []Wanted{WantRepository}, take: escape.Command("berth check %s", dir), does: "checks it"}
	}
	if nested, _ := filepath.Glob(filepath.Join(dir, "*", registryv1.ManifestsDir)); len(nested) > 0 {
		return kind{is: "a folder of bundles", bundle: filepath.Dir(nested[len(nested)-1]), build: escape.Command("berth catalog build %s/* --output-dir DIR", dir),
			take: escape.Command("berth bundle validate %s/*", dir), does: "checks the bundles"}
	}
	if slices.ContainsFunc(registryv1.Folders, func(folder string) bool { return exists(filepath.Join(dir, folder)) }) {
		return kind{} // a bundle that lacks something
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) == 0 {
		return kind{is: "an empty folder"}
	}
	return kindOfFiles(dir)
}

// filesLimit is the number of files in a folder that show what it is.
const filesLimit = 100

// kindOfFiles returns what a folder is by the files in it and in its folders: a catalog or templates if one of them is, whatever the
// others are.
func kindOfFiles(dir string) (first kind) {
	read := 0
	for _, pattern := range []string{"*", filepath.Join("*", "*")} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, file := range files {
			if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)) || read == filesLimit {
				continue
			}
			read++
			k := kindOfFile(file)
			if len(k.fits) > 0 {
				return k.ofFolder(dir)
			}
			if first.is == "" {
				first = k.ofFolder(dir)
			}
		}
	}
	return first
}

// ofFolder returns the kind of a folder with files of a kind.
func (k kind) ofFolder(dir string) kind {
	switch {
	case k.is == "":
		return k
	case slices.Contains(k.fits, WantCatalog):
		return catalogKind(dir)
	case slices.Contains(k.fits, WantContent):
		return templateKind("a folder of templates", dir)
	}
	k.is = "a folder with " + k.is
	return k
}

// headLimit is the number of bytes of a file that show what it is.
const headLimit = 64 << 10

// begins are the kinds of files that are known by their first bytes.
var begins = []struct {
	at    int
	bytes string
	kind  kind
}{
	{0, "\x1f\x8b", kind{is: "a file that gzip compressed", advice: unpack}},
	{0, "PK\x03\x04", kind{is: "a ZIP archive", advice: unpack}},
	{257, "ustar", kind{is: "a tar archive", advice: unpack}},
	{0, "%PDF-", kind{is: "a PDF document"}},
}

const unpack = "unpack it, and name the folder"

// What lines at the beginning of a YAML file say. Templates of Helm and of OpenShift look like manifests, too, and need not be YAML.
var (
	schemaLine = regexp.MustCompile(`(?m)^schema\s*:\s*["']?([A-Za-z0-9./-]+)`)
	kindLine   = regexp.MustCompile(`(?m)^kind\s*:\s*["']?([A-Za-z]+)`)
	kindName   = regexp.MustCompile(`^[A-Za-z]+`)
)

// The schemas of templates, and of a catalog.
var (
	templates = regexp.MustCompile(`^(berth\.template|olm\.(template\.[a-z.]+|semver|composite[a-z.]*))$`)
	catalogs  = regexp.MustCompile(`^olm\.(package|channel|bundle|deprecations)$`)
)

// kindOfFile returns what a file is, or nothing. It opens only regular files: opening others could wait forever.
func kindOfFile(path string) kind {
	if !isFile(path) {
		return kind{}
	}
	if isDatabase(path) {
		return kind{is: "a SQLite catalog, which opm no longer makes", take: escape.Command("opm migrate %s DIR", path), does: "makes a catalog from it"}
	}
	head, err := readHead(path)
	if err != nil {
		return kind{}
	}
	for _, known := range begins {
		if bytes.HasPrefix(head[min(len(head), known.at):], []byte(known.bytes)) {
			return known.kind
		}
	}
	schema, named := saysOf(head)
	switch around := bundleAround(filepath.Dir(path)); {
	case templates.MatchString(schema):
		return templateKind("a template", path)
	case catalogs.MatchString(schema):
		return catalogKind(path)
	case around != "":
		return bundleKind("a part of the bundle "+around, around)
	case filepath.Base(path) == chartFile:
		return chart()
	case named == "ImageSetConfiguration":
		return kind{is: "a file of oc-mirror", take: escape.Command("berth catalog mirror --config %s DESTINATION", path), does: "mirrors what it chooses"}
	case named == "ClusterServiceVersion":
		return kind{is: "a Kubernetes manifest of kind " + named, advice: "it belongs in the folder manifests/ of a bundle"}
	case named != "":
		return kind{is: "a Kubernetes manifest of kind " + named}
	case filepath.Ext(path) == ".csv":
		return kind{is: "a table of comma-separated values"}
	}
	return kind{}
}

// saysOf returns the schema and the kind of the first document of a file, if its beginning has them.
func saysOf(head []byte) (schema, named string) {
	if bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")) {
		return inJSON(head)
	}
	of := func(line *regexp.Regexp) string {
		if found := line.FindSubmatch(head); found != nil {
			return string(found[1])
		}
		return ""
	}
	return of(schemaLine), of(kindLine)
}

// inJSON returns the fields schema and kind of an object that may be cut off.
func inJSON(head []byte) (schema, named string) {
	decoder := json.NewDecoder(bytes.NewReader(head))
	if _, err := decoder.Token(); err != nil {
		return "", ""
	}
	for decoder.More() {
		key, err := decoder.Token()
		var value any
		if err != nil || decoder.Decode(&value) != nil {
			break
		}
		text, _ := value.(string)
		switch key {
		case "schema":
			schema = text
		case "kind":
			named = kindName.FindString(text) // what follows a name may be any text
		}
	}
	return schema, named
}

func readHead(path string) (head []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, headLimit))
}

// bundleAround returns the folder of the bundle that a folder is a part of, or "".
func bundleAround(part string) string {
	if whole := filepath.Dir(part); slices.Contains(registryv1.Folders, filepath.Base(part)) && registryv1.IsFolder(whole) {
		return whole
	}
	return ""
}

func bundleKind(is, dir string) kind {
	k := kind{is: is, bundle: dir, build: escape.Command("berth catalog build %s --output-dir DIR", dir),
		take: escape.Command("berth bundle validate %s", dir), does: "checks the bundle"}
	if !strings.HasPrefix(is, "a part") {
		k.fits = []Wanted{WantBundle, WantEither, WantContent}
	}
	return k
}

func catalogKind(path string) kind {
	return kind{is: "a catalog", fits: []Wanted{WantCatalog, WantEither}, take: escape.Command("berth catalog validate %s", path), does: "checks it"}
}

func templateKind(is, path string) kind {
	return kind{is: is, fits: []Wanted{WantContent}, build: escape.Command("berth catalog build %s --output-dir DIR", path)}
}

const chartFile = "Chart.yaml"

func chart() kind { return kind{is: "a Helm chart", advice: "Berth takes no charts"} }

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
