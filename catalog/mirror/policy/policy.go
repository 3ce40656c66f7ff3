// Package policy decides by a policy.json, as containers-policy.json(5) describes it, whether an image may be mirrored. It finds simple
// signatures where the files of a registries.d folder say, and cosign's signatures beside the image.
//
// It does not use Podman's library, go.podman.io/image/v5/signature: without cgo, that library needs a build tag, which everybody who
// builds berth would have to set.
package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"go.podman.io/image/v5/docker/reference"

	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/oci"
)

// Policy says which signatures images need.
type Policy struct {
	file      string
	byDefault []requirement
	scopes    map[string][]requirement // of registries
	lookaside *lookaside

	mu    sync.Mutex
	found map[kept][]byte // signatures
}

// kept identifies a signature: by its number among the signatures of a manifest, and by the manifest's repository and digest.
type kept struct {
	repository, digest string
	number             int
}

// Read reads a policy, and the folder that says where simple signatures are.
func Read(file, registries string) (*Policy, error) {
	text, err := boundedyaml.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w; expected a policy as containers-policy.json(5) describes it", err)
	}
	var read struct {
		Default    []requirement                       `json:"default"`
		Transports map[string]map[string][]requirement `json:"transports"`
	}
	if err := strictly(text, &read); err != nil {
		return nil, fmt.Errorf("%s: %w; expected a policy as containers-policy.json(5) describes it", file, err)
	}
	if len(read.Default) == 0 {
		return nil, fmt.Errorf("%s: default has no requirements; expected at least one, such as {\"type\": \"reject\"}", file)
	}
	p := &Policy{file: file, byDefault: read.Default, scopes: read.Transports["docker"], found: map[kept][]byte{}}
	for _, scope := range slices.Sorted(maps.Keys(p.scopes)) {
		if len(p.scopes[scope]) == 0 {
			return nil, fmt.Errorf("%s: the scope %q of docker has no requirements; expected at least one", file, scope)
		}
	}
	if p.lookaside, err = readRegistries(registries); err != nil {
		return nil, err
	}
	return p, nil
}

// strictly decodes a JSON document. It fails if the document has unknown fields, or if anything comes after it.
func strictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if decoder.More() {
		return errors.New("more follows the document")
	}
	return nil
}

// Check fails unless the policy allows an image. A list of images is allowed if the list itself has the signatures that the policy
// requires, or if each of its images has them.
func (p *Policy) Check(ctx context.Context, from oci.Source, w *oci.Whole) error {
	named, err := reference.ParseNormalizedNamed(w.Reference)
	if err != nil {
		return oci.Refused(fmt.Errorf("image %s: the policy %s has no scope for it: %w", w.Reference, p.file, err))
	}
	scope, wanted := p.requirements(named)
	allowed := func(digest string) error {
		signatures, err := p.signatures(ctx, from, named, w, digest)
		if err != nil {
			return fmt.Errorf("image %s: reading its signatures: %w", w.Reference, err)
		}
		for i, r := range wanted {
			if err := r.check(named, digest, signatures); err != nil {
				return oci.Refused(fmt.Errorf("image %s: the policy %s refuses it by entry %d of %s, %s: %s: %w", w.Reference, p.file, i+1, scope, r.Type, digest, err))
			}
		}
		return nil
	}
	refused := allowed(w.Digest)
	if refused != nil && !oci.IsAbsent(refused) {
		return refused // its signatures cannot be read
	}
	if refused == nil || len(w.Images) == 0 {
		for _, digest := range w.Images { // nodes look for the signatures of these, so Write needs them
			if _, err := p.signatures(ctx, from, named, w, digest); err != nil {
				return fmt.Errorf("image %s: reading its signatures: %w", w.Reference, err)
			}
		}
		return refused
	}
	for _, digest := range w.Images {
		switch err := allowed(digest); {
		case err != nil && !oci.IsAbsent(err):
			return err
		case err != nil:
			return refused
		}
	}
	return nil
}

// requirements returns the policy's requirements for an image, from the most specific scope that the image is in.
func (p *Policy) requirements(named reference.Named) (scope string, _ []requirement) {
	all := scopesOf(named)
	host := reference.Domain(named)
	for {
		_, below, is := strings.Cut(host, ".")
		if !is {
			break
		}
		all, host = append(all, "*."+below), below
	}
	for _, scope := range append(all, "") {
		if wanted := p.scopes[scope]; len(wanted) > 0 {
			return fmt.Sprintf("transports.docker[%q]", scope), wanted
		}
	}
	return "default", p.byDefault
}

// scopesOf returns the scopes that an image is in, the most specific one first: itself, its repository and all above that.
func scopesOf(named reference.Named) []string {
	all := []string{named.String()}
	for name := named.Name(); ; {
		all = append(all, name)
		cut := strings.LastIndex(name, "/")
		if cut < 0 {
			return all
		}
		name = name[:cut]
	}
}

// signed are the signatures of an image.
type signed struct {
	simple   [][]byte
	attached []oci.Signature
}

// signatures returns the signatures of an image, and keeps simple ones for Write.
func (p *Policy) signatures(ctx context.Context, from oci.Source, named reference.Named, w *oci.Whole, digest string) (s signed, err error) {
	if s.attached, err = oci.Signatures(ctx, from, w, digest); err != nil {
		return s, err
	}
	found, err := p.lookaside.find(ctx, named, digest)
	if err != nil {
		return s, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, signature := range found {
		s.simple = append(s.simple, signature)
		p.found[kept{named.Name(), digest, i}] = signature
	}
	return s, nil
}

// Folder is the folder that Write makes.
const Folder = "signatures"

// Write writes all simple signatures that were found to Folder in an existing folder, in the layout of a lookaside server. It follows no
// link out of the existing folder. places maps mirrored repositories to their paths in the mirror: a node that pulls from a mirror looks
// for signatures under the path there. Signatures of other repositories stay under their own paths.
func (p *Policy) Write(dir string, places map[string]string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	p.mu.Lock()
	defer p.mu.Unlock()
	for of, signature := range p.found {
		place := places[of.repository]
		if place == "" {
			_, place, _ = strings.Cut(of.repository, "/")
		}
		file := path.Join(Folder, pathOf(place, of.digest, of.number))
		if err := root.MkdirAll(path.Dir(file), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(file, signature, 0o644); err != nil {
			return err
		}
	}
	return nil
}
