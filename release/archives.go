package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/berth-csi/berth/internal/oci"
)

// workstation is a platform that people run berth on.
type workstation struct{ os, architecture string }

var workstations = []workstation{
	{"linux", "amd64"}, {"linux", "arm64"}, {"linux", "ppc64le"}, {"linux", "s390x"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, // Windows on arm64 runs this, too: a library that OLM's server needs does not compile for arm64
}

// shells are the shells that have completions of berth.
var shells = []string{"bash", "zsh", "fish", "powershell"}

// packArchives writes an archive with berth for each workstation, with its SBOM beside it, the files for package
// managers, and checksums of the archives.
func (r *release) packArchives(ctx context.Context) error {
	completions, err := r.completions(ctx)
	if err != nil {
		return err
	}
	folder := filepath.Join(r.output, "archives")
	if err := os.RemoveAll(folder); err != nil { // including another version's
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	sums := ""
	var archives []packed
	for _, w := range workstations {
		if !r.packsFor(w) {
			continue
		}
		name, content, built, err := r.archive(ctx, w, completions)
		if err != nil {
			return fmt.Errorf("archive for %s/%s: %w", w.os, w.architecture, err)
		}
		of, err := built.ingredients()
		if err != nil {
			return err
		}
		digest := fmt.Sprintf("%x", sha256.Sum256(content))
		sbom, err := r.source.sbom(name, "sha256:"+digest, of)
		if err != nil {
			return err
		}
		if err := errors.Join(os.WriteFile(filepath.Join(folder, name), content, 0o644),
			os.WriteFile(filepath.Join(folder, name+".spdx.json"), sbom, 0o644)); err != nil {
			return err
		}
		archives = append(archives, packed{w, name, digest})
		sums += digest + "  " + name + "\n" + fmt.Sprintf("%x  %s.spdx.json\n", sha256.Sum256(sbom), name)
	}
	if err := r.writePackagers(folder, archives); err != nil {
		return err
	}
	file := filepath.Join(folder, "SHA256SUMS")
	if err := os.WriteFile(file, []byte(sums), 0o644); err != nil {
		return err
	}
	return r.signFile(ctx, file)
}

// packsFor reports whether a workstation is wanted: all are, unless the images are for this machine's architecture
// only.
func (r *release) packsFor(w workstation) bool {
	own := len(r.architectures) == 1 && r.architectures[0] == runtime.GOARCH
	return !own || w.os == runtime.GOOS && w.architecture == runtime.GOARCH
}

// completions returns the files that complete berth's commands in shells. They are the same on all platforms.
func (r *release) completions(ctx context.Context) (oci.Files, error) {
	own, err := r.compileFor(ctx, berth, runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	files := oci.Files{}
	for _, shell := range shells {
		out, err := exec.CommandContext(ctx, own.file, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("completions for %s: %w", shell, err)
		}
		files["completions/berth."+shell] = oci.File{Data: out}
	}
	return files, nil
}

// archive returns the archive for a workstation, and the program in it.
func (r *release) archive(ctx context.Context, w workstation, completions oci.Files) (name string, content []byte, built compiled, err error) {
	if built, err = r.compileFor(ctx, berth, w.os, w.architecture); err != nil {
		return "", nil, built, err
	}
	files := built.licenceFiles()
	for path, file := range completions {
		files[path] = file
	}
	files[packed{workstation: w}.program()] = oci.File{Source: built.file, Executable: true}
	files["LICENSE"] = oci.File{Source: "LICENSE"}
	name = fmt.Sprintf("berth-%s-%s-%s", r.source.version, w.os, w.architecture)
	pack, ending := tarFiles, ".tar.gz"
	if w.os == "windows" {
		pack, ending = zipFiles, ".zip"
	}
	var out bytes.Buffer
	err = pack(&out, files)
	return name + ending, out.Bytes(), built, err
}

// tarFiles writes files as a compressed tar archive. The same files always give the same bytes.
func tarFiles(out io.Writer, files oci.Files) error {
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for _, name := range sortedKeys(files) {
		data, mode, err := contentOf(files[name])
		if err != nil {
			return err
		}
		if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: int64(mode), Size: int64(len(data))}); err != nil {
			return err
		}
		if _, err := archive.Write(data); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

// zipFiles writes files as a zip archive. The same files always give the same bytes.
func zipFiles(out io.Writer, files oci.Files) error {
	archive := zip.NewWriter(out)
	for _, name := range sortedKeys(files) {
		data, mode, err := contentOf(files[name])
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: name, Method: zip.Deflate}
		header.SetMode(mode)
		file, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := file.Write(data); err != nil {
			return err
		}
	}
	return archive.Close()
}

func contentOf(file oci.File) (data []byte, mode os.FileMode, err error) {
	mode = 0o644
	if file.Executable {
		mode = 0o755
	}
	if file.Source == "" {
		return file.Data, mode, nil
	}
	data, err = os.ReadFile(file.Source)
	return data, mode, err
}

// signFile signs a file if the release has a key, and writes the signature to FILE.sigstore.json.
func (r *release) signFile(ctx context.Context, file string) error {
	if r.key == "" {
		return nil
	}
	cosign, err := r.cosign(ctx)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, cosign, "sign-blob", "--yes", "--key", r.key, "--use-signing-config=false", "--tlog-upload=false",
		"--bundle", file+".sigstore.json", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("signing %s: %w\n%s", file, err, strings.TrimSpace(string(out)))
	}
	return nil
}
