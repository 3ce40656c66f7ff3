package bundle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-csi/berth/bundle/registryv1"
)

// annotations returns the bundle's annotations, which a catalog reads before it reads any object. A bundle image has the
// same labels.
func annotations(packageName, channel string) map[string]string {
	return map[string]string{
		registryv1.PackageAnnotation:        packageName,
		registryv1.MediaTypeAnnotation:      registryv1.MediaType,
		registryv1.ManifestsAnnotation:      registryv1.ManifestsDir + "/",
		registryv1.MetadataAnnotation:       registryv1.MetadataDir + "/",
		registryv1.ChannelsAnnotation:       channel,
		registryv1.DefaultChannelAnnotation: channel,
	}
}

// dockerfile returns the Dockerfile of the bundle's image: its files and, as labels, its annotations.
func dockerfile(annotations map[string]string) []byte {
	var text strings.Builder
	text.WriteString("FROM scratch\n\n")
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		fmt.Fprintf(&text, "LABEL %s=%q\n", key, annotations[key])
	}
	fmt.Fprintf(&text, "\nCOPY %s /%s/\nCOPY %s /%s/\n", registryv1.ManifestsDir, registryv1.ManifestsDir, registryv1.MetadataDir, registryv1.MetadataDir)
	return []byte(text.String())
}
