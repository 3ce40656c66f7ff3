package oci

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Signature is an unverified signature that cosign has attached to an image.
type Signature struct{ Payload, Signature []byte }

// cosignSignature is the annotation of a layer with a payload that holds its signature, in base64.
const cosignSignature = "dev.cosignproject.cosign/signature"

// Limits of cosign's signatures of one manifest, which anybody who may push can attach. A real payload has a few hundred bytes.
const (
	maxSignatures = 128
	maxPayload    = 64 << 10
)

// Signatures returns the signatures that cosign has attached to a manifest of an image, by cosign's tag.
func Signatures(ctx context.Context, from Source, w *Whole, digest string) (all []Signature, err error) {
	of, err := v1.NewHash(digest)
	if err != nil {
		return nil, err
	}
	repository := w.ref.Context()
	_, text, err := from.manifest(ctx, repository.Tag(of.Algorithm+"-"+of.Hex+attachedTags[0]))
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	read, err := contentOf(text)
	if err != nil {
		return nil, contentErrorf("the signatures of %s cannot be read: %v", digest, err)
	}
	if len(read.Layers) > maxSignatures {
		return nil, contentErrorf("%d signatures are attached to %s; expected at most %d", len(read.Layers), digest, maxSignatures)
	}
	for _, layer := range read.Layers {
		value := layer.Annotations[cosignSignature]
		if value == "" {
			continue // something else is attached by this tag
		}
		if layer.Size > maxPayload {
			return nil, contentErrorf("a signature of %s has %d bytes; expected at most %d", digest, layer.Size, maxPayload)
		}
		s := Signature{}
		if s.Signature, err = base64.StdEncoding.DecodeString(value); err != nil {
			return nil, contentErrorf("a signature of %s is not in base64: %v", digest, err)
		}
		if s.Payload, err = payload(ctx, from, w, layer); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func payload(ctx context.Context, from Source, w *Whole, layer v1.Descriptor) ([]byte, error) {
	stream, err := from.open(ctx, w.ref.Context(), layer)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	text, err := io.ReadAll(stream)
	if err != nil {
		return nil, fmt.Errorf("signature %s: %w", layer.Digest, err)
	}
	return text, nil
}

// Refused marks an error as an error about a single image: other images may be fine.
func Refused(err error) error { return contentErrorf("%v", err) }

// Walk finds the parts of an image.
func Walk(ctx context.Context, from Source, reference string) (*Whole, error) {
	return walkImage(ctx, from, reference)
}
