package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// The project's page, and where people find the archives of a version.
const (
	homepage  = "https://github.com/berth-csi/berth"
	downloads = homepage + "/releases/download/"
)

// summary and description describe berth, in one sentence and in several.
const (
	summary     = "Package, ship and move optional CSI drivers for OpenShift and OKD"
	description = `Builds, checks and mirrors the bundles and catalogs from which the Operator Lifecycle
Manager (OLM) installs operators, and says what OLM will do with them. Moves operators of
CSI drivers between catalogs, from OLM v0 to OLM v1, or to the cluster storage operator,
and says what is wrong with the drivers of a cluster.
`
)

// packed is an archive with berth.
type packed struct {
	workstation
	name, digest string // the digest is the SHA-256 in hexadecimal
}

// url returns the URL from which people download the archive.
func (p packed) url(version string) string { return downloads + version + "/" + p.name }

// program returns the file name of berth in the archive.
func (p packed) program() string {
	if p.os == "windows" {
		return "berth.exe"
	}
	return "berth"
}

// writePackagers writes the files that krew and Homebrew install berth from, beside the archives.
func (r *release) writePackagers(folder string, archives []packed) error {
	manifest, err := krewManifest(r.source.version, archives)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "krew.yaml"), manifest, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "berth.rb"), []byte(formula(r.source.version, archives)), 0o644)
}

// krewManifest returns the plugin manifest for krew, as https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/ has it. krew takes
// versions that begin with v.
func krewManifest(version string, archives []packed) ([]byte, error) {
	platforms := []any{}
	for _, a := range archives {
		platforms = append(platforms, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"os": a.os, "arch": a.architecture}},
			"uri":      a.url(version), "sha256": a.digest, "bin": a.program(),
			"files": []any{
				map[string]any{"from": a.program(), "to": "."}, map[string]any{"from": "LICENSE", "to": "."}, map[string]any{"from": "licenses", "to": "."},
			},
		})
	}
	return boundedyaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin", "metadata": map[string]any{"name": "berth"},
		"spec": map[string]any{
			"version": version, "homepage": homepage, "shortDescription": summary, "description": description, "platforms": platforms,
		},
	})
}

// homebrewPlatforms are Homebrew's platforms, by Homebrew's names.
var homebrewPlatforms = []struct {
	block string
	os    string
	cpus  []struct{ block, architecture string }
}{
	{"on_macos", "darwin", []struct{ block, architecture string }{{"on_arm", "arm64"}, {"on_intel", "amd64"}}},
	{"on_linux", "linux", []struct{ block, architecture string }{{"on_arm", "arm64"}, {"on_intel", "amd64"}}},
}

// formula returns the formula for Homebrew, as https://docs.brew.sh/Formula-Cookbook has it.
func formula(version string, archives []packed) string {
	var text strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	line("class Berth < Formula")
	line("  desc %q", summary)
	line("  homepage %q", homepage)
	line("  version %q", strings.TrimPrefix(version, "v"))
	line("  license \"Apache-2.0\"")
	for _, system := range homebrewPlatforms {
		line("")
		line("  %s do", system.block)
		for _, cpu := range system.cpus {
			i := slices.IndexFunc(archives, func(a packed) bool { return a.os == system.os && a.architecture == cpu.architecture })
			if i < 0 {
				continue
			}
			line("    %s do", cpu.block)
			line("      url %q", archives[i].url(version))
			line("      sha256 %q", archives[i].digest)
			line("    end")
		}
		line("  end")
	}
	text.WriteString(`
  def install
    bin.install "berth"
    bin.install_symlink "berth" => "kubectl-berth"
    bin.install_symlink "berth" => "kubectl_complete-berth"
    bin.install_symlink "berth" => "oc-berth"
    bash_completion.install "completions/berth.bash" => "berth"
    zsh_completion.install "completions/berth.zsh" => "_berth"
    fish_completion.install "completions/berth.fish"
    prefix.install "licenses"
  end

  test do
    system bin/"berth", "version"
  end
end
`)
	return text.String()
}
