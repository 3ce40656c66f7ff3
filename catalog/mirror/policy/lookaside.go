package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.podman.io/image/v5/docker/reference"

	"github.com/berth-csi/berth/internal/boundedyaml"
)

// Limits of the signatures of an image. Podman has the same limit for their number. Real signatures have a few hundred bytes.
const (
	maxSignatures = 128
	maxSignature  = 4 << 20
	maxKept       = 64 << 20 // bytes of all signatures of one server, which Write needs
)

// place is where simple signatures are.
type place struct {
	Lookaside        string `json:"lookaside"`
	LookasideStaging string `json:"lookaside-staging"`
	// These are former names.
	Sigstore        string `json:"sigstore"`
	SigstoreStaging string `json:"sigstore-staging"`

	UseSigstoreAttachments *bool `json:"use-sigstore-attachments"`
}

// lookaside says where the simple signatures of images are.
type lookaside struct {
	byDefault place
	scopes    map[string]place
	client    *http.Client

	mu   sync.Mutex
	kept map[string]int // bytes, by the address of the server
}

// readRegistries reads the files of a folder registries.d. Without the folder, there are no simple signatures.
func readRegistries(dir string) (*lookaside, error) {
	l := &lookaside{scopes: map[string]place{}, client: &http.Client{Timeout: time.Minute}, kept: map[string]int{}}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	defaultIn, in := "", map[string]string{}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".yaml" {
			continue
		}
		file := filepath.Join(dir, entry.Name())
		text, err := boundedyaml.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var read struct {
			Default *place           `json:"default-docker"`
			Docker  map[string]place `json:"docker"`
		}
		if err := boundedyaml.UnmarshalStrict(text, &read); err != nil {
			return nil, fmt.Errorf("%s: %w; expected a file as containers-registries.d(5) describes it", file, err)
		}
		if read.Default != nil {
			if defaultIn != "" {
				return nil, fmt.Errorf("%s and %s both have default-docker; expected one", defaultIn, file)
			}
			l.byDefault, defaultIn = *read.Default, file
		}
		for scope, of := range read.Docker {
			if in[scope] != "" {
				return nil, fmt.Errorf("%s and %s both have %q; expected one", in[scope], file, scope)
			}
			l.scopes[scope], in[scope] = of, file
		}
	}
	return l, nil
}

// find returns the simple signatures of an image.
func (l *lookaside) find(ctx context.Context, named reference.Named, digest string) (all [][]byte, err error) {
	of := l.byDefault
	if at := slices.IndexFunc(scopesOf(named), func(scope string) bool { return l.scopes[scope].base() != "" }); at >= 0 {
		of = l.scopes[scopesOf(named)[at]]
	}
	if of.base() == "" {
		return nil, nil
	}
	base, err := url.Parse(of.base())
	if err != nil {
		return nil, fmt.Errorf("the lookaside server %q: %w", of.base(), err)
	}
	for i := range maxSignatures {
		at := *base
		at.Path = strings.TrimSuffix(at.Path, "/") + "/" + pathOf(reference.Path(named), digest, i)
		signature, err := l.read(ctx, &at)
		if errors.Is(err, fs.ErrNotExist) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at.Redacted(), err)
		}
		if !l.keep(of.base(), len(signature)) {
			return nil, fmt.Errorf("%s: its signatures have more than %d bytes together; expected fewer", base.Redacted(), maxKept)
		}
		all = append(all, signature)
	}
	return nil, fmt.Errorf("%s has more than %d signatures; expected fewer", base.Redacted(), maxSignatures)
}

// keep counts bytes of a server, and reports whether they may be kept.
func (l *lookaside) keep(server string, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept[server] += n
	return l.kept[server] <= maxKept
}

// base returns the address of the server.
func (p place) base() string {
	if p.Lookaside != "" {
		return p.Lookaside
	}
	return p.Sigstore
}

// pathOf returns the path of signature i, counted from 0, in a lookaside server. repository excludes the registry.
func pathOf(repository, digest string, i int) string {
	return fmt.Sprintf("%s@%s/signature-%d", repository, strings.Replace(digest, ":", "=", 1), i+1)
}

// read reads a file of a lookaside server. The error is fs.ErrNotExist if there is no such file.
func (l *lookaside) read(ctx context.Context, at *url.URL) ([]byte, error) {
	var body io.ReadCloser
	switch at.Scheme {
	case "file":
		file, err := os.Open(at.Path)
		if err != nil {
			return nil, err
		}
		body = file
	case "http", "https":
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
		if err != nil {
			return nil, err
		}
		response, err := l.client.Do(request)
		if err != nil {
			return nil, err
		}
		body = response.Body
		if response.StatusCode != http.StatusOK {
			body.Close()
			if response.StatusCode == http.StatusNotFound {
				return nil, fs.ErrNotExist
			}
			return nil, fmt.Errorf("the server answers %s; expected 200 or 404", response.Status)
		}
	default:
		return nil, fmt.Errorf("the scheme is %q; expected https, http or file", at.Scheme)
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxSignature+1))
	if err == nil && len(text) > maxSignature {
		err = fmt.Errorf("it has more than %d bytes; expected a signature", maxSignature)
	}
	return text, err
}
