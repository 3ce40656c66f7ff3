package policy_test

import (
	"bytes"
	"compress/flate"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	//lint:ignore SA1019 the package has the reason
	"golang.org/x/crypto/openpgp"
	"golang.org/x/crypto/openpgp/packet" //lint:ignore SA1019 likewise

	"github.com/berth-csi/berth/catalog/mirror/policy"
	"github.com/berth-csi/berth/internal/oci"
	"github.com/berth-csi/berth/lab/registry"
)

const repository = "example/tide"

// image is an image for several architectures, in a registry, and a lookaside server.
type image struct {
	host, digest string
	children     []string
	lookaside    string // its folder
	server       string // its address
}

func newImage(t *testing.T) *image {
	t.Helper()
	i := &image{host: registry.Start(t, nil), lookaside: t.TempDir()}
	server := httptest.NewServer(http.FileServer(http.Dir(i.lookaside)))
	t.Cleanup(server.Close)
	i.server = server.URL
	index, err := oci.Content{Files: map[string][]byte{"hold/cargo": []byte("tide")}}.Index()
	require.NoError(t, err)
	if i.digest, err = oci.Push(t.Context(), i.host+"/"+repository+":v1", index); err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	for _, child := range manifest.Manifests {
		i.children = append(i.children, child.Digest.String())
	}
	return i
}

func (i *image) byDigest() string { return i.host + "/" + repository + "@" + i.digest }

// payload is the statement that signatures of an image sign.
func payload(kind, digest, reference string) []byte {
	return fmt.Appendf(nil, `{"critical":{"type":%q,"image":{"docker-manifest-digest":%q},"identity":{"docker-reference":%q}},"optional":{"creator":"a test"}}`, kind, digest, reference)
}

const (
	ofPodman = "atomic container signature"
	ofCosign = "cosign container image signature"
)

// put puts a simple signature into the lookaside server.
func (i *image) put(t *testing.T, digest string, signature []byte) {
	t.Helper()
	dir := filepath.Join(i.lookaside, repository+"@"+strings.Replace(digest, ":", "=", 1))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	before, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("signature-%d", len(before)+1)), signature, 0o644))
}

// attach attaches a signature of cosign's to the image.
func (i *image) attach(t *testing.T, digest string, text, signature []byte) {
	t.Helper()
	signed, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer:       static.NewLayer(text, "application/vnd.dev.cosign.simplesigning.v1+json"),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(signature)},
	})
	require.NoError(t, err)
	tag, err := name.NewTag(i.host + "/" + repository + ":" + strings.Replace(digest, ":", "-", 1) + ".sig")
	require.NoError(t, err)
	require.NoError(t, remote.Write(tag, signed))
}

// person has a key of OpenPGP.
type person struct{ *openpgp.Entity }

func newPerson(t *testing.T) person {
	t.Helper()
	entity, err := openpgp.NewEntity("Ada", "", "ada@example.com", &packet.Config{DefaultHash: crypto.SHA256})
	require.NoError(t, err)
	return person{entity}
}

func (p person) sign(t *testing.T, text []byte) []byte {
	t.Helper()
	var signed bytes.Buffer
	w, err := openpgp.Sign(&signed, p.Entity, nil, nil)
	require.NoError(t, err)
	_, err = w.Write(text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return signed.Bytes()
}

func (p person) public(t *testing.T) string {
	t.Helper()
	var key bytes.Buffer
	require.NoError(t, p.Serialize(&key))
	return base64.StdEncoding.EncodeToString(key.Bytes())
}

// curve is a key of cosign's.
type curve struct{ *ecdsa.PrivateKey }

func newCurve(t *testing.T) curve {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return curve{key}
}

func (c curve) sign(t *testing.T, text []byte) []byte {
	t.Helper()
	sum := sha256.Sum256(text)
	signature, err := ecdsa.SignASN1(rand.Reader, c.PrivateKey, sum[:])
	require.NoError(t, err)
	return signature
}

func publicKey(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// check checks an image by a policy.
func (i *image) check(t *testing.T, text, reference string) (*policy.Policy, error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "policy.json"), []byte(text), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "default.yaml"), []byte("docker:\n  "+i.host+":\n    lookaside: "+i.server+"\n"), 0o644))
	p, err := policy.Read(filepath.Join(dir, "policy.json"), dir)
	if err != nil {
		return nil, err
	}
	from := oci.Registries(t.Context())
	w, err := oci.Walk(t.Context(), from, reference)
	require.NoError(t, err)
	return p, p.Check(t.Context(), from, w)
}

// of is a policy that wants something of the images of a scope, and accepts no others.
func of(scope, requirement string) string {
	return fmt.Sprintf(`{"default": [{"type": "reject"}], "transports": {"docker": {%q: [%s]}}}`, scope, requirement)
}

// mustBe compares an error with a part of its text, or "" for none.
func mustBe(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// TestScopes: the most specific scope of a policy counts.
func TestScopes(t *testing.T) {
	i := newImage(t)
	host, _, _ := strings.Cut(i.host, ":")
	const accept, reject = `[{"type": "insecureAcceptAnything"}]`, `[{"type": "reject"}]`
	for scopes, want := range map[string]string{
		`{}`:                            "default",
		fmt.Sprintf(`{"": %s}`, accept): "",
		fmt.Sprintf(`{"": %s, %q: %s}`, accept, i.host, reject):                                fmt.Sprintf("transports.docker[%q]", i.host),
		fmt.Sprintf(`{%q: %s, %q: %s}`, i.host, reject, i.host+"/example", accept):             "",
		fmt.Sprintf(`{%q: %s, %q: %s}`, i.host+"/example", accept, i.byDigest(), reject):       fmt.Sprintf("transports.docker[%q]", i.byDigest()),
		fmt.Sprintf(`{%q: %s}`, i.host+"/exam", accept):                                        "default",
		fmt.Sprintf(`{%q: %s}`, "*"+i.host[strings.Index(host, "."):], accept):                 "",
		fmt.Sprintf(`{%q: %s, "": %s}`, "*"+i.host[strings.Index(host, "."):], reject, accept): "transports.docker",
	} {
		_, err := i.check(t, `{"default": `+reject+`, "transports": {"docker": `+scopes+`}}`, i.byDigest())
		t.Log(scopes)
		mustBe(t, err, want)
	}
}

// TestSignedBy: simple signatures in a lookaside server, of a library and of GnuPG.
func TestSignedBy(t *testing.T) {
	ada, mallory := newPerson(t), newPerson(t)
	for _, test := range []struct {
		name string
		sign func(i *image)
		want string
		more string // of the requirement
	}{
		{"nothing is signed", func(*image) {}, "found no simple signature", ""},
		{"the list is signed", func(i *image) { i.put(t, i.digest, ada.sign(t, payload(ofPodman, i.digest, i.byDigest()))) }, "", ""},
		{"each image is signed", func(i *image) {
			for _, child := range i.children {
				i.put(t, child, ada.sign(t, payload(ofPodman, child, i.host+"/"+repository+":v1")))
			}
		}, "", ""},
		{"one image is not signed", func(i *image) {
			for _, child := range i.children[1:] {
				i.put(t, child, ada.sign(t, payload(ofPodman, child, i.host+"/"+repository+":v1")))
			}
		}, "found no simple signature", ""},
		{"by another key", func(i *image) { i.put(t, i.digest, mallory.sign(t, payload(ofPodman, i.digest, i.byDigest()))) }, "expected one of the policy", ""},
		{"the second one is good", func(i *image) {
			i.put(t, i.digest, mallory.sign(t, payload(ofPodman, i.digest, i.byDigest())))
			i.put(t, i.digest, ada.sign(t, payload(ofPodman, i.digest, i.byDigest())))
		}, "", ""},
		{"about another image", func(i *image) { i.put(t, i.digest, ada.sign(t, payload(ofPodman, i.children[0], i.byDigest()))) }, "it is about sha256:", ""},
		{"for another repository", func(i *image) {
			i.put(t, i.digest, ada.sign(t, payload(ofPodman, i.digest, i.host+"/example/other:v1")))
		}, "does not allow", ""},
		{"for another repository, which the policy allows", func(i *image) {
			i.put(t, i.digest, ada.sign(t, payload(ofPodman, i.digest, "registry.example.com/vendor/tide:v1")))
		}, "", `, "signedIdentity": {"type": "remapIdentity", "prefix": "HOST/example", "signedPrefix": "registry.example.com/vendor"}`},
		{"of another kind", func(i *image) { i.put(t, i.digest, ada.sign(t, payload(ofCosign, i.digest, i.byDigest()))) }, "expected \"atomic container signature\"", ""},
		{"changed", func(i *image) {
			signature := ada.sign(t, payload(ofPodman, i.digest, i.byDigest()))
			i.put(t, i.digest, bytes.Replace(signature, []byte("critical"), []byte("Critical"), 1)) // JSON knows it by both
		}, "invalid signature", ""},
		{"no signature", func(i *image) { i.put(t, i.digest, payload(ofPodman, i.digest, i.byDigest())) }, "no OpenPGP message", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := newImage(t)
			test.sign(i)
			more := strings.ReplaceAll(test.more, "HOST", i.host)
			_, err := i.check(t, of(i.host, fmt.Sprintf(`{"type": "signedBy", "keyType": "GPGKeys", "keyData": %q%s}`, ada.public(t), more)), i.byDigest())
			mustBe(t, err, test.want)
			if test.want != "" && (!oci.IsAbsent(err) || !strings.Contains(err.Error(), fmt.Sprintf("entry 1 of transports.docker[%q], signedBy", i.host))) {
				t.Errorf("got %v; want an error of this image, which names the entry", err)
			}
		})
	}
}

// TestGnuPG: a signature that the program gpg has made.
func TestGnuPG(t *testing.T) {
	gpg, err := exec.LookPath("gpg")
	if err != nil {
		t.Skip("want gpg on the PATH")
	}
	home, err := os.MkdirTemp("", "gpg-") // a short path, for its sockets
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	run := func(in []byte, args ...string) []byte {
		t.Helper()
		cmd := exec.Command(gpg, append([]string{"--homedir", home, "--batch", "--passphrase", "", "--pinentry-mode", "loopback"}, args...)...)
		cmd.Stdin = bytes.NewReader(in)
		out, err := cmd.Output()
		require.NoErrorf(t, err, "gpg %q", args)
		return out
	}
	run(nil, "--quick-gen-key", "ada@example.com", "rsa2048", "sign", "never")
	i, key := newImage(t), filepath.Join(t.TempDir(), "key.asc")
	require.NoError(t, os.WriteFile(key, run(nil, "--armor", "--export", "ada@example.com"), 0o644))
	i.put(t, i.digest, run(payload(ofPodman, i.digest, i.host+"/"+repository+":v1"), "--sign", "--local-user", "ada@example.com"))
	p, err := i.check(t, of(i.host, fmt.Sprintf(`{"type": "signedBy", "keyType": "GPGKeys", "keyPath": %q}`, key)), i.host+"/"+repository+":v1")
	require.NoError(t, err)
	copied := t.TempDir()
	require.NoError(t, p.Write(copied, nil))
	path := repository + "@" + strings.Replace(i.digest, ":", "=", 1) + "/signature-1"
	want, err := os.ReadFile(filepath.Join(i.lookaside, path))
	require.NoError(t, err)
	if got, err := os.ReadFile(filepath.Join(copied, policy.Folder, path)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from its copy (%v)", path, err)
	}
}

// TestSigstoreSigned: signatures of cosign's, with keys.
func TestSigstoreSigned(t *testing.T) {
	ada, mallory := newCurve(t), newCurve(t)
	edwards, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	key := fmt.Sprintf(`"keyData": %q`, publicKey(t, ada.Public()))
	for _, test := range []struct {
		name, keys, want string
		sign             func(i *image, text []byte) []byte
	}{
		{"nothing is signed", key, "found no signature of cosign", nil},
		{"signed", key, "", func(_ *image, text []byte) []byte { return ada.sign(t, text) }},
		{"one of two keys", fmt.Sprintf(`"keyDatas": [%q, %q]`, publicKey(t, mallory.Public()), publicKey(t, ada.Public())), "", func(_ *image, text []byte) []byte { return ada.sign(t, text) }},
		{"Ed25519", fmt.Sprintf(`"keyData": %q`, publicKey(t, edwards)), "", func(_ *image, text []byte) []byte { return ed25519.Sign(private, text) }},
		{"by another key", key, "none of the policy's keys", func(_ *image, text []byte) []byte { return mallory.sign(t, text) }},
		{"without a key", `"fulcio": {}`, "it has fulcio, which this command does not verify", func(_ *image, text []byte) []byte { return ada.sign(t, text) }},
		{"with a transparency log", key + `, "rekorPublicKeyData": "YQ=="`, "it has rekorPublicKeyData", func(_ *image, text []byte) []byte { return ada.sign(t, text) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := newImage(t)
			if test.sign != nil {
				text := payload(ofCosign, i.digest, i.host+"/"+repository)
				i.attach(t, i.digest, text, test.sign(i, text))
			}
			_, err := i.check(t, of(i.host, fmt.Sprintf(`{"type": "sigstoreSigned", %s, "signedIdentity": {"type": "matchRepository"}}`, test.keys)), i.byDigest())
			mustBe(t, err, test.want)
		})
	}
}

// TestLargeSignature: a registry decides how large the payloads are that are kept in memory.
func TestLargeSignature(t *testing.T) {
	i := newImage(t)
	i.attach(t, i.digest, bytes.Repeat([]byte(" "), 65<<10), []byte("a signature"))
	_, err := i.check(t, of(i.host, fmt.Sprintf(`{"type": "sigstoreSigned", "keyData": %q}`, publicKey(t, newCurve(t).Public()))), i.byDigest())
	mustBe(t, err, "has 66560 bytes; expected at most 65536")
}

// TestManyLargeSignatures: a lookaside server decides how many signatures are kept in memory, for how many images.
func TestManyLargeSignatures(t *testing.T) {
	i := newImage(t)
	large := filepath.Join(t.TempDir(), "signature")
	require.NoError(t, os.WriteFile(large, make([]byte, 4<<20), 0o644))
	dir := filepath.Join(i.lookaside, repository+"@"+strings.Replace(i.digest, ":", "=", 1))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for number := range 17 {
		require.NoError(t, os.Symlink(large, filepath.Join(dir, fmt.Sprintf("signature-%d", number+1))))
	}
	_, err := i.check(t, of(i.host, `{"type": "insecureAcceptAnything"}`), i.byDigest())
	mustBe(t, err, i.server+": its signatures have more than 67108864 bytes together; expected fewer")
}

// TestCompressedSignature: a lookaside server decides how long it takes to read a signature.
func TestCompressedSignature(t *testing.T) {
	const ofUnknownType, compressed = "\xbf", "\xa3\x01" // packets to the end of the text around them
	const emptyOfUnknownType = "\xff\x00"
	deflate := func(text []byte) []byte {
		packet := bytes.NewBufferString(compressed)
		w, err := flate.NewWriter(packet, flate.BestCompression)
		require.NoError(t, err)
		_, err = w.Write(text)
		require.NoError(t, errors.Join(err, w.Close()))
		return packet.Bytes()
	}
	long := append([]byte(ofUnknownType), make([]byte, 5<<20)...)
	for want, signature := range map[string][]byte{
		"it expands to more than 4194304 bytes; expected a signature": deflate(long),
		"a part of it is compressed; expected all of it, or nothing":  deflate(deflate(long)),
		"part of it is compressed; expected all of it, or nothing":    append([]byte{0x80 | 15<<2, 1, 0}, deflate(long)...),
		"it cannot be expanded: flate: ":                              []byte(compressed + "\xff"),
		"it has more than 64 packets; expected a signature":           deflate(bytes.Repeat([]byte(emptyOfUnknownType), 1<<20)),
		"it is no OpenPGP message: ":                                  []byte(ofUnknownType),
	} {
		i := newImage(t)
		i.put(t, i.digest, signature)
		_, err := i.check(t, of(i.host, fmt.Sprintf(`{"type": "signedBy", "keyType": "GPGKeys", "keyData": %q}`, newPerson(t).public(t))), i.byDigest())
		mustBe(t, err, want)
	}
}

// TestUnknown: what a policy wants and this package does not know refuses images, or the policy.
func TestUnknown(t *testing.T) {
	i := newImage(t)
	for requirement, want := range map[string]string{
		`{"type": "signedBaseLayer", "baseLayerIdentity": {"type": "matchRepository"}}`: "this command does not know it",
		`{"type": "signedBy", "keyType": "X509Certificates", "keyData": "YQ=="}`:        "expected GPGKeys",
		`{"type": "signedBy", "keyType": "GPGKeys"}`:                                    "found 0 of keyPath",
		`{"type": "reject", "unless": "Friday"}`:                                        "unknown field",
	} {
		_, err := i.check(t, of(i.host, requirement), i.byDigest())
		mustBe(t, err, want)
	}
	for text, want := range map[string]string{
		`{}`:                                  "default has no requirements",
		`{"default": [{"type": "reject"}]} x`: "more follows",
		`{"default": [{"type": "reject"}], "transports": {"docker": {"quay.io": []}}}`: "has no requirements",
	} {
		_, err := i.check(t, text, i.byDigest())
		mustBe(t, err, want)
	}
}
