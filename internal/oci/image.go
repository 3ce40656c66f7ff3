// Package oci builds OCI images: images with files and labels but no program, such as bundles and catalogs, and images
// with a program for each architecture. It needs neither a container engine nor root. The same content has the same
// digest on every machine, as long as Go's compression does not change.
package oci

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Architectures are the architectures of OpenShift. The index of a Content has an image for each, with the same layer.
var Architectures = []string{"amd64", "arm64", "ppc64le", "s390x"}

// Content is the content of an image.
type Content struct {
	// Files are the image's files, each with its slash-separated path from the image's root. Folders are implied.
	Files map[string][]byte
	// Labels are the image's labels.
	Labels map[string]string
}

// Index returns the image for all architectures.
func (c Content) Index() (v1.ImageIndex, error) {
	files := Files{}
	for name, data := range c.Files {
		files[name] = File{Data: data}
	}
	layer, err := files.Layer()
	if err != nil {
		return nil, err
	}
	var images []v1.Image
	for _, architecture := range Architectures {
		image, err := Platform{Architecture: architecture, Layers: []v1.Layer{layer}, Labels: c.Labels}.Image()
		if err != nil {
			return nil, err
		}
		images = append(images, image)
	}
	return Index(images)
}
