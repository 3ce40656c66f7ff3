package policy

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.podman.io/image/v5/docker/reference"
	//lint:ignore SA1019 Podman's library has it in its builds without cgo, too, and it adds no module
	"golang.org/x/crypto/openpgp"
	//lint:ignore SA1019 likewise
	"golang.org/x/crypto/openpgp/armor"
	//lint:ignore SA1019 likewise
	pgperrors "golang.org/x/crypto/openpgp/errors"
	//lint:ignore SA1019 likewise
	"golang.org/x/crypto/openpgp/packet"

	"github.com/berth-csi/berth/internal/boundedyaml"
	"github.com/berth-csi/berth/internal/oci"
)

// requirement is an entry of a policy about an image.
type requirement struct {
	Type           string    `json:"type"`
	KeyType        string    `json:"keyType"`
	KeyPath        string    `json:"keyPath"`
	KeyPaths       []string  `json:"keyPaths"`
	KeyData        []byte    `json:"keyData"`
	KeyDatas       [][]byte  `json:"keyDatas"`
	SignedIdentity *identity `json:"signedIdentity"`

	// These fields ask for checks that this package does not make.
	BaseLayerIdentity   json.RawMessage `json:"baseLayerIdentity"`
	Fulcio              json.RawMessage `json:"fulcio"`
	PKI                 json.RawMessage `json:"pki"`
	RekorPublicKeyPath  json.RawMessage `json:"rekorPublicKeyPath"`
	RekorPublicKeyPaths json.RawMessage `json:"rekorPublicKeyPaths"`
	RekorPublicKeyData  json.RawMessage `json:"rekorPublicKeyData"`
	RekorPublicKeyDatas json.RawMessage `json:"rekorPublicKeyDatas"`
}

// check fails unless an image meets the requirement.
func (r *requirement) check(named reference.Named, digest string, s signed) error {
	switch r.Type {
	case "insecureAcceptAnything":
		return nil
	case "reject":
		return errors.New("it rejects all images")
	case "signedBy":
		if r.KeyType != "GPGKeys" {
			return fmt.Errorf("keyType is %q; expected GPGKeys", r.KeyType)
		}
		return r.oneOf(len(s.simple), "simple signature in a lookaside server of registries.d", func(keys [][]byte, i int) error {
			payload, err := simple(s.simple[i], keys)
			if err != nil {
				return err
			}
			return r.says(payload, "atomic container signature", named, digest)
		})
	case "sigstoreSigned":
		for field, text := range map[string]json.RawMessage{"fulcio": r.Fulcio, "pki": r.PKI, "rekorPublicKeyPath": r.RekorPublicKeyPath, "rekorPublicKeyPaths": r.RekorPublicKeyPaths,
			"rekorPublicKeyData": r.RekorPublicKeyData, "rekorPublicKeyDatas": r.RekorPublicKeyDatas} {
			if text != nil {
				return fmt.Errorf("it has %s, which this command does not verify; expected only keys", field)
			}
		}
		return r.oneOf(len(s.attached), "signature of cosign beside the image", func(keys [][]byte, i int) error {
			if err := byKey(s.attached[i], keys); err != nil {
				return err
			}
			return r.says(s.attached[i].Payload, "cosign container image signature", named, digest)
		})
	}
	return errors.New("this command does not know it; expected insecureAcceptAnything, reject, signedBy or sigstoreSigned")
}

// oneOf fails unless one of the signatures is good.
func (r *requirement) oneOf(number int, kind string, good func(keys [][]byte, i int) error) error {
	keys, err := r.keys()
	if err != nil {
		return err
	}
	if number == 0 {
		return fmt.Errorf("found no %s; expected one by the policy's keys", kind)
	}
	var reasons []string
	for i := range number {
		err := good(keys, i)
		if err == nil {
			return nil
		}
		reasons = append(reasons, err.Error())
	}
	return fmt.Errorf("none of its signatures is good: %s", strings.Join(reasons, "; "))
}

// keys returns the texts of the keys.
func (r *requirement) keys() ([][]byte, error) {
	given := 0
	for _, is := range []bool{r.KeyPath != "", len(r.KeyPaths) > 0, len(r.KeyData) > 0, len(r.KeyDatas) > 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		return nil, fmt.Errorf("found %d of keyPath, keyPaths, keyData and keyDatas; expected one", given)
	}
	all, paths := r.KeyDatas, r.KeyPaths
	if len(r.KeyData) > 0 {
		all = [][]byte{r.KeyData}
	}
	if r.KeyPath != "" {
		paths = []string{r.KeyPath}
	}
	for _, path := range paths {
		key, err := boundedyaml.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, key)
	}
	return all, nil
}

// simple returns the payload of a simple signature. It fails unless the signature is valid, and by one of the keys.
func simple(signature []byte, keys [][]byte) (payload []byte, err error) {
	var ring openpgp.EntityList
	for _, key := range keys {
		read := openpgp.ReadKeyRing
		if bytes.Contains(key, []byte("-----BEGIN PGP")) {
			read = openpgp.ReadArmoredKeyRing
		}
		entities, err := read(bytes.NewReader(key))
		if err != nil {
			return nil, fmt.Errorf("the policy's key is no OpenPGP key: %w", err)
		}
		ring = append(ring, entities...)
	}
	var body io.Reader = bytes.NewReader(signature)
	if block, err := armor.Decode(bytes.NewReader(signature)); err == nil {
		body = block.Body
	}
	packets, err := expand(body)
	if err != nil {
		return nil, err
	}
	message, err := openpgp.ReadMessage(bytes.NewReader(packets), ring, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("it is no OpenPGP message: %w", err)
	}
	if !message.IsSigned {
		return nil, errors.New("it is not signed")
	}
	if message.SignedBy == nil {
		return nil, fmt.Errorf("it is by the key %X; expected one of the policy", message.SignedByKeyId)
	}
	if payload, err = io.ReadAll(io.LimitReader(message.UnverifiedBody, maxSignature)); err != nil {
		return nil, err
	}
	if message.SignatureError != nil {
		return nil, message.SignatureError
	}
	now := time.Now()
	switch of := message.Signature; {
	case of == nil:
		return nil, errors.New("it is by version 3 of OpenPGP signatures; expected version 4")
	case of.SigLifetimeSecs != nil && now.After(of.CreationTime.Add(time.Duration(*of.SigLifetimeSecs)*time.Second)):
		return nil, errors.New("it has expired")
	case message.SignedBy.SelfSignature != nil && message.SignedBy.SelfSignature.KeyExpired(now):
		return nil, fmt.Errorf("its key %X has expired", message.SignedByKeyId)
	}
	return payload, nil
}

// maxPackets is the number of packets that a signature may have, with its end. gpg makes three. Reading one takes longer than expanding it: of
// the smallest ones, four kilobytes stand for two million.
const maxPackets = 65

// expand returns the packets of an OpenPGP message, which may be compressed as a whole, as gpg does it. The library skips unknown packets in
// compressed ones in compressed ones, of which a few kilobytes stand for terabytes.
func expand(message io.Reader) ([]byte, error) {
	text, err := io.ReadAll(message)
	if err != nil {
		return nil, err
	}
	first, err := packet.Read(bytes.NewReader(text))
	if whole, is := first.(*packet.Compressed); is && err == nil {
		if text, err = io.ReadAll(io.LimitReader(whole.Body, maxSignature+1)); err != nil {
			return nil, fmt.Errorf("it cannot be expanded: %w", err)
		}
	}
	if len(text) > maxSignature {
		return nil, fmt.Errorf("it expands to more than %d bytes; expected a signature", maxSignature)
	}
	rest := bytes.NewReader(text)
	for range maxPackets {
		next, err := packet.Read(rest)
		unknown := pgperrors.UnknownPacketTypeError(0)
		if err != nil && !errors.As(err, &unknown) {
			return text, nil // its end, or what the library does not read either
		}
		switch next := next.(type) {
		case *packet.Compressed:
			return nil, errors.New("a part of it is compressed; expected all of it, or nothing")
		case *packet.LiteralData:
			if _, err := io.Copy(io.Discard, next.Body); err != nil {
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("it has more than %d packets; expected a signature", maxPackets-1)
}

// byKey fails unless a signature of cosign is by one of the keys.
func byKey(signature oci.Signature, keys [][]byte) error {
	sum := sha256.Sum256(signature.Payload)
	for _, text := range keys {
		block, _ := pem.Decode(text)
		if block == nil {
			return errors.New("the policy's key is not in PEM")
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return fmt.Errorf("the policy's key: %w", err)
		}
		good := false
		switch key := key.(type) {
		case *ecdsa.PublicKey:
			good = ecdsa.VerifyASN1(key, sum[:], signature.Signature)
		case ed25519.PublicKey:
			good = ed25519.Verify(key, signature.Payload, signature.Signature)
		case *rsa.PublicKey:
			good = rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature.Signature) == nil
		}
		if good {
			return nil
		}
	}
	return errors.New("it is by none of the policy's keys")
}

// says fails unless the payload of a good signature names the image: by its digest, and by a name that signedIdentity accepts.
func (r *requirement) says(payload []byte, kind string, named reference.Named, digest string) error {
	var read struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
			Identity struct {
				Reference string `json:"docker-reference"`
			} `json:"identity"`
		} `json:"critical"`
		Optional json.RawMessage `json:"optional"`
	}
	if err := strictly(payload, &read); err != nil {
		return fmt.Errorf("its payload: %w", err)
	}
	is := read.Critical
	if is.Type != kind {
		return fmt.Errorf("it is %q; expected %q", is.Type, kind)
	}
	if is.Image.Digest != digest {
		return fmt.Errorf("it is about %s", is.Image.Digest)
	}
	by := r.SignedIdentity
	if by == nil {
		by = &identity{Type: "matchRepoDigestOrExact"}
	}
	return by.match(named, is.Identity.Reference)
}

// identity says which names of images a signature may contain to be valid for an image.
type identity struct {
	Type             string `json:"type"`
	DockerReference  string `json:"dockerReference"`
	DockerRepository string `json:"dockerRepository"`
	Prefix           string `json:"prefix"`
	SignedPrefix     string `json:"signedPrefix"`
}

// match fails unless a signature is valid for the image named; text is the name of the image in the signature.
func (i *identity) match(named reference.Named, text string) error {
	signed, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return fmt.Errorf("it is for %q, which is no name of an image", text)
	}
	exact := func(want reference.Named) bool {
		return !reference.IsNameOnly(want) && !reference.IsNameOnly(signed) && want.String() == signed.String()
	}
	repoDigestOrExact := func(want reference.Named) bool {
		if _, tagged := want.(reference.NamedTagged); tagged {
			return exact(want)
		}
		_, byDigest := want.(reference.Canonical)
		return byDigest && !reference.IsNameOnly(signed) && want.Name() == signed.Name()
	}
	good := false
	switch i.Type {
	case "matchExact":
		good = exact(named)
	case "matchRepoDigestOrExact":
		good = repoDigestOrExact(named)
	case "matchRepository":
		good = named.Name() == signed.Name()
	case "exactReference":
		want, err := reference.ParseNormalizedNamed(i.DockerReference)
		good = err == nil && exact(want)
	case "exactRepository":
		want, err := reference.ParseNormalizedNamed(i.DockerRepository)
		good = err == nil && want.Name() == signed.Name()
	case "remapIdentity":
		want := named
		if rest, is := strings.CutPrefix(named.String(), i.Prefix); is && (named.Name() == i.Prefix || strings.HasPrefix(named.Name(), i.Prefix+"/")) {
			if want, err = reference.ParseNamed(i.SignedPrefix + rest); err != nil {
				return fmt.Errorf("signedPrefix %q: %w", i.SignedPrefix, err)
			}
		}
		good = repoDigestOrExact(want)
	default:
		return fmt.Errorf("signedIdentity has the type %q, which this command does not know", i.Type)
	}
	if !good {
		return fmt.Errorf("it is for %s, which %s does not allow for %s", text, i.Type, named)
	}
	return nil
}
