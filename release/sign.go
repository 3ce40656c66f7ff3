package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// cosignFolder has the go.mod that pins cosign.
const cosignFolder = "hack/cosign"

// sign signs the images, for all platforms, and their attached documents. Without a key there are no signatures.
func (r *release) sign(ctx context.Context) error {
	if r.key == "" {
		r.say("  no KEY is given: nothing is signed")
		return nil
	}
	cosign, err := r.cosign(ctx)
	if err != nil {
		return err
	}
	for _, p := range r.pushed {
		signed := []string{r.pullSpec(p)}
		for _, document := range p.documents {
			signed = append(signed, r.repository(p.name)+"@"+document)
		}
		// The public log is left out: it is for keys that belong to identities, and would reveal the names of private registries.
		command := exec.CommandContext(ctx, cosign, append([]string{"sign", "--yes", "--recursive", "--key", r.key,
			"--use-signing-config=false", "--tlog-upload=false"}, signed...)...)
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("signing %s: %w\n%s", p.name, err, out)
		}
	}
	return nil
}

// cosign compiles the pinned cosign and returns its path.
func (r *release) cosign(ctx context.Context) (string, error) {
	file, err := filepath.Abs(filepath.Join(r.output, "programs", "cosign"))
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", file, "github.com/sigstore/cosign/v3/cmd/cosign")
	build.Dir, build.Env, build.Stderr = cosignFolder, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off"), os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("compiling cosign: %w", err)
	}
	return file, nil
}
